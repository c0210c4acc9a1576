package workers

import (
	"fmt"
	"strings"
	"testing"
)

func ids(ranks []*Rank) string {
	names := make([]string, 0, len(ranks))
	for _, r := range ranks {
		names = append(names, fmt.Sprintf("%s/%d", r.Worker().ID(), r.DP()))
	}
	return strings.Join(names, " ")
}

func TestAPoolHoldsTheRanksInRotationInOrder(t *testing.T) {
	f := fixed(t, Options{},
		FixedWorker{ID: "c", Models: []string{"m"}}, FixedWorker{ID: "a", Models: []string{"m", "n"}, DPSize: 2},
		FixedWorker{ID: "b", Models: []string{"m"}, NotReady: true}, FixedWorker{ID: "d", Models: []string{"m"}, Terminating: true},
		FixedWorker{ID: "e"})
	s := f.Snapshot()
	for model, want := range map[string]string{"m": "a/0 a/1 c/0", "n": "a/0 a/1"} {
		if got, known := s.Pool(model); ids(got) != want || !known {
			t.Errorf("pool %s: got %q, known %v, want %q", model, ids(got), known, want)
		}
	}
	if _, known := s.Pool("x"); known {
		t.Error("a model nobody serves is known")
	}
	if _, known := s.Pool(""); known {
		t.Error("no model named is known although there are two")
	}
	want := Counts{Discovered: 5, InRotation: 2, LastResort: 1, Withdrawn: 1, Unintrospected: 1}
	if got := s.Counts(); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	if c := s.Counts(); c.Usable() != 3 {
		t.Errorf("usable %d", c.Usable())
	}
}

// Case 2 (production-stack#601).
func TestTerminatingRanksServeOnlyWhenNothingElseOfTheModelIsLeft(t *testing.T) {
	f := fixed(t, Options{BreakerThreshold: 1},
		FixedWorker{ID: "a", Models: []string{"m"}}, FixedWorker{ID: "b", Models: []string{"m"}, Terminating: true},
		FixedWorker{ID: "c", Models: []string{"other"}})
	pool, _ := f.Snapshot().Pool("m")
	if ids(pool) != "a/0" {
		t.Fatalf("got %q while a ready one is there", ids(pool))
	}
	l, _ := pool[0].Acquire(1)
	l.Done(Failure)
	if pool, _ = f.Snapshot().Pool("m"); ids(pool) != "b/0" {
		t.Fatalf("got %q while the ready one's breaker is open", ids(pool))
	}
	f.Set(FixedWorker{ID: "b", URL: pool[0].Worker().URL(), Models: []string{"m"}, Terminating: true})
	if pool, _ = f.Snapshot().Pool("m"); ids(pool) != "b/0" {
		t.Fatalf("got %q with only a terminating one", ids(pool))
	}
}

func TestTheOnlyModelNeedsNoName(t *testing.T) {
	f := fixed(t, Options{}, FixedWorker{ID: "a", Models: []string{"m"}})
	if pool, known := f.Snapshot().Pool(""); ids(pool) != "a/0" || !known {
		t.Fatalf("got %q, known %v", ids(pool), known)
	}
}

func TestAnOutageIsNoMissingModel(t *testing.T) {
	f := fixed(t, Options{})
	if _, known := f.Snapshot().Pool("m"); !known {
		t.Error("without any worker a model counts as missing")
	}
	f = fixed(t, Options{Models: one(t, "m")}, FixedWorker{ID: "a", Models: []string{"x"}, NotReady: true})
	for model, want := range map[string]bool{"m": true, "": true, "x": false} {
		if pool, known := f.Snapshot().Pool(model); known != want || len(pool) != 0 {
			t.Errorf("configured model m, pool %q: %d ranks, known %v", model, len(pool), known)
		}
	}
	f = fixed(t, Options{}, FixedWorker{ID: "a", Models: []string{"m"}}, FixedWorker{ID: "b", Models: []string{"n"}})
	f.Set()
	if pool, known := f.Snapshot().Pool("m"); !known || len(pool) != 0 {
		t.Errorf("right after the last worker left: %d ranks, known %v", len(pool), known)
	}
	if got := f.Snapshot().Models(); len(got) != 0 {
		t.Errorf("models of absent workers are listed: %v", got)
	}
}

func TestModelsAreTheUnionOfPresentWorkersSorted(t *testing.T) {
	workers := []Listed{
		{Worker: &Worker{id: "a", models: []Model{{ID: "z", Created: 1, OwnedBy: "first"}}}, State: StateNotReady},
		{Worker: &Worker{id: "b", models: []Model{{ID: "m"}, {ID: "z", Created: 2, OwnedBy: "second"}}}, State: StateInRotation},
		{Worker: &Worker{id: "c", models: []Model{{ID: "gone"}}}, State: StateAbsent},
	}
	got := fmt.Sprint(newSnapshot(workers, nil, true, nil).Models())
	if want := "[{m 0  } {z 1 first }]"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

func manyWorkers(t testing.TB, n int) *Fixed {
	t.Helper()
	ws := make([]FixedWorker, n)
	for i := range ws {
		ws[i] = FixedWorker{ID: ID(fmt.Sprintf("w%03d", i)), Models: []string{"m"}}
	}
	return fixed(t, Options{BreakerThreshold: 1}, ws...)
}

func TestReadersAllocateNothing(t *testing.T) {
	f := manyWorkers(t, 64)
	var sink int64
	allocs := testing.AllocsPerRun(200, func() {
		s := f.Snapshot()
		pool, _ := s.Pool("m")
		sink += pool[7].Load().Active + int64(s.Counts().InRotation) + int64(len(s.Models()))
	})
	if allocs != 0 {
		t.Fatalf("%v allocations a read", allocs)
	}
	_ = sink
}

func BenchmarkPool(b *testing.B) {
	for _, open := range []int{0, 1} {
		for _, n := range []int{4, 64, 512} {
			b.Run(fmt.Sprintf("workers=%d/open=%d", n, open), func(b *testing.B) {
				f := manyWorkers(b, n)
				pool, _ := f.Snapshot().Pool("m")
				for _, r := range pool[:open] {
					l, _ := r.Acquire(1)
					l.Done(Failure)
				}
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						f.Snapshot().Pool("m")
					}
				})
			})
		}
	}
}

func TestChangedClosesAtTheNextSnapshotAndOnlyThen(t *testing.T) {
	f := fixed(t, Options{}, FixedWorker{ID: "a", Models: []string{"m"}})
	ch, before := f.Changed(), f.Snapshot()
	f.Set(FixedWorker{ID: "a", URL: before.Workers()[0].Worker.URL(), Models: []string{"m"}})
	select {
	case <-ch:
		t.Fatal("closed although nothing changed")
	default:
	}
	if f.Snapshot() != before {
		t.Fatal("an equal snapshot was published")
	}
	f.Set()
	select {
	case <-ch:
	default:
		t.Fatal("not closed at a new snapshot")
	}
	if f.Changed() == ch {
		t.Fatal("the new snapshot has the old channel")
	}
}
