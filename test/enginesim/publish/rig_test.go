package publish

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
	"github.com/routerfleet/routerfleet/router/zmtp"
	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// rig is an engine double with its event sockets on a network in memory.
type rig struct {
	t       *testing.T
	network *kveventstest.Network
	server  *Server
	engine  *enginesim.Engine
	truth   *truth
}

// served runs test beside a served engine in virtual time.
func served(t *testing.T, engine enginesim.Options, opts Options, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, network: kveventstest.NewNetwork()}
		opts.DPSize, opts.PageSize = engine.DPSize, engine.PageSize
		if opts.Ports.Events == 0 {
			opts.Ports = Ports{Events: 5557, Replay: 5657}
		}
		var err error
		r.server, err = NewServer(ServerOptions{
			Options: opts, Host: "engine", ZMTP: zmtp.Options{HeartbeatInterval: -1},
			Listen: func(_, address string) (net.Listener, error) { return r.network.Listen(address), nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.server.Bind(); err != nil {
			t.Fatal(err)
		}
		r.truth = &truth{Observer: r.server, opts: r.server.pub.opts, keys: map[cache.Key]index.Key{}}
		engine.Observer = r.truth
		if r.engine, err = enginesim.New(engine); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.engine.Run(ctx) })
		running.Go(func() {
			if err := r.server.Run(ctx, r.engine); !errors.Is(err, context.Canceled) {
				t.Errorf("Run ended with %v", err)
			}
		})
		test(r)
		stop()
		running.Wait()
	})
}

// truth stands before the server and names what is stored by the tokens scheme,
// from the tokens alone.
type truth struct {
	enginesim.Observer
	opts Options

	mu   sync.Mutex // guards keys: ranks observe at the same time
	keys map[cache.Key]index.Key
}

func (o *truth) Observe(step enginesim.Step) {
	o.mu.Lock()
	for _, c := range step.Changes {
		if c, ok := c.(enginesim.Stored); ok {
			o.store(c)
		}
	}
	o.mu.Unlock()
	o.Observer.Observe(step)
}

func (o *truth) store(c enginesim.Stored) {
	salt := c.CacheSalt
	if !o.opts.Dialect.IsVLLM() {
		salt = "" // SGLang does not tell
	}
	parent := seed.RootKey("m", salt)
	if c.Parent != nil {
		parent = o.keys[*c.Parent]
	}
	for i, key := range c.Keys {
		var block []byte
		for j := i * c.PageSize; j < (i+1)*c.PageSize; j++ {
			block = index.AppendToken(block, c.Tokens[j])
			if c.Bigram {
				block = index.AppendToken(block, c.Tokens[j+1])
			}
		}
		parent = parent.Next(seed.Chunk(index.AppendSuffix(block, o.opts.LoRA, nil)))
		o.keys[key] = parent
	}
}

// follower is a subscriber that believes what it hears, with the router's decoder.
type follower struct {
	decoder *kvevents.Decoder
	held    map[kvevents.Hash]bool
	windows map[kvevents.Hash]bool      // held by the sliding-window group
	keys    map[kvevents.Hash]index.Key // in the tokens scheme, of held blocks
	heard   []string
	mu      sync.Mutex // guards seqs, which a test may read while more is under way
	seqs    []int64
	skips   kvevents.Skips
	wrong   []string
}

func newFollower(scheme index.Scheme) *follower {
	return &follower{
		decoder: kvevents.NewDecoder(kvevents.DecoderOptions{Scheme: scheme, Seed: seed}),
		held:    map[kvevents.Hash]bool{}, windows: map[kvevents.Hash]bool{}, keys: map[kvevents.Hash]index.Key{},
	}
}

// seed is the fleet's, of the tokens scheme.
const seed = index.Seed(42)

func (f *follower) Connected(epoch uint64) { f.heard = append(f.heard, fmt.Sprint("up ", epoch)) }
func (f *follower) Disconnected(epoch uint64, _ error) {
	f.heard = append(f.heard, fmt.Sprint("down ", epoch))
}
func (f *follower) Unreachable(error) { f.heard = append(f.heard, "unreachable") }

func (f *follower) Message(_ uint64, parts [][]byte) {
	if len(parts) != 3 || len(parts[1]) != 8 {
		f.wrong = append(f.wrong, fmt.Sprintf("%d frames", len(parts)))
		return
	}
	seq, _, _ := msgp.ReadInt64Bytes(append([]byte{0xd3}, parts[1]...))
	f.mu.Lock()
	f.seqs = append(f.seqs, seq)
	f.mu.Unlock()
	if seq != EndSeq {
		f.apply(f.decoder.Decode(seq, parts[2]))
	}
}

// count is how many messages came so far.
func (f *follower) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seqs)
}

func (f *follower) apply(b *kvevents.Batch) {
	for i, n := range b.Skips {
		f.skips[i] += n
	}
	for _, e := range b.Events {
		switch e := e.(type) {
		case *kvevents.Stored:
			if e.GroupKind != kvevents.GroupWindow {
				f.store(e)
				continue
			}
			for _, h := range e.Hashes {
				f.windows[h] = true
			}
		case *kvevents.Removed:
			held := f.held
			if e.Group == 1 {
				held = f.windows
			}
			for _, h := range e.Hashes {
				if !held[h] {
					f.wrong = append(f.wrong, "removed what was not stored")
				}
				delete(held, h)
				if e.Group != 1 {
					delete(f.keys, h)
				}
			}
		case *kvevents.Cleared:
			clear(f.held)
			clear(f.windows)
			clear(f.keys)
		}
	}
	b.Release()
}

func (f *follower) store(e *kvevents.Stored) {
	parent := seed.RootKey("m", e.CacheSalt)
	if e.HasParent {
		if !f.held[e.Parent] {
			f.wrong = append(f.wrong, "stored behind an unknown parent")
		}
		parent = f.keys[e.Parent]
	}
	for i, h := range e.Hashes {
		if f.held[h] {
			f.wrong = append(f.wrong, "stored twice")
		}
		f.held[h] = true
		if len(e.Chunks) > 0 {
			parent = parent.Next(e.Chunks[i])
			f.keys[h] = parent
		}
	}
}

// follow subscribes to a rank until the test's bubble ends.
func (r *rig) follow(rank int, scheme index.Scheme) (f *follower, stop func()) {
	f = newFollower(scheme)
	sub := zmtp.NewSub(zmtp.SubOptions{
		Options: zmtp.Options{Dial: r.network.Dial, HeartbeatInterval: -1}, Address: r.server.address(5557, rank), Rand: func(int64) int64 { return 0 },
	}, f)
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = sub.Run(ctx) }()
	synctest.Wait()
	return f, func() { cancel(); <-ended }
}

// ask submits a prompt and waits for the end of its answer.
func (r *rig) ask(rank int, prompt []uint32, output int, salt string) {
	r.t.Helper()
	s, err := r.engine.Submit(r.t.Context(), enginesim.Request{Prompt: prompt, Output: enginesim.Answer(prompt, 0, output), Rank: rank, CacheSalt: salt})
	for err == nil {
		_, err = s.Next(r.t.Context())
	}
	synctest.Wait()
}

// settle lets redials and the publishing goroutines catch up.
func (r *rig) settle() {
	<-time.After(5 * time.Second)
	synctest.Wait()
}

// wantTruth checks that a follower holds exactly the rank's blocks.
func (r *rig) wantTruth(f *follower, rank int) {
	r.t.Helper()
	blocks, err := r.engine.Blocks(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	d := r.server.pub.opts.Dialect
	names := r.server.pub.ranks[rank].namer
	want := map[kvevents.Hash]bool{}
	r.truth.mu.Lock()
	defer r.truth.mu.Unlock()
	for _, key := range blocks[rank] {
		one := batch{events: []event{{kind: blockRemoved, hashes: []hash{names.of(key)}}}}
		b := f.decoder.Decode(0, shapes[d].encode(one))
		h := b.Events[0].(*kvevents.Removed).Hashes[0]
		want[h] = true
		if f.keys[h] != r.truth.keys[key] {
			r.t.Errorf("%s: a block of other tokens than the engine's", d)
		}
		b.Release()
	}
	missing := 0
	for h := range want {
		if !f.held[h] {
			missing++
		}
	}
	if missing > 0 || len(f.held) != len(want) {
		r.t.Errorf("%s: the rank caches %d blocks, the follower holds %d, %d are missing", d, len(want), len(f.held), missing)
	}
	for h := range f.windows {
		if !f.held[h] {
			r.t.Errorf("%s: the window keeps a block that is gone", d)
		}
	}
	if n := len(names.known); names.scheme == SHA256CBOR && n != len(want) {
		r.t.Errorf("%s: %d hashes are remembered for %d blocks", d, n, len(want))
	}
	if len(f.wrong) > 0 || f.skips != (kvevents.Skips{}) {
		r.t.Errorf("%s: told nonsense: %v, skips %v", d, f.wrong, f.skips)
	}
}

func (r *rig) replay(rank int, start int64) *kvevents.ReplayResult {
	return kvevents.Replay(r.t.Context(), kvevents.ReplayOptions{
		Address: r.server.address(5657, rank), Start: start, ZMTP: zmtp.Options{Dial: r.network.Dial},
		Decoder: kvevents.DecoderOptions{Scheme: index.SchemeTokens, Seed: seed},
	})
}
