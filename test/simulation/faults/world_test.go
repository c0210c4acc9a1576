package faults

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/kvevents"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// mix is what kind of fleet a run is of.
type mix struct {
	name              string
	scheme            index.Scheme
	identity, replays bool
	corrupt           bool // a removal is lost now and then, unnoticed
	maxBlocks         int
}

// world is one run.
type world struct {
	t       *testing.T
	ctx     context.Context
	mix     mix
	net     *wire.Network
	engines []*engine
	began   time.Time
	seed    uint64

	mu       sync.Mutex // guards what follows
	rnd      *rand.Rand
	replicas map[string]*replica
	truth    map[uint64]fact // by hash of a batch
	parts    map[[2]string]time.Time
	faults   bool
	story    bytes.Buffer
	violated []string
	counts   map[string]int
	prompts  map[int][]*blockID // the blocks that may follow one
	blocks   int
}

// fact is what an engine held at the end of a batch.
type fact struct {
	rank   *rank
	digest uint64
}

const (
	faultsFor = 100 * time.Second
	calmFor   = 500 * time.Second
	silentFor = 200 * time.Second
)

func newWorld(t *testing.T, seed uint64, m mix) *world {
	w := &world{t: t, mix: m, net: wire.NewNetwork(), seed: seed, rnd: rand.New(rand.NewPCG(seed, 7)), began: time.Now(), faults: true,
		replicas: map[string]*replica{}, truth: map[uint64]fact{}, parts: map[[2]string]time.Time{}, counts: map[string]int{}, prompts: map[int][]*blockID{}}
	w.engines = []*engine{newEngine(w, "e1", 2), newEngine(w, "e2", 2)}
	return w
}

// stream gives a rank dice of its own, so that what engines say does not depend on who listens.
func (w *world) stream(name string, dp int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, name, dp)
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

func (w *world) latency(most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rnd.Int64N(int64(most)))
}

func (w *world) chance(p float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.Float64() < p
}

func (w *world) pick(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(n)
}

func (w *world) calm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.faults
}

// note remembers what a rank holds at the end of a batch.
func (w *world) note(r *rank, hash, digest uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.truth[hash] = fact{r, digest}
}

func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(&w.story, "%8.3f ", time.Since(w.began).Seconds())
	fmt.Fprintf(&w.story, format+"\n", args...)
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// bad books a violation; the first of a run tell enough.
func (w *world) bad(format string, args ...any) {
	w.say("VIOLATION "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.violated) < 5 {
		w.violated = append(w.violated, fmt.Sprintf("at %.3f s: ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
	}
}

func (w *world) must(err error) {
	if err != nil {
		w.bad("%v", err)
	}
}

// log has a replica's own log in the story.
func (w *world) log(name string) io.Writer {
	return writer(func(p []byte) { w.say("%s %s", name, bytes.TrimSpace(p)) })
}

type writer func(p []byte)

func (f writer) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func (w *world) present() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.replicas))
}

func (w *world) parted(a, b string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.parts[[2]string{min(a, b), max(a, b)}])
}

// corrupts takes a removal out of a batch, if the mix wants that and it is time.
func (w *world) corrupts(s *subscriber, b *kvevents.Batch) bool {
	if !w.mix.corrupt || w.calm() || !w.chance(0.002) {
		return false
	}
	kept := b.Events[:0]
	for _, e := range b.Events {
		if _, removed := e.(*kvevents.Removed); !removed {
			kept = append(kept, e)
		}
	}
	lost := len(kept) < len(b.Events)
	b.Events = kept
	return lost
}

// slow is a source whose index takes time to walk: streams go on between the rows and the blocks, and before the names.
type slow struct {
	snapshot.Source
	w *world
}

func (s slow) Sections() []snapshot.SourceSection {
	rows := s.Source.Sections()
	sleep(s.w.ctx, s.w.latency(1500*time.Millisecond))
	return rows
}

func (s slow) Hashes(ctx context.Context, key snapshot.SectionKey, rank index.Rank, emit func([]snapshot.HashRow, []snapshot.OrphanRow) error) error {
	sleep(ctx, s.w.latency(500*time.Millisecond))
	return s.Source.Hashes(ctx, key, rank, emit)
}

// play runs the world to its end.
func (w *world) play() {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.ctx = ctx
	var tasks sync.WaitGroup
	for _, e := range w.engines {
		e.boot()
		for _, r := range e.ranks {
			tasks.Go(func() { r.live(ctx) })
		}
	}
	for _, name := range []string{"r1", "r2", "r3"} {
		w.begin(name)
		sleep(ctx, w.latency(20*time.Second))
	}
	tasks.Go(func() { w.audit(ctx) })
	for end := time.Now().Add(faultsFor); time.Now().Before(end); {
		sleep(ctx, 500*time.Millisecond+w.latency(3*time.Second))
		w.fault()
	}
	w.mu.Lock()
	w.faults = false
	clear(w.parts)
	w.mu.Unlock()
	w.say("the faults are over")
	w.revive()
	sleep(ctx, calmFor)
	for _, e := range w.engines {
		e.mu.Lock()
		for _, r := range e.ranks {
			r.silent = true
		}
		e.mu.Unlock()
	}
	sleep(ctx, silentFor)
	synctest.Wait()
	w.final()
	for _, r := range w.replicas {
		r.die()
	}
	cancel()
	tasks.Wait()
	sleep(w.t.Context(), dialsFor)
}

// dialsFor is longer than any dial: net/http goes on dialling for a request that is over.
const dialsFor = time.Minute

func (w *world) begin(name string) {
	r := w.run(name)
	w.mu.Lock()
	w.replicas[name] = r
	w.mu.Unlock()
}

// audit looks at every rank of every replica all along.
func (w *world) audit(ctx context.Context) {
	for sleep(ctx, 250*time.Millisecond) {
		for _, r := range w.all() {
			for _, rank := range r.pump.View().Ranks() {
				w.check(r, rank)
			}
		}
	}
}

func (w *world) all() []*replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*replica
	for _, name := range slices.Sorted(maps.Keys(w.replicas)) {
		out = append(out, w.replicas[name])
	}
	return out
}

// claims tells whether a rank calls what it holds the whole truth as of its cursor.
func claims(st *ingest.Status) bool {
	return (st.Cursor.Proof == ingest.Origin || st.Cursor.Proof == ingest.Proven) && !st.Cursor.Partial &&
		!st.Trust.Suspect && st.State != ingest.Repairing && st.Awaiting == nil && st.Cursor.Seq >= st.WalkedTo
}

// check compares a rank with its engine as of its cursor.
func (w *world) check(r *replica, rank *ingest.Rank) {
	st := rank.Status()
	if st.State == ingest.Pending && st.Owed == nil && !w.mix.replays {
		w.bad("%s: %v is pending, and nobody's obligation", r.name, rank.Rank)
	}
	if w.mix.corrupt || !claims(st) {
		return
	}
	w.mu.Lock()
	f, known := w.truth[st.Cursor.Hash]
	w.mu.Unlock()
	switch {
	case st.Cursor.Hash == 0:
	case !known || f.rank.e.name != rank.Rank.Worker || f.rank.dp != rank.Rank.DP:
		w.bad("%s: %v stands at a batch nobody published: %+v", r.name, rank.Rank, st.Cursor)
	case f.digest != st.Digest:
		w.bad("%s: %v at %d is %v and holds %x, its engine held %x (seeded from %q, %v)", r.name, rank.Rank, st.Cursor.Seq,
			st.Cursor.Proof, st.Digest, f.digest, st.SeededFrom, st.Outcome)
	}
}

// final checks the end: every rank is whole and at the end of its engine's stream, or says what it is worth.
func (w *world) final() {
	for _, r := range w.all() {
		for _, rank := range r.pump.View().Ranks() {
			w.check(r, rank)
			w.finalRank(r, rank)
		}
	}
}

func (w *world) finalRank(r *replica, rank *ingest.Rank) {
	st := rank.Status()
	var e *engine
	for _, x := range w.engines {
		if x.name == rank.Rank.Worker {
			e = x
		}
	}
	e.mu.Lock()
	x := e.ranks[rank.Rank.DP]
	next, digest, changed := x.next, x.holder.Digest, e.changed
	if x.firstAt.After(changed) {
		changed = x.firstAt // a second copy of the first batch, within the clock's margin, is taken for a restart too
	}
	e.mu.Unlock()
	for h, n := range st.Tally.Restarts {
		if n > 0 && changed.Add(10*time.Second).Before(r.began) { // so may a clock that steps back (reading 9)
			w.bad("%s: %v took %d restarts by %v for granted, its engine never restarted", r.name, rank.Rank, n, ingest.How(h))
		}
	}
	whole := claims(st)
	w.count(fmt.Sprintf("end %v", map[bool]string{true: "whole", false: standing(st)}[whole]))
	switch {
	case !st.Connected, st.State == ingest.Pending, st.State == ingest.Proving, st.State == ingest.Repairing, st.Awaiting != nil:
		w.bad("%s: %v ends %v, connected %v, owed %+v, awaiting %+v", r.name, rank.Rank, st.State, st.Connected, st.Owed, st.Awaiting)
	case !whole:
	case st.Cursor.Seq != next-1:
		w.bad("%s: %v ends at %d, its engine at %d", r.name, rank.Rank, st.Cursor.Seq, next-1)
	case st.Digest != digest && !w.mix.corrupt:
		w.bad("%s: %v ends with %x, its engine with %x", r.name, rank.Rank, st.Digest, digest)
	case st.Digest != digest:
		w.count("end wrong, not suspect")
	}
	for h, n := range st.Tally.Repairs {
		w.counts["repair "+ingest.Repair(h).String()] += int(n)
	}
	w.counts["tails"] += int(st.Tally.Tails)
	w.counts["heals"] += int(st.Tally.Heals)
	w.counts["gaps"] += int(st.Tally.Gaps)
	w.counts["overflows"] += int(st.Tally.Overflows)
	for h, n := range st.Tally.Restarts {
		w.counts["restart "+ingest.How(h).String()] += int(n)
	}
}

// standing is what a rank that does not claim to be whole says of itself.
func standing(st *ingest.Status) string {
	switch {
	case st.State == ingest.Cold:
		return "cold"
	case st.Trust.Suspect:
		return "suspect"
	case st.Cursor.Partial:
		return "partial"
	default:
		return st.Cursor.Proof.String()
	}
}
