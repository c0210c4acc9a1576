package index

import (
	"slices"
	"testing"
)

// callsToForget gives the calls of Work it takes to sweep a rank out of 64 blocks whose sets all differ and are large,
// if it is in them.
func callsToForget(t *testing.T, member bool) (calls int) {
	t.Helper()
	x := New(Options{})
	r := seeded(t, 14)
	var h []*Holder
	for i := range 400 {
		hi, _ := x.Rank(rankNo(i))
		h = append(h, hi)
	}
	for k := range 64 {
		for _, i := range r.Perm(399)[:300] {
			x.Store(h[i], Root, []Key{Key(k + 1)}, Device)
		}
		if member {
			x.Store(h[399], Root, []Key{Key(k + 1)}, Device)
		}
	}
	x.drain()
	x.Forget(h[399])
	for more := true; more; calls++ {
		more = x.Work(500)
	}
	x.checkAll(t)
	return calls
}

func TestSweepingLargeSetsTakesMoreCallsAndNoLongerOnes(t *testing.T) {
	small, large := callsToForget(t, false), callsToForget(t, true)
	// Each of the 64 sets of 301 is worth some 170 slots, of the 500 a call may take.
	if large < small+64*170/500/2 {
		t.Errorf("%d calls to sweep a rank out of 64 large sets, %d where it is in none", large, small)
	}
}

func TestASweepOfManyRanksIsThatOfEach(t *testing.T) {
	for seed := range uint64(10) {
		w := newTwins(t, seed, 90, trie{2, 12}, Options{})
		for range 3000 {
			w.chain(w.r.IntN(2) == 0, w.tier())
		}
		for _, i := range w.r.Perm(len(w.h))[:w.r.IntN(len(w.h))] {
			if err := w.x.Clear(w.h[i]); err != nil {
				t.Fatal(err)
			}
			w.o.clear(w.h[i].Rank())
		}
		for w.x.Work(1 + w.r.IntN(3000)) {
			w.ask(false)
		}
		w.check()
	}
}

func TestMeetsIsHasOfAny(t *testing.T) {
	r := seeded(t, 15)
	for range 500 {
		n, ids := 1+r.IntN(40), make([]uint64, 1+r.IntN(4))
		var members []carrier
		for _, id := range r.Perm(300)[:n] {
			members = append(members, carrier{rankID(id), Device})
		}
		slices.SortFunc(members, func(a, b carrier) int { return int(a.rank) - int(b.rank) })
		want := false
		for range r.IntN(4) {
			id := rankID(r.IntN(len(ids) * 64))
			ids[id/64] |= 1 << (id % 64)
			want = want || slices.Contains(members, carrier{id, Device})
		}
		if got := newSet(members).meets(ids); got != want {
			t.Fatalf("%v meets %x: %v", members, ids, got)
		}
	}
}
