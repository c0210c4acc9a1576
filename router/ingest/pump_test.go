package ingest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
)

// fakeLink is an engine as the pump sees it.
type fakeLink struct {
	mu      sync.Mutex // guards what follows
	start   Start
	repeats []kvevents.ReplayResult // answers, in turn; then silence until the question ends
	asked   []int64
	redials []uint64
	delay   time.Duration
}

func (f *fakeLink) Redial(epoch uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.redials = append(f.redials, epoch)
}

func (f *fakeLink) Replay(ctx context.Context, from int64) *kvevents.ReplayResult {
	f.mu.Lock()
	f.asked = append(f.asked, from)
	if len(f.repeats) == 0 {
		f.mu.Unlock()
		<-ctx.Done()
		return &kvevents.ReplayResult{Start: from, Ending: kvevents.Cancelled}
	}
	r := f.repeats[0]
	f.repeats = f.repeats[1:]
	delay := f.delay
	f.mu.Unlock()
	if delay > 0 {
		<-time.After(delay)
	}
	r.Start = from
	return &r
}

func (f *fakeLink) Start(context.Context) Start {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.start
}

// pumpRig is a running pump in a bubble.
type pumpRig struct {
	t *testing.T
	*Pump
	log  bytes.Buffer
	reg  *prometheus.Registry
	end  context.CancelFunc
	done chan error
}

func newPumpRig(t *testing.T, o Options) *pumpRig {
	r := &pumpRig{t: t, reg: prometheus.NewRegistry(), done: make(chan error, 1)}
	o.Seed, o.Metrics, o.Jitter = testSeed, r.reg, func(time.Duration) time.Duration { return 0 }
	o.Log = slog.New(slog.NewTextHandler(&r.log, nil))
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Pump = p
	ctx, cancel := context.WithCancel(t.Context())
	r.end = cancel
	go func() { r.done <- p.Run(ctx) }()
	return r
}

func (r *pumpRig) stop() {
	r.t.Helper()
	r.end()
	if err := <-r.done; err != nil {
		r.t.Errorf("Run ended with %v", err)
	}
}

var tokensSection = SectionKey{"m", index.SchemeTokens, 4, false}

func (r *pumpRig) register(worker string, link Link, replays bool) *kvevents.Lane {
	r.t.Helper()
	return r.registerIn(tokensSection, worker, link, replays)
}

func (r *pumpRig) registerIn(section SectionKey, worker string, link Link, replays bool) *kvevents.Lane {
	r.t.Helper()
	rank := index.Rank{Worker: worker}
	err := r.Register(r.t.Context(), Registration{Rank: rank, Worker: "ns/" + worker, Section: section,
		Start: Start{Known: true, ID: "p1"}, Replays: replays, Link: link})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.Inbox().Lane(rank)
}

// decode makes a batch as the wire brings it: its memory counts towards the budget.
func decode(seq int64, events ...wire.Event) *kvevents.Batch {
	payload := wire.SGLangMap.Encode(wire.Batch{TS: 1000 + float64(seq), Events: events})
	return kvevents.NewDecoder(kvevents.DecoderOptions{Scheme: index.SchemeTokens, Seed: testSeed}).Decode(seq, payload)
}

// wireChain is a stored chain of blocks, each with tokens of its own.
func wireChain(parent int, blocks ...int) wire.Stored {
	s := wire.Stored{BlockSize: 4, Medium: "GPU"}
	if parent >= 0 {
		p := wire.Hash(parent)
		s.Parent = &p
	}
	for _, b := range blocks {
		s.Hashes = append(s.Hashes, wire.Hash(b))
		for i := range 4 {
			s.Tokens = append(s.Tokens, uint32(4*b+i))
		}
	}
	return s
}

func wireGone(blocks ...int) wire.Removed {
	r := wire.Removed{Medium: "GPU"}
	for _, b := range blocks {
		r.Hashes = append(r.Hashes, wire.Hash(b))
	}
	return r
}

func (r *pumpRig) send(l *kvevents.Lane, ds ...kvevents.Delivery) {
	r.t.Helper()
	for _, d := range ds {
		if err := l.Deliver(r.t.Context(), d); err != nil {
			r.t.Fatal(err)
		}
	}
	synctest.Wait()
}

func open(epoch uint64) kvevents.Delivery {
	return kvevents.Delivery{Epoch: epoch, Kind: kvevents.Opened}
}
func shut(epoch uint64) kvevents.Delivery {
	return kvevents.Delivery{Epoch: epoch, Kind: kvevents.Closed, Err: errors.New("gone")}
}
func brings(epoch uint64, b *kvevents.Batch) kvevents.Delivery {
	return kvevents.Delivery{Epoch: epoch, Kind: kvevents.Arrived, Batch: b}
}

// depth is how many of a prompt's blocks a worker holds, as a policy would ask.
func depthIn(t *testing.T, v *View, rank index.Rank, blocks ...int) int {
	t.Helper()
	r := v.Rank(rank)
	if r == nil {
		return -1
	}
	var keys []index.Key
	key := r.Section.Root("")
	for _, b := range blocks {
		if r.Section.Key.Scheme == index.SchemeTokens {
			var bytes []byte
			for i := range 4 {
				bytes = index.AppendToken(bytes, uint32(4*b+i))
			}
			key = key.Next(r.Section.Seed.Chunk(bytes))
		} else {
			key = index.Key(b)
		}
		keys = append(keys, key)
	}
	var res index.Result
	r.Section.Index.Match(keys, index.Deepest, index.DefaultWeights, &res)
	d, _ := res.Of(rank)
	return int(d)
}

func (r *pumpRig) want(worker string, depth int, blocks ...int) {
	r.t.Helper()
	synctest.Wait()
	if got := depthIn(r.t, r.View(), index.Rank{Worker: worker}, blocks...); got != depth {
		r.t.Errorf("depth of %v on %s is %d, want %d", blocks, worker, got, depth)
	}
}

func (r *pumpRig) status(worker string) *Status {
	r.t.Helper()
	synctest.Wait()
	return r.View().Rank(index.Rank{Worker: worker}).Status()
}

func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func TestThePumpAppliesWhatArrivesAndPublishesItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{})
		a, b := r.register("a", &fakeLink{start: Start{Known: true, ID: "p1"}}, false), r.register("b", &fakeLink{}, false)
		r.send(a, open(1), brings(1, decode(0, wireChain(root, 1, 2, 3))), brings(1, decode(1, wireGone(3))))
		r.send(b, open(1), brings(1, decode(0, wireChain(root, 1))))
		r.want("a", 2, 1, 2, 3)
		r.want("b", 1, 1, 2, 3)
		s := r.status("a")
		if s.State != Following || !s.Connected || s.Cursor.Seq != 1 || s.Cursor.Proof != Origin || s.Blocks[0] != 2 {
			t.Errorf("status: %+v", s)
		}
		if s.Cursor.Incarnation != (Incarnation{Worker: "a", Start: Start{Known: true, ID: "p1"}}) {
			t.Errorf("incarnation: %+v", s.Cursor.Incarnation)
		}
		if s.Digest == 0 || s.Digest == r.status("b").Digest || s.Life == 0 {
			t.Errorf("digest %x, life %d", s.Digest, s.Life)
		}
		if used := r.Inbox().Budget().Used(); used != 0 {
			t.Errorf("%d bytes of the budget are taken", used)
		}
		r.stop()
	})
}

func TestAForgottenRankIsGoneWhenForgetReturns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{})
		l := r.register("a", &fakeLink{}, false)
		r.send(l, open(1), brings(1, decode(0, wireChain(root, 1))))
		section := r.View().Rank(index.Rank{Worker: "a"}).Section
		if err := r.Forget(t.Context(), index.Rank{Worker: "a"}); err != nil {
			t.Fatal(err)
		}
		if v := r.View(); len(v.Ranks()) != 0 || len(v.Sections()) != 0 {
			t.Errorf("%d ranks, %d sections are left", len(v.Ranks()), len(v.Sections()))
		}
		if n := len(section.Index.View().Ranks()); n != 0 {
			t.Errorf("the index knows %d ranks", n)
		}
		r.send(l, brings(1, decode(1, wireChain(1, 2)))) // late: released, not applied
		l = r.register("a", &fakeLink{}, false)
		r.send(l, open(1), brings(1, decode(0, wireChain(root, 7))))
		r.want("a", 0, 1)
		r.want("a", 1, 7)
		if used := r.Inbox().Budget().Used(); used != 0 {
			t.Errorf("%d bytes of the budget are taken", used)
		}
		r.stop()
	})
}

func TestRegisteringAKnownRankResetsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{})
		l := r.register("a", &fakeLink{}, false)
		r.send(l, open(1), brings(1, decode(0, wireChain(root, 1))))
		l = r.register("a", &fakeLink{}, false)
		r.send(l, brings(1, decode(1, wireChain(1, 2))))
		r.want("a", 2, 1, 2)
		r.stop()
	})
}

func TestARankOfAnotherBlockSizeGetsAnIndexOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{})
		r.register("a", &fakeLink{}, false)
		other := tokensSection
		other.BlockSize = 16
		reg := Registration{Rank: index.Rank{Worker: "b"}, Worker: "ns/b", Section: other, Link: &fakeLink{}}
		if err := r.Register(t.Context(), reg); err != nil {
			t.Fatal(err)
		}
		if n := len(r.View().Sections()); n != 2 {
			t.Errorf("%d sections", n)
		}
		reg.Section.BlockSize = 4 // its engine restarted with another
		if err := r.Relocate(t.Context(), reg); err != nil {
			t.Fatal(err)
		}
		if v := r.View(); len(v.Sections()) != 1 || v.Rank(reg.Rank).Section.Key.BlockSize != 4 {
			t.Errorf("sections: %v", v.Sections())
		}
		r.stop()
	})
}

func TestARegistrationThatMakesNoSenseIsRefusedWithAllThatIsWrong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{})
		err := r.Register(t.Context(), Registration{Section: SectionKey{Scheme: "md5"}})
		if err == nil {
			t.Fatal("it was taken")
		}
		for _, want := range []string{"identity", "link", "block size", `"md5"`} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in %q", want, err)
			}
		}
		r.stop()
		if err := r.Register(t.Context(), Registration{Rank: index.Rank{Worker: "a"}, Worker: "a", Section: tokensSection, Link: &fakeLink{}}); !errors.Is(err, ErrStopped) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func replayOf(ending kvevents.Ending, batches ...*kvevents.Batch) kvevents.ReplayResult {
	r := kvevents.ReplayResult{Ending: ending, Dense: true}
	for _, b := range batches {
		r.Batches = append(r.Batches, kvevents.Replayed{Batch: b})
	}
	return r
}

func TestAReplayFrom0GivesTheOrigin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{})
		first, second := func() *kvevents.Batch { return decode(0, wireChain(root, 1)) }, func() *kvevents.Batch { return decode(1, wireChain(1, 2)) }
		link := &fakeLink{start: Start{Known: true, ID: "p1"}, delay: time.Second, repeats: []kvevents.ReplayResult{
			replayOf(kvevents.Complete, first()), replayOf(kvevents.Complete, first(), second()),
		}}
		l := r.register("a", link, true)
		r.send(l, open(1), brings(1, second()))
		if s := r.status("a"); s.State != Pending || s.Held != 1 {
			t.Fatalf("status: %+v", s)
		}
		<-time.After(3 * time.Second)
		if s := r.status("a"); s.State != Following || s.Cursor.Proof != Origin || s.Cursor.Seq != 1 {
			t.Errorf("status: %+v", s)
		}
		r.want("a", 2, 1, 2)
		if used := r.Inbox().Budget().Used(); used != 0 {
			t.Errorf("%d bytes of the budget are taken", used)
		}
		r.stop()
	})
}

func TestAfterAReconnectTheRankServesWhileItProves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{})
		link := &fakeLink{start: Start{}, repeats: nil}
		l := r.register("a", link, true)
		r.send(l, open(1), brings(1, decode(0, wireChain(root, 1))), shut(1), open(2), brings(2, decode(1, wireChain(1, 2))))
		if s := r.status("a"); s.State != Proving || s.Held != 1 || s.HeldBytes == 0 {
			t.Fatalf("status: %+v", s)
		}
		r.want("a", 1, 1, 2)
		<-time.After(11 * time.Second)
		s := r.status("a")
		if s.State != Following || !s.Trust.Untrusted || s.Tally.Doubts != 1 {
			t.Errorf("status: %+v", s)
		}
		r.want("a", 2, 1, 2)
		r.stop()
	})
}

func TestAnUntrustedRankCountsAsFarAsItIsContiguous(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{})
		l := r.register("a", &fakeLink{}, false)
		r.send(l, open(1), brings(1, decode(0, wireChain(root, 1, 2, 3))), brings(1, decode(1, wireGone(2))))
		r.want("a", 3, 1, 2, 3) // a child proves its parents
		r.send(l, brings(1, decode(7, wireChain(root, 9))))
		r.want("a", 1, 1, 2, 3)
		if s := r.status("a"); !s.Trust.Untrusted || s.Tally.Gaps != 1 || s.Tally.Missing != 5 {
			t.Errorf("status: %+v", s)
		}
		r.send(l, brings(1, decode(8, wire.Cleared{}, wireChain(root, 1, 2, 3), wireGone(2))))
		r.want("a", 3, 1, 2, 3)
		if s := r.status("a"); s.Trust.Untrusted {
			t.Errorf("status: %+v", s)
		}
		r.stop()
	})
}

func TestARankThatKnowsLessThanThereIsSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{MaxBlocks: 2})
		a, b := r.register("a", &fakeLink{}, false), r.register("b", &fakeLink{}, false)
		r.send(b, open(1), brings(1, decode(0, wire.Stored{Hashes: []wire.Hash{77}, BlockSize: 4, Medium: "CPU_PINNED"})))
		if s := r.status("b"); !s.Cursor.Partial || s.Counts.Dropped[DropUnkeyable] != 1 {
			t.Errorf("a block nobody can place: %+v", s)
		}
		r.send(a, open(1), brings(1, decode(0, wireChain(root, 1, 2))))
		if s := r.status("a"); s.Cursor.Partial {
			t.Errorf("nothing is missing: %+v", s)
		}
		r.send(a, brings(1, decode(1, wireChain(root, 3, 4))))
		<-time.After(3 * tickEvery)
		if s := r.status("a"); !s.Cursor.Partial || s.Blocks[0] != 2 {
			t.Errorf("the index is full: %+v", s)
		}
		r.send(a, brings(1, decode(2, wire.Cleared{})))
		if s := r.status("a"); s.Cursor.Partial {
			t.Errorf("after a clear nothing is missing: %+v", s)
		}
		r.stop()
	})
}

func TestARedialReachesTheLink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{})
		link := &fakeLink{start: Start{Known: true, ID: "p2"}} // p1 before the connection
		l := r.register("a", link, false)
		r.send(l, open(5))
		if len(link.redials) != 1 || link.redials[0] != 5 {
			t.Errorf("redials: %v", link.redials)
		}
		r.stop()
	})
}

// An engine answers from the thread that publishes: few replays at once, one an engine, and peace after a failure.
func TestReplaysAreAskedSparingly(t *testing.T) {
	now := time.Unix(0, 0)
	d := newDesk(func(time.Duration) time.Duration { return 0 })
	rank := func(w string, dp int32) index.Rank { return index.Rank{Worker: w, DP: dp} }
	for i := range 20 {
		w := string(rune('a' + i/2))
		d.ask(now, replayAsk{rank: rank(w, int32(i%2)), gen: 1}, 0)
	}
	first := d.due(now)
	if len(first) != maxReplays {
		t.Fatalf("%d replays at once, want %d", len(first), maxReplays)
	}
	for _, a := range first {
		if a.rank.DP != 0 {
			t.Errorf("two at once from engine %s", a.rank.Worker)
		}
	}
	d.done(now, rank("a", 0), true)
	next := d.due(now)
	if len(next) != 1 || next[0].rank != rank("a", 1) {
		t.Errorf("after one ended: %v", next)
	}
	d.ask(now.Add(29*time.Second), replayAsk{rank: rank("a", 0), gen: 2}, 0)
	if got := d.due(now.Add(29 * time.Second)); len(got) != 1 || !got[0].refused {
		t.Errorf("29 s after a failure: %v", got)
	}
	d = newDesk(d.jitter)
	d.ask(now, replayAsk{rank: rank("a", 0), gen: 1}, 0)
	d.due(now)
	d.done(now, rank("a", 0), true)
	d.tidy(now.Add(31 * time.Second))
	d.ask(now.Add(31*time.Second), replayAsk{rank: rank("a", 0), gen: 3}, time.Second)
	if got := d.due(now.Add(31 * time.Second)); len(got) != 0 {
		t.Errorf("asked before its time: %v", got)
	}
	if at, ok := d.next(); !ok || at.After(now.Add(32*time.Second)) {
		t.Errorf("next: %v %v", at, ok)
	}
	d.drop(rank("a", 0))
	if got := d.due(now.Add(33 * time.Second)); len(got) != 0 {
		t.Errorf("asked though dropped: %v", got)
	}
}

func TestAFailedReplayIsNotAskedAgainForAWhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{})
		link := &fakeLink{start: Start{Known: true, ID: "p1"}, repeats: []kvevents.ReplayResult{replayOf(kvevents.Torn), replayOf(kvevents.Torn)}}
		l := r.register("a", link, true)
		r.send(l, open(1))
		r.send(l, shut(1), open(2)) // the second question is refused without asking
		r.send(l, brings(2, decode(5, wireChain(root, 1))))
		if len(link.asked) != 1 {
			t.Errorf("asked %v", link.asked)
		}
		if s := r.status("a"); s.State != Following || !s.Cursor.Partial {
			t.Errorf("status: %+v", s)
		}
		r.stop()
	})
}

func TestEachTransitionIsOneLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{})
		l := r.register("a", &fakeLink{start: Start{Known: true, ID: "p1"}}, false)
		r.send(l, open(1), brings(1, decode(0, wireChain(root, 1))), brings(1, decode(1, wireGone(1))), brings(1, decode(5)), brings(1, decode(9)))
		r.stop()
		for what, want := range map[string]int{"to=pending": 1, "to=following": 1, "batches are missing": 1, "index created": 1} {
			if got := strings.Count(r.log.String(), what); got != want {
				t.Errorf("%q stands in %d lines, want %d:\n%s", what, got, want, r.log.String())
			}
		}
	})
}

func TestMetricsEndWithTheirWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{})
		l := r.register("a", &fakeLink{}, false)
		r.send(l, open(1), brings(1, decode(0, wireChain(root, 1, 2))), brings(1, decode(0, wireChain(root, 1, 2))), brings(1, decode(3, wireGone(2), wire.Cleared{})))
		if err := r.Register(t.Context(), Registration{Rank: index.Rank{Worker: "a", DP: 1}, Worker: "ns/a", Section: tokensSection, Link: &fakeLink{}}); err != nil {
			t.Fatal(err)
		}
		got := scrape(t, r.reg)
		for series, want := range map[string]float64{
			"routerfleet_kv_batches_total{ns/a}": 2, "routerfleet_kv_gaps_total{ns/a}": 1, "routerfleet_kv_batches_missing_total{ns/a}": 2,
			"routerfleet_kv_events_total{block_stored,ns/a}": 1, "routerfleet_kv_event_blocks_total{block_stored,ns/a}": 2,
			"routerfleet_kv_events_total{all_blocks_cleared,ns/a}": 1, "routerfleet_kv_restarts_total{regress,ns/a}": 0,
			"routerfleet_kv_ranks{following}": 1, "routerfleet_kv_ranks{pending}": 1, "routerfleet_kv_ranks_flagged{connected}": 1,
			"routerfleet_kv_blocks{device,ns/a}": 0, "routerfleet_kv_index_nodes{m/tokens/4}": 0,
		} {
			if v, ok := got[series]; !ok || v != want {
				t.Errorf("%s is %v (%v), want %v", series, v, ok, want)
			}
		}
		for dp := range int32(2) {
			if err := r.Forget(t.Context(), index.Rank{Worker: "a", DP: dp}); err != nil {
				t.Fatal(err)
			}
		}
		for series := range scrape(t, r.reg) {
			if strings.Contains(series, "ns/a") || strings.Contains(series, "m/tokens") {
				t.Errorf("%s outlives its worker", series)
			}
		}
		r.stop()
	})
}

// scrape gives every series as name{label values}.
func scrape(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			v := m.GetGauge().GetValue() + m.GetCounter().GetValue()
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = v
		}
	}
	return out
}

// A flood of large batches must not keep the clock, other ranks' registration or the end of the process waiting.
func TestATurnOfThePumpIsBoundedInBlocks(t *testing.T) {
	p, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	const perBatch, batches = 2048, 20
	chain := make([]int, perBatch)
	for i := range chain {
		chain[i] = i
	}
	lane := p.Inbox().Lane(index.Rank{Worker: "a"})
	defer lane.Close()
	for seq := range int64(batches) {
		d := kvevents.Delivery{Epoch: 1, Kind: kvevents.Arrived, Batch: decode(seq, wireChain(root, chain...))}
		if err := lane.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	left := batches
	for turn := 1; left > 0; turn++ {
		p.drain()
		left = max(0, left-drainBlocks/perBatch)
		if held, _, _ := lane.Held(); held != left {
			t.Fatalf("after turn %d %d batches are left, want %d", turn, held, left)
		}
		select {
		case <-p.Inbox().Ready():
		default:
			if left > 0 {
				t.Fatalf("after turn %d nothing says that %d batches are left", turn, left)
			}
		}
	}
}
