package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/routerfleet/routerfleet/router/workers"
	"github.com/routerfleet/routerfleet/router/workers/workerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seeded is a reproducible generator that several goroutines may share.
type seeded struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newSeeded(seed uint64) *seeded { return &seeded{r: rand.New(rand.NewPCG(seed, seed))} }

func (s *seeded) IntN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.IntN(n)
}

func ranks(tb testing.TB, n int) []*workers.Rank {
	tb.Helper()
	var ws []workerstest.Worker
	for i := range n {
		ws = append(ws, workerstest.Worker{ID: fmt.Sprintf("w%02d", i), URL: fmt.Sprintf("http://10.0.0.%d:8000", i+1), Models: []string{"m"}})
	}
	return workerstest.Ranks(tb, ws...)
}

func named(tb testing.TB, name string, r Rand) Policy {
	tb.Helper()
	p, err := New(name, Options{Rand: r})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestNewKnowsItsNamesAndListsThemToWhoeverErrs(t *testing.T) {
	for _, name := range Names() {
		if got := named(t, name, nil).Name(); got != name {
			t.Errorf("New(%q) made %q", name, got)
		}
	}
	if got := named(t, "", nil).Name(); got != Default {
		t.Errorf("the default is %q, want %q", got, Default)
	}
	_, err := New("cache_awaer", Options{})
	if err == nil {
		t.Fatal("an unknown policy was made")
	}
	for _, want := range append(Names(), "cache_awaer") {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
}

func TestNoCandidateIsNoChoice(t *testing.T) {
	for _, name := range Names() {
		if r, ok := named(t, name, nil).Pick(Request{Model: "m"}, nil); ok || r != nil {
			t.Errorf("%s chose %v of nothing", name, r)
		}
	}
}

func TestTheOnlyCandidateIsTheChoice(t *testing.T) {
	one := ranks(t, 1)
	for _, name := range Names() {
		for range 3 {
			if r, ok := named(t, name, nil).Pick(Request{Model: "m"}, one); !ok || r != one[0] {
				t.Errorf("%s chose %v", name, r)
			}
		}
	}
}

// pick counts n choices per worker.
func pick(p Policy, model string, candidates []*workers.Rank, n int) map[workers.ID]int {
	got := map[workers.ID]int{}
	for range n {
		r, _ := p.Pick(Request{Model: model}, candidates)
		got[r.Worker().ID()]++
	}
	return got
}

func TestRoundRobinGivesEveryRankItsTurn(t *testing.T) {
	pool := workerstest.Ranks(t,
		workerstest.Worker{ID: "a", URL: "http://10.0.0.1:1", Models: []string{"m"}, DPSize: 3},
		workerstest.Worker{ID: "b", URL: "http://10.0.0.2:1", Models: []string{"m"}})
	p := named(t, NameRoundRobin, nil)
	var got []string
	for range 8 {
		r, _ := p.Pick(Request{Model: "m"}, pool)
		got = append(got, fmt.Sprintf("%s%d", r.Worker().ID(), r.DP()))
	}
	if want := "a0 a1 a2 b0 a0 a1 a2 b0"; strings.Join(got, " ") != want {
		t.Fatalf("got %s, want %s", strings.Join(got, " "), want)
	}
}

func TestRoundRobinIsFairPerPool(t *testing.T) {
	all := ranks(t, 4)
	p := named(t, NameRoundRobin, nil)
	counts := map[string]map[workers.ID]int{"x": {}, "y": {}}
	for range 300 { // the two pools overlap and take turns
		for model, pool := range map[string][]*workers.Rank{"x": all[:3], "y": all[1:]} {
			r, _ := p.Pick(Request{Model: model}, pool)
			counts[model][r.Worker().ID()]++
		}
	}
	for model, c := range counts {
		for id, n := range c {
			if n != 100 {
				t.Errorf("pool %s: worker %s had %d turns of 300 among 3", model, id, n)
			}
		}
	}
}

func TestRoundRobinSkipsAndRepeatsNobodyWhileThePoolChanges(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 7))
		all := ranks(t, 8)
		p := named(t, NameRoundRobin, nil)
		// Ranks 0..3 are always there, the others come and go at random: whoever flaps, the stable ones differ by
		// one turn at most.
		stable := map[workers.ID]int{}
		for range 1000 {
			pool := append([]*workers.Rank{}, all[:4]...)
			for _, f := range all[4:] {
				if r.IntN(2) == 0 {
					pool = append(pool, f)
				}
			}
			r.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
			got, _ := p.Pick(Request{Model: "m"}, pool)
			stable[got.Worker().ID()]++
		}
		lo, hi := math.MaxInt, 0
		for _, w := range all[:4] {
			lo, hi = min(lo, stable[w.Worker().ID()]), max(hi, stable[w.Worker().ID()])
		}
		if hi-lo > 1 {
			t.Fatalf("seed %d: turns of stable ranks range from %d to %d", seed, lo, hi)
		}
	}
}

func TestRoundRobinIsExactUnderConcurrency(t *testing.T) {
	pool := ranks(t, 5)
	p := named(t, NameRoundRobin, nil)
	var mu sync.Mutex
	total := map[workers.ID]int{}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			got := pick(p, "m", pool, 100)
			mu.Lock()
			defer mu.Unlock()
			for id, n := range got {
				total[id] += n
			}
		})
	}
	wg.Wait()
	for id, n := range total {
		if n != 200 {
			t.Errorf("worker %s had %d turns of 1000 among 5", id, n)
		}
	}
}

func TestRoundRobinForgetsModelsBeyondItsTable(t *testing.T) {
	pool := ranks(t, 2)
	p := newRoundRobin()
	for i := range 3 * maxCursors {
		p.Pick(Request{Model: fmt.Sprint(i)}, pool)
		if len(p.last) > maxCursors {
			t.Fatalf("the table holds %d models, more than %d", len(p.last), maxCursors)
		}
	}
}

func TestPowerOfTwoSpreadsEquallyOverIdleRanks(t *testing.T) {
	for seed := range uint64(5) {
		const n, draws = 8, 80_000
		got := pick(named(t, NamePowerOfTwo, newSeeded(seed)), "m", ranks(t, n), draws)
		want, sigma := float64(draws)/n, math.Sqrt(draws*(1.0/n)*(1-1.0/n))
		if len(got) != n {
			t.Fatalf("seed %d: %d of %d ranks were ever chosen", seed, len(got), n)
		}
		for id, c := range got {
			if math.Abs(float64(c)-want) > 5*sigma {
				t.Errorf("seed %d: %s was chosen %d times, want %.0f +- %.0f", seed, id, c, want, 5*sigma)
			}
		}
	}
}

func TestPowerOfTwoNeverChoosesTheMostLoadedAndDrawsTwoDifferentRanks(t *testing.T) {
	pool := ranks(t, 4)
	if _, ok := pool[2].Acquire(1_000_000); !ok {
		t.Fatal("a closed breaker refused")
	}
	for seed := range uint64(20) {
		// Were one rank drawn twice, the loaded one would be chosen once in sixteen draws.
		if got := pick(named(t, NamePowerOfTwo, newSeeded(seed)), "m", pool, 500); got["w02"] != 0 {
			t.Fatalf("seed %d: the most loaded rank was chosen %d times", seed, got["w02"])
		}
	}
}

func TestPowerOfTwoMeasuresQueuedPrefillAndRequestsAlike(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b func(*workers.Rank) // load for each
		want int
	}{
		{"fewer queued tokens", lease(2000), lease(1000), 1},
		{"a request stands for 512 tokens", leases(lease(0), lease(0)), lease(511), 1},
		{"and for no more", leases(lease(0), lease(0)), lease(513), 0},
		{"decoding does not count", decoding(100_000), lease(10), 0},
	} {
		pool := ranks(t, 2)
		c.a(pool[0])
		c.b(pool[1])
		p := named(t, NamePowerOfTwo, newSeeded(1))
		for range 50 {
			if got, _ := p.Pick(Request{}, pool); got != pool[c.want] {
				t.Errorf("%s: chose %s with %+v over %+v", c.name, got.Worker().ID(), pool[0].Load(), pool[1].Load())
				break
			}
		}
	}
}

func lease(prompt int) func(*workers.Rank) { return func(r *workers.Rank) { r.Acquire(prompt) } }

func leases(each ...func(*workers.Rank)) func(*workers.Rank) {
	return func(r *workers.Rank) {
		for _, f := range each {
			f(r)
		}
	}
}

func decoding(prompt int) func(*workers.Rank) {
	return func(r *workers.Rank) {
		l, _ := r.Acquire(prompt)
		l.FirstByte()
	}
}

// The known result for n balls into n bins: the fullest bin of one choice grows with log n / log log n, that of two
// choices with log log n. Requests here never end.
func TestPowerOfTwoBalancesWhereOneChoiceDoesNot(t *testing.T) {
	const n = 64
	for seed := range uint64(5) {
		pool := ranks(t, n)
		p := named(t, NamePowerOfTwo, newSeeded(seed))
		one := make([]int, n)
		r := rand.New(rand.NewPCG(seed, 1))
		for range 16 * n {
			chosen, _ := p.Pick(Request{}, pool)
			chosen.Acquire(100)
			one[r.IntN(n)]++
		}
		fullest := int64(0)
		for _, c := range pool {
			fullest = max(fullest, c.Load().Active)
		}
		single := 0
		for _, c := range one {
			single = max(single, c)
		}
		if fullest > 19 || int(fullest) >= single {
			t.Errorf("seed %d: the fullest of %d ranks has %d requests with two choices, %d with one; the mean is 16", seed, n, fullest, single)
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for _, name := range []string{NamePowerOfTwo, NameRoundRobin} {
		for _, n := range []int{4, 64, 512} {
			b.Run(fmt.Sprintf("policy=%s/ranks=%d", name, n), func(b *testing.B) {
				var ws []workerstest.Worker
				for i := range n {
					ws = append(ws, workerstest.Worker{ID: fmt.Sprintf("default/%04d", i), URL: fmt.Sprintf("http://w%d:8000", i), Models: []string{"m"}})
				}
				pool, p := workerstest.Ranks(b, ws...), named(b, name, nil)
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						p.Pick(Request{Model: "m"}, pool)
					}
				})
			})
		}
	}
}
