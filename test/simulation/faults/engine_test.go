package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/kvevents"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
)

const (
	blockSize = 4
	ring      = 60 // batches an engine repeats
	highWater = 6  // batches a stalled connection takes before the publisher drops
	rootBlock = -1
)

// fleetSeed is the secret of scheme tokens.
const fleetSeed = index.Seed(0x5eed)

// engine is one pod: processes follow each other, ranks publish.
type engine struct {
	w     *world
	name  string // pod UID too
	ranks []*rank

	mu      sync.Mutex // guards what follows and the ranks
	alive   bool
	process int
	offset  time.Duration // of its clock
	changed time.Time     // when the process or the clock changed last
}

// rank is one data-parallel rank of an engine.
type rank struct {
	e       *engine
	dp      int32
	next    int64
	ring    []message
	blocks  []*block // what it holds
	truth   *index.Index
	holder  *index.Holder
	conns   map[*conn]bool
	silent  bool
	quiet   time.Time // until then nothing is said
	firstAt time.Time // when the process said its first batch
	rnd     *rand.Rand
	decoder *kvevents.Decoder
}

type block struct {
	id, parent *blockID
	children   int
}

// blockID names a block and knows its key.
type blockID struct {
	n   int
	key index.Key
}

type message struct {
	seq     int64
	payload []byte
}

func newEngine(w *world, name string, ranks int) *engine {
	e := &engine{w: w, name: name}
	for dp := range ranks {
		e.ranks = append(e.ranks, &rank{e: e, dp: int32(dp), conns: map[*conn]bool{}, rnd: w.stream(name, dp),
			decoder: kvevents.NewDecoder(kvevents.DecoderOptions{Scheme: w.mix.scheme, Seed: fleetSeed})})
	}
	return e
}

// boot begins a process: an empty cache, and seqs from 0.
func (e *engine) boot() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.process++
	e.alive, e.changed = true, time.Now()
	for _, r := range e.ranks {
		r.next, r.ring, r.blocks = 0, nil, nil
		r.truth = index.New(index.Options{Rand: func() uint64 { return 0x9e3779b97f4a7c15 }})
		r.holder, _ = r.truth.Rank(index.Rank{Worker: e.name, DP: r.dp}) // the first rank of an empty index
	}
}

// start is what the process says of itself.
func (e *engine) start() ingest.Start {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !e.alive:
		return ingest.Start{}
	case !e.w.mix.identity:
		return ingest.Start{Known: true}
	}
	return ingest.Start{Known: true, ID: fmt.Sprintf("%s/%d", e.name, e.process)}
}

// live publishes now and then.
func (r *rank) live(ctx context.Context) {
	for sleep(ctx, r.pace()) {
		r.publish(false)
	}
}

func (r *rank) pace() time.Duration {
	mean := 400 * time.Millisecond
	if r.e.w.calm() {
		mean = 3 * time.Second
	}
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	return time.Duration((0.1 + r.rnd.ExpFloat64()) * float64(mean))
}

// publish says one batch. A hole is one that nobody gets, and that is not repeated.
func (r *rank) publish(hole bool) {
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	if !r.e.alive || r.silent || time.Now().Before(r.quiet) {
		return
	}
	var events []wire.Event
	for range 1 + r.rnd.IntN(2) {
		events = append(events, r.event())
	}
	if r.next == 0 {
		r.firstAt = time.Now()
	}
	at := time.Now().Add(r.e.offset)
	m := message{r.next, wire.SGLangMap.Encode(wire.Batch{TS: float64(at.UnixNano()) / 1e9, Events: events})}
	r.next++
	b := r.decoder.Decode(m.seq, m.payload)
	r.e.w.note(r, b.Hash, r.holder.Digest)
	b.Release()
	if hole {
		r.e.w.say("%s/%d has a hole at %d", r.e.name, r.dp, m.seq)
		return
	}
	if r.ring = append(r.ring, m); len(r.ring) > ring {
		r.ring = r.ring[1:]
	}
	for c := range r.conns {
		c.send(m)
	}
}

// event changes the rank's cache as an engine's does: blocks behind blocks, and only ends are evicted.
func (r *rank) event() wire.Event {
	switch x := r.rnd.IntN(1000); {
	case x < 8:
		r.blocks = nil
		_ = r.truth.Clear(r.holder) // there are ids enough
		return wire.Cleared{}
	case x < 580 || len(r.blocks) == 0:
		return r.store()
	default:
		return r.evict()
	}
}

func (r *rank) store() wire.Event {
	var parent *block
	if len(r.blocks) > 0 && r.rnd.IntN(4) > 0 {
		parent = r.blocks[r.rnd.IntN(len(r.blocks))]
	}
	b := r.prompt(parent)
	s := wire.Stored{BlockSize: blockSize, Medium: "GPU", Hashes: []wire.Hash{wire.Hash(b.id.n)}}
	p := index.Root
	if parent != nil {
		h := wire.Hash(parent.id.n)
		s.Parent, b.parent, p = &h, parent.id, index.After(parent.id.key)
		parent.children++
	}
	s.Tokens = tokensOf(b.id.n)
	r.truth.Store(r.holder, p, []index.Key{b.id.key}, index.Device)
	r.blocks = append(r.blocks, b)
	return s
}

// prompt gives a block behind another that the rank does not hold: prompts are alike, so engines come to hold the same
// blocks, and again after a restart.
func (r *rank) prompt(parent *block) *block {
	after := rootBlock
	if parent != nil {
		after = parent.id.n
	}
	held := map[int]bool{}
	for _, b := range r.blocks {
		held[b.id.n] = true
	}
	w := r.e.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range w.prompts[after] {
		if !held[id.n] && r.rnd.IntN(2) == 0 {
			return &block{id: id}
		}
	}
	w.blocks++
	id := &blockID{n: w.blocks}
	b := &block{id: id}
	if parent != nil {
		b.parent = parent.id
	}
	id.key = w.keyOf(b, tokensOf(id.n))
	w.prompts[after] = append(w.prompts[after], id)
	return &block{id: id}
}

func tokensOf(n int) (out []uint32) {
	for i := range blockSize {
		out = append(out, uint32(blockSize*n+i))
	}
	return out
}

func (w *world) keyOf(b *block, tokens []uint32) index.Key {
	if w.mix.scheme != index.SchemeTokens {
		return index.Key(b.id.n)
	}
	var bytes []byte
	for _, t := range tokens {
		bytes = index.AppendToken(bytes, t)
	}
	parent := fleetSeed.RootKey("m", "")
	if b.parent != nil {
		parent = b.parent.key
	}
	return parent.Next(fleetSeed.Chunk(bytes))
}

func (r *rank) evict() wire.Event {
	for {
		at := r.rnd.IntN(len(r.blocks))
		b := r.blocks[at]
		if b.children > 0 {
			continue
		}
		r.blocks = slices.Delete(r.blocks, at, at+1)
		for _, p := range r.blocks {
			if p.id == b.parent {
				p.children--
			}
		}
		r.truth.Remove(r.holder, []index.Key{b.id.key}, index.AllTiers)
		return wire.Removed{Medium: "GPU", Hashes: []wire.Hash{wire.Hash(b.id.n)}}
	}
}

// die ends the process; its connections break, some of them unnoticed for a while.
func (e *engine) die() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.alive = false
	for _, r := range e.ranks {
		for c := range r.conns {
			c.breakOff()
		}
		clear(r.conns)
	}
}

// repeat answers a replay.
func (r *rank) repeat(ctx context.Context, from int64) *kvevents.ReplayResult {
	out := &kvevents.ReplayResult{Start: from, Ending: kvevents.Torn, Dense: true}
	if !r.e.w.mix.replays || !sleep(ctx, r.e.w.latency(200*time.Millisecond)) {
		return out
	}
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	if !r.e.alive {
		return out
	}
	for _, m := range r.ring {
		if m.seq >= from {
			b := kvevents.NewDecoder(kvevents.DecoderOptions{Scheme: r.e.w.mix.scheme, Seed: fleetSeed}).Decode(m.seq, m.payload)
			if n := len(out.Batches); n > 0 && out.Batches[n-1].Seq+1 != b.Seq {
				out.Dense = false
			}
			out.Batches = append(out.Batches, kvevents.Replayed{Batch: b})
		}
	}
	out.Ending = kvevents.Complete
	return out
}

// conn is one connection of a replica to a rank.
type conn struct {
	w      *world
	queue  chan message
	broken chan struct{}
	once   sync.Once

	mu      sync.Mutex // guards what follows
	lossy   int        // so many batches are lost
	stalled time.Time  // until then nothing is read
}

func (r *rank) connect() *conn {
	c := &conn{w: r.e.w, queue: make(chan message, 4096), broken: make(chan struct{})}
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	if !r.e.alive {
		return nil
	}
	r.conns[c] = true
	return c
}

func (r *rank) leave(c *conn) {
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	delete(r.conns, c)
}

func (c *conn) breakOff() { c.once.Do(func() { close(c.broken) }) }

func (c *conn) send(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.lossy > 0:
		c.lossy--
	case time.Now().Before(c.stalled) && len(c.queue) >= highWater:
	default:
		select {
		case c.queue <- m:
		default:
		}
	}
}

func (c *conn) lose(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lossy += n
}

func (c *conn) stall(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled = time.Now().Add(d)
}

func (c *conn) stalledFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Until(c.stalled)
}

// sleep waits by the bubble's clock and tells whether ctx still stands.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
