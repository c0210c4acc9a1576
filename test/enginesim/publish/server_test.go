package publish

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
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
)

// rig is an engine double with its event sockets on a network in memory.
type rig struct {
	t       *testing.T
	network *kveventstest.Network
	server  *Server
	engine  *enginesim.Engine
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
		engine.Observer = r.server
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

// follower is a subscriber that believes what it hears, with the router's decoder.
type follower struct {
	decoder *kvevents.Decoder
	held    map[kvevents.Hash]bool
	keys    map[kvevents.Hash]index.Key // in the tokens scheme, of held blocks
	heard   []string
	seqs    []int64
	skips   kvevents.Skips
	wrong   []string
}

func newFollower(scheme index.Scheme) *follower {
	return &follower{
		decoder: kvevents.NewDecoder(kvevents.DecoderOptions{Scheme: scheme, Seed: seed}),
		held:    map[kvevents.Hash]bool{}, keys: map[kvevents.Hash]index.Key{},
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
	f.seqs = append(f.seqs, seq)
	if seq != EndSeq {
		f.apply(f.decoder.Decode(seq, parts[2]))
	}
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
			}
		case *kvevents.Removed:
			if e.Group == 1 {
				continue
			}
			for _, h := range e.Hashes {
				if !f.held[h] {
					f.wrong = append(f.wrong, "removed what was not stored")
				}
				delete(f.held, h)
				delete(f.keys, h)
			}
		case *kvevents.Cleared:
			clear(f.held)
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
	for _, key := range blocks[rank] {
		one := batch{events: []event{{kind: blockRemoved, hashes: []hash{names.of(key)}}}}
		b := f.decoder.Decode(0, shapes[d].encode(one))
		want[b.Events[0].(*kvevents.Removed).Hashes[0]] = true
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
	if len(f.wrong) > 0 || f.skips != (kvevents.Skips{}) {
		r.t.Errorf("%s: told nonsense: %v, skips %v", d, f.wrong, f.skips)
	}
}

func TestWhoFollowsFromTheStartHoldsExactlyWhatIsCached(t *testing.T) {
	setups := []Options{{Dialect: VLLMMap, HashScheme: SHA256CBOR, HashSeed: "0", LoRA: "tuned"}, {Dialect: VLLMArray, Hybrid: true}}
	for _, d := range Dialects() {
		setups = append(setups, Options{Dialect: d})
	}
	for i, opts := range setups {
		for round := range 4 {
			t.Run(fmt.Sprintf("%s/setup=%d/seed=%d", opts.Dialect, i, round), func(t *testing.T) {
				engine := enginesim.Options{DPSize: 2, PageSize: 2, Blocks: 24, MaxRunning: 4, TokenInterval: 7 * time.Millisecond}
				engine.Bigram = round == 3 && !opts.Dialect.IsVLLM()
				served(t, engine, opts, func(r *rig) { r.traffic(uint64(round)) })
			})
		}
	}
}

// traffic plays random prompts with shared prefixes under cache pressure, and
// compares at every rest.
func (r *rig) traffic(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	followers := make([]*follower, 2)
	for rank := range followers {
		f, stop := r.follow(rank, index.SchemeTokens)
		defer stop()
		followers[rank] = f
	}
	removals := int64(0)
	for range 6 {
		for range 12 {
			prompt := make([]uint32, 1+random.IntN(20))
			for i := range prompt {
				prompt[i] = uint32(random.IntN(2))
			}
			salt := ""
			if random.IntN(4) == 0 {
				salt = "tenant"
			}
			ctx, cancel := context.WithTimeout(r.t.Context(), time.Duration(random.IntN(100))*time.Millisecond)
			defer cancel()
			_, err := r.engine.Submit(ctx, enginesim.Request{Prompt: prompt, Output: enginesim.Answer(prompt, 0, random.IntN(12)), Rank: random.IntN(2), CacheSalt: salt})
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				r.t.Fatal(err)
			}
			<-time.After(time.Duration(random.IntN(30)) * time.Millisecond)
		}
		r.settle()
		if random.IntN(4) == 0 {
			if _, err := r.engine.ClearCache(r.t.Context()); err != nil {
				r.t.Fatal(err)
			}
			synctest.Wait()
		}
		for rank, f := range followers {
			r.wantTruth(f, rank)
		}
	}
	states, err := r.engine.State(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, st := range states {
		removals += st.Totals.RemovedBlocks
	}
	for _, f := range followers {
		for i, seq := range f.seqs {
			if seq != int64(i) {
				r.t.Fatalf("message %d has seq %d", i, seq)
			}
		}
	}
	if removals == 0 {
		r.t.Error("nothing was ever evicted: the test proves too little")
	}
}

// The keys of the tokens scheme come from tokens, salt and adapter alone, so they
// are equal in every dialect of vLLM, whatever the hashes.
func TestEveryDialectOfVLLMGivesTheSameTokenChains(t *testing.T) {
	prompt := tokens(1, 9)
	for _, salt := range []string{"", "tenant"} {
		want, parent := map[index.Key]bool{}, seed.RootKey("m", salt)
		for i := range 4 {
			var block []byte
			for _, token := range prompt[2*i : 2*i+2] {
				block = index.AppendToken(block, token)
			}
			parent = parent.Next(seed.Chunk(index.AppendSuffix(block, "tuned", nil)))
			want[parent] = true
		}
		for _, d := range []Dialect{VLLMArray, VLLMMap, VLLMMapBatch, VLLMInt, VLLMIntMap} {
			served(t, enginesim.Options{DPSize: 1, PageSize: 2}, Options{Dialect: d, LoRA: "tuned"}, func(r *rig) {
				f, stop := r.follow(0, index.SchemeTokens)
				defer stop()
				r.ask(0, prompt, 0, salt)
				if len(f.keys) != len(want) {
					t.Errorf("%s: %d keys, want %d", d, len(f.keys), len(want))
				}
				for _, key := range f.keys {
					if !want[key] {
						t.Errorf("%s, salt %q: a key of no block", d, salt)
					}
				}
			})
		}
	}
}

func TestAReplayRepeatsTheLiveStream(t *testing.T) {
	for _, opts := range []Options{{Dialect: SGLangMap}, {Dialect: VLLMMap, ReplayTopic: true}} {
		served(t, enginesim.Options{DPSize: 2, PageSize: 2}, opts, func(r *rig) {
			for i := range 5 {
				r.ask(1, tokens(100*i, 5), 0, "")
			}
			got := r.replay(1, 2)
			if got.Ending != kvevents.Complete || !got.Covers(4) || len(got.Batches) != 3 {
				t.Errorf("%v with %d batches, %v", got.Ending, len(got.Batches), got.Err)
			}
			got.Release()
			f := newFollower(index.SchemeTokens)
			whole := r.replay(1, 0)
			for _, b := range whole.Batches {
				f.apply(b.Batch)
			}
			r.wantTruth(f, 1)
			if rank0 := r.replay(0, 0); rank0.Ending != kvevents.Complete || len(rank0.Batches) != 0 {
				t.Errorf("an idle rank: %v with %d batches", rank0.Ending, len(rank0.Batches))
			}
		})
	}
}

func (r *rig) replay(rank int, start int64) *kvevents.ReplayResult {
	return kvevents.Replay(r.t.Context(), kvevents.ReplayOptions{
		Address: r.server.address(5657, rank), Start: start, ZMTP: zmtp.Options{Dial: r.network.Dial},
		Decoder: kvevents.DecoderOptions{Scheme: index.SchemeTokens, Seed: seed},
	})
}

func TestAReplayRequestOfAnotherShapeIsNotAnswered(t *testing.T) {
	served(t, enginesim.Options{DPSize: 1, PageSize: 2}, Options{}, func(r *rig) {
		c, err := zmtp.Dial(r.t.Context(), r.server.address(5657, 0), zmtp.DEALER, zmtp.Options{Dial: r.network.Dial, HeartbeatInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		for _, parts := range [][][]byte{{make([]byte, 8)}, {nil, make([]byte, 7)}, {nil, make([]byte, 8), nil}, {{1}, make([]byte, 8)}} {
			if err := c.Send(parts...); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Send(nil, make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		got, err := c.Recv()
		if err != nil || len(got) != 3 || !slices.Equal(got[1], seqFrame(EndSeq)) {
			t.Errorf("the first answer is %q, %v; want the terminator of the one good request", got, err)
		}
	})
}

// One goroutine publishes and replays, as in a real engine.
func TestASlowReplayHoldsLiveEventsUp(t *testing.T) {
	served(t, enginesim.Options{DPSize: 1, PageSize: 2}, Options{}, func(r *rig) {
		f, stop := r.follow(0, index.SchemeTokens)
		defer stop()
		for i := range 3 {
			r.ask(0, tokens(100*i, 5), 0, "")
		}
		if err := r.server.pub.Set(Fault{Name: ReplaySlow, Delay: time.Second}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ended := make(chan *kvevents.ReplayResult, 1)
		go func() { ended <- r.replay(0, 0) }()
		synctest.Wait()
		r.ask(0, tokens(900, 5), 0, "")
		if len(f.seqs) != 3 {
			t.Errorf("%d batches while a replay runs, want 3", len(f.seqs))
		}
		got := <-ended
		synctest.Wait()
		if got.Ending != kvevents.Complete || time.Since(begin) != 4*time.Second || len(got.Batches) != 3 || len(f.seqs) != 4 {
			t.Errorf("%v with %d batches after %v, then %d live ones", got.Ending, len(got.Batches), time.Since(begin), len(f.seqs))
		}
		got.Release()
	})
}

func TestReplayFaultsEndReplaysTheWayTheySay(t *testing.T) {
	for name, want := range map[FaultName]kvevents.Ending{ReplaySilent: kvevents.TimedOut, ReplayTruncate: kvevents.TimedOut, Hang: kvevents.TimedOut, ReplayReorder: kvevents.Complete} {
		served(t, enginesim.Options{DPSize: 1, PageSize: 2}, Options{}, func(r *rig) {
			for i := range 3 {
				r.ask(0, tokens(100*i, 5), 0, "")
			}
			if err := r.server.pub.Set(Fault{Name: name, Params: Params{AfterBatches: 2}}); err != nil {
				t.Fatal(err)
			}
			got := r.replay(0, 0)
			if got.Ending != want || got.Covers(2) {
				t.Errorf("%s: %v with %d batches", name, got.Ending, len(got.Batches))
			}
			got.Release()
		})
	}
}

func TestARestartWithCutEndsConnectionsAndListensAgain(t *testing.T) {
	served(t, enginesim.Options{DPSize: 2, PageSize: 2}, Options{}, func(r *rig) {
		f, stop := r.follow(0, index.SchemeTokens)
		defer stop()
		r.ask(0, tokens(1, 5), 0, "")
		r.server.pub.PlanRestart(Restart{Cut: true})
		if err := r.engine.Restart(r.t.Context()); err != nil {
			t.Fatal(err)
		}
		r.settle()
		if !slices.Equal(f.heard, []string{"up 1", "down 1", "up 2"}) {
			t.Errorf("the subscriber went through %v", f.heard)
		}
		r.ask(0, tokens(1, 7), 0, "")
		if !slices.Equal(f.seqs, []int64{0, 0}) {
			t.Errorf("seqs %v, want the new life to begin at 0", f.seqs)
		}
		if got := r.replay(0, 0); got.Ending != kvevents.Complete || len(got.Batches) != 1 {
			t.Errorf("the replay socket: %v with %d batches, %v", got.Ending, len(got.Batches), got.Err)
		}
	})
}

func TestARestartWithoutCutKeepsTheConnection(t *testing.T) {
	served(t, enginesim.Options{DPSize: 1, PageSize: 2}, Options{}, func(r *rig) {
		f, stop := r.follow(0, index.SchemeTokens)
		defer stop()
		r.ask(0, tokens(1, 5), 0, "")
		r.server.pub.PlanRestart(Restart{EndSeq: true})
		if err := r.engine.Restart(r.t.Context()); err != nil {
			t.Fatal(err)
		}
		r.ask(0, tokens(1, 5), 0, "")
		if !slices.Equal(f.heard, []string{"up 1"}) || !slices.Equal(f.seqs, []int64{0, EndSeq, 0}) {
			t.Errorf("the subscriber heard %v and seqs %v", f.heard, f.seqs)
		}
	})
}

// gauge follows a rank's load.
type gauge struct {
	follower
	values [][]any
}

func (g *gauge) Message(_ uint64, parts [][]byte) {
	v, _, err := msgp.ReadIntfBytes(parts[2])
	if err != nil || string(parts[0]) != DefaultLoadTopic {
		g.wrong = append(g.wrong, fmt.Sprintf("%q: %v", parts, err))
		return
	}
	g.values = append(g.values, v.([]any))
}

func loads(t *testing.T, test func(*rig, *gauge)) {
	served(t, enginesim.Options{DPSize: 2, PageSize: 2, Blocks: 50, TokenInterval: time.Hour}, Options{Ports: Ports{Events: 5557, Load: 5757}}, func(r *rig) {
		g := &gauge{}
		sub := zmtp.NewSub(zmtp.SubOptions{Options: zmtp.Options{Dial: r.network.Dial, HeartbeatInterval: -1}, Address: r.server.address(5757, 1), Topic: DefaultLoadTopic}, g)
		ctx, cancel := context.WithCancel(r.t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = sub.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		ctx, drop := context.WithCancel(r.t.Context())
		defer drop()
		if _, err := r.engine.Submit(ctx, enginesim.Request{Prompt: tokens(1, 5), Output: tokens(1, 2), Rank: 1}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second + time.Millisecond)
		synctest.Wait()
		test(r, g)
		if len(g.wrong) > 0 {
			t.Errorf("%v", g.wrong)
		}
	})
}

func TestTheLoadGaugeIsSGLangs(t *testing.T) {
	loads(t, func(_ *rig, g *gauge) {
		if len(g.values) < 5 {
			t.Fatalf("%d values in a second, want 5", len(g.values))
		}
		// Seven tokens take four pages of two.
		if got := fmt.Sprint(g.values[len(g.values)-1]...); got != fmt.Sprint("LoadStat", 1, 0, 8, 100, 1) {
			t.Errorf("got %s", got)
		}
	})
}

func testLoadSilent(t *testing.T) {
	loads(t, func(r *rig, g *gauge) {
		if err := r.server.pub.Set(Fault{Name: LoadSilent}); err != nil {
			t.Fatal(err)
		}
		before := len(g.values)
		r.settle()
		if before == 0 || len(g.values) != before {
			t.Errorf("%d values before the fault, %d with it", before, len(g.values)-before)
		}
	})
}

func TestAFullQueueLosesStepsAndSaysSo(t *testing.T) {
	s, err := NewServer(ServerOptions{Options: Options{Ports: Ports{Events: 5557}}, QueueSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s.Observe(enginesim.Step{Changes: []enginesim.Change{enginesim.Cleared{}}})
	}
	if s.Overflows() != 3 {
		t.Errorf("%d steps were lost, want 3", s.Overflows())
	}
}

// TestRealSocketsCarryTheEvents is the one test on loopback.
func TestRealSocketsCarryTheEvents(t *testing.T) {
	var addresses []string
	s, err := NewServer(ServerOptions{
		Options: Options{PageSize: 2, Ports: Ports{Events: 5557, Replay: 5657}},
		Listen: func(network, _ string) (net.Listener, error) {
			l, err := net.Listen(network, "127.0.0.1:0")
			if err == nil {
				addresses = append(addresses, l.Addr().String())
			}
			return l, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bind(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, nil) }()
	defer func() { stop(); <-ended }()
	heard := make(chan int64, 10)
	sub := zmtp.NewSub(zmtp.SubOptions{Address: addresses[0]}, listener(heard))
	running := make(chan struct{})
	go func() { defer close(running); _ = sub.Run(ctx) }()
	defer func() { stop(); <-running }()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for s.Subscriptions(0) == 0 {
		<-ticker.C
	}
	s.Observe(enginesim.Step{Time: time.Now(), Changes: []enginesim.Change{chain(1, 2)}})
	if seq := <-heard; seq != 0 {
		t.Errorf("seq %d", seq)
	}
	got := kvevents.Replay(t.Context(), kvevents.ReplayOptions{Address: addresses[1], Decoder: kvevents.DecoderOptions{Scheme: index.SchemeSGLang}})
	if !got.Covers(0) {
		t.Errorf("replay: %v, %v", got.Ending, got.Err)
	}
}

// listener tells the seqs it hears.
type listener chan int64

func (listener) Connected(uint64)           {}
func (listener) Disconnected(uint64, error) {}
func (listener) Unreachable(error)          {}
func (l listener) Message(_ uint64, parts [][]byte) {
	l <- int64(parts[1][7])
}

func TestATakenPortIsAnErrorAndLeavesNothingOpen(t *testing.T) {
	open := 0
	s, err := NewServer(ServerOptions{
		Options: Options{DPSize: 2, Ports: Ports{Events: 5557, Replay: 5657}},
		Listen: func(network, address string) (net.Listener, error) {
			if address == "0.0.0.0:5658" {
				return nil, errors.New("address already in use")
			}
			open++
			return &counted{open: &open}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bind(); err == nil || open != 0 {
		t.Errorf("Bind: %v, %d listeners are open", err, open)
	}
}

// counted is a listener that only can be closed.
type counted struct {
	net.Listener
	open *int
}

func (c *counted) Close() error { *c.open--; return nil }
