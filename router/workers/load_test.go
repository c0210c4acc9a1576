package workers

import (
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"
	"time"
)

func fixed(t testing.TB, o Options, ws ...FixedWorker) *Fixed {
	t.Helper()
	for i := range ws {
		if ws[i].URL == nil {
			ws[i].URL = &url.URL{Scheme: "http", Host: string(ws[i].ID) + ":8000"}
		}
	}
	f, err := NewFixed(o, ws...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func only(t testing.TB, f *Fixed, model string) *Rank {
	t.Helper()
	ranks, known := f.Snapshot().Pool(model)
	if !known || len(ranks) != 1 {
		t.Fatalf("pool %q has %d ranks, known %v", model, len(ranks), known)
	}
	return ranks[0]
}

func TestTokensCountedOnAsCachedDoNotQueue(t *testing.T) {
	for _, c := range []struct{ prompt, cached, queued int64 }{
		{100, 0, 100}, {100, 30, 70}, {100, 100, 0}, {100, 130, 0}, {100, -5, 100}, {-1, 3, 0},
	} {
		r := only(t, fixed(t, Options{}, FixedWorker{ID: "a", Models: []string{"m"}}), "m")
		early, _ := r.AcquireCached(int(c.prompt), int(c.cached)) // ends before its first byte
		l, _ := r.AcquireCached(int(c.prompt), int(c.cached))
		if got, want := r.Load(), (Load{Active: 2, QueuedPrefillTokens: 2 * c.queued, DecodeTokens: 0}); got != want {
			t.Fatalf("%+v: acquired: got %+v, want %+v", c, got, want)
		}
		early.Done(Cancelled)
		l.FirstByte()
		if got, want := r.Load(), (Load{Active: 1, QueuedPrefillTokens: 0, DecodeTokens: max(0, c.prompt)}); got != want {
			t.Fatalf("%+v: first byte: got %+v, want %+v", c, got, want)
		}
		l.Done(Success)
		if got := r.Load(); got != (Load{}) {
			t.Fatalf("%+v: done: %+v is left", c, got)
		}
	}
}

func TestALeaseMovesItsTokensFromPrefillToDecodeAndGivesThemBack(t *testing.T) {
	r := only(t, fixed(t, Options{}, FixedWorker{ID: "a", Models: []string{"m"}}), "m")
	check := func(when string, want Load) {
		t.Helper()
		if got := r.Load(); got != want {
			t.Fatalf("%s: got %+v, want %+v", when, got, want)
		}
	}
	l, ok := r.Acquire(100)
	if !ok {
		t.Fatal("refused")
	}
	check("acquired", Load{Active: 1, QueuedPrefillTokens: 100, DecodeTokens: 0})
	l.FirstByte()
	l.FirstByte()
	check("first byte", Load{Active: 1, QueuedPrefillTokens: 0, DecodeTokens: 100})
	l.Produced(7)
	l.Produced(0)
	l.Produced(-3)
	check("produced", Load{Active: 1, QueuedPrefillTokens: 0, DecodeTokens: 107})
	l.Done(Success)
	check("done", Load{})
	l.Done(Failure)
	l.FirstByte()
	l.Produced(5)
	check("after the end", Load{})

	l, _ = r.Acquire(-5)
	check("a negative prompt", Load{Active: 1, QueuedPrefillTokens: 0, DecodeTokens: 0})
	l.Produced(2) // implies the first byte
	check("produced without a first byte", Load{Active: 1, QueuedPrefillTokens: 0, DecodeTokens: 2})
	l.Done(Cancelled)
	check("done again", Load{})
}

func TestEveryInterleavingOfLeasesEndsAtZero(t *testing.T) {
	f := fixed(t, Options{}, FixedWorker{ID: "a", Models: []string{"m"}, DPSize: 2})
	ranks, _ := f.Snapshot().Pool("m")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 5))
			for range 300 {
				l, ok := ranks[r.IntN(2)].Acquire(r.IntN(1000))
				if !ok {
					t.Error("a closed breaker refused")
					return
				}
				var inner sync.WaitGroup
				inner.Go(func() { l.FirstByte(); l.Produced(r.IntN(10)) })
				inner.Go(func() { l.Produced(3); l.Done(Success) })
				inner.Go(func() { l.Done(Cancelled) })
				inner.Wait()
			}
		})
	}
	wg.Wait()
	for _, r := range ranks {
		if got := r.Load(); got != (Load{}) {
			t.Errorf("rank %d ended with %+v", r.DP(), got)
		}
	}
	w := ranks[0].Worker()
	if n := w.outcomes[Success].Load() + w.outcomes[Cancelled].Load(); n != 8*300 {
		t.Errorf("%d outcomes counted of %d leases", n, 8*300)
	}
}

func TestAcquireRefusesWhileTheBreakerIsOpenAndAProbeHeals(t *testing.T) {
	now := t0
	f := fixed(t, Options{BreakerThreshold: 2, BreakerCoolDown: time.Minute, Now: func() time.Time { return now }},
		FixedWorker{ID: "a", Models: []string{"m"}, DPSize: 2})
	ranks, _ := f.Snapshot().Pool("m")
	for i := range 2 { // the streak is the worker's, over all its ranks
		l, _ := ranks[i].Acquire(1)
		l.Done(Failure)
	}
	if _, ok := ranks[0].Acquire(1); ok {
		t.Fatal("an open breaker let a request through")
	}
	if got := ranks[0].Load(); got != (Load{}) {
		t.Fatalf("a refused request left %+v behind", got)
	}
	if pool, known := f.Snapshot().Pool("m"); len(pool) != 0 || !known {
		t.Fatalf("the pool still offers %d ranks, known %v", len(pool), known)
	}
	now = now.Add(time.Minute)
	if pool, _ := f.Snapshot().Pool("m"); len(pool) != 2 {
		t.Fatalf("after the cool-down the pool offers %d ranks", len(pool))
	}
	probe, ok := ranks[1].Acquire(1)
	if !ok {
		t.Fatal("no probe")
	}
	if pool, _ := f.Snapshot().Pool("m"); len(pool) != 0 {
		t.Fatal("ranks are offered while the probe is out")
	}
	probe.Produced(1) // the stream goes on for minutes
	if pool, _ := f.Snapshot().Pool("m"); len(pool) != 2 || ranks[0].Worker().Breaker() != BreakerClosed {
		t.Fatal("output of the probe did not close the breaker")
	}
	probe.Done(Success)
}

func TestANegativeThresholdNeverOpens(t *testing.T) {
	r := only(t, fixed(t, Options{BreakerThreshold: -1}, FixedWorker{ID: "a", Models: []string{"m"}}), "m")
	for range 100 {
		l, ok := r.Acquire(1)
		if !ok {
			t.Fatal("refused")
		}
		l.Done(Failure)
	}
}

func TestStatusCodesAreJudgedByWhatTheySayOfTheEngine(t *testing.T) {
	for code, want := range map[int]Outcome{
		200: Success, 204: Success, 302: Success, 400: ClientError, 401: ClientError, 404: ClientError, 422: ClientError,
		408: Failure, 429: Backpressure, 503: Backpressure, 500: Failure, 502: Failure, 504: Failure,
	} {
		if got := OutcomeOfStatus(code); got != want {
			t.Errorf("%d: got %v, want %v", code, got, want)
		}
	}
	if Outcome(-1).String() != "unknown" || outcomeEnd.String() != "unknown" {
		t.Error("an outcome outside the list has a name")
	}
}

func BenchmarkLease(b *testing.B) {
	r := only(b, fixed(b, Options{}, FixedWorker{ID: "a", Models: []string{"m"}}), "m")
	b.ReportAllocs()
	for b.Loop() {
		l, _ := r.Acquire(100)
		l.FirstByte()
		l.Produced(1)
		l.Done(Success)
	}
}
