package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestAgreesWithTheOracleOnClosedData(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			w := newTwins(t, seed, 2+int(seed), trie{2, 24}, Options{})
			for step := range 1500 {
				switch {
				case w.r.IntN(3) > 0:
					w.chain(true, Device)
				default:
					w.trim(true, AllTiers)
				}
				if step%10 == 0 {
					w.ask(true)
				}
				if step%500 == 0 {
					w.check()
				}
				w.x.Work(w.r.IntN(50))
			}
			w.check()
		})
	}
}

func TestAgreesWithTheOracleWithTiersHolesAndOrphans(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			w := newTwins(t, seed, 1+int(seed%20), trie{2, 16}, Options{})
			for step := range 1500 {
				switch w.r.IntN(4) {
				case 0, 1:
					w.chain(w.r.IntN(2) == 0, w.tier())
				case 2:
					w.trim(false, w.tier())
				case 3:
					w.trim(false, AllTiers)
				}
				if w.r.IntN(200) == 0 {
					h := w.h[w.r.IntN(len(w.h))]
					if err := w.x.Clear(h); err != nil {
						t.Fatal(err)
					}
					w.o.clear(h.Rank())
				}
				// The oracle forgets at once, so parents of cleared blocks may differ until the sweep has passed.
				w.x.drain()
				if step%10 == 0 {
					w.ask(false)
				}
				if step%500 == 0 {
					w.check()
				}
			}
			w.check()
		})
	}
}

func TestEveryKeyIsLegal(t *testing.T) {
	x := New(Options{})
	h, _ := x.Rank(rankNo(0))
	keys := []Key{0, ^Key(0), 1, 1 << 63}
	if n := x.Store(h, Root, keys, Device); n != len(keys) {
		t.Fatalf("%d of %d keys taken", n, len(keys))
	}
	var r Result
	x.Match(keys, Contiguous, DefaultWeights, &r)
	if d, _ := r.Of(h.Rank()); d != 4 {
		t.Errorf("depth %d, want 4", d)
	}
	x.Remove(h, keys[3:], AllTiers)
	x.Match(keys, Deepest, DefaultWeights, &r)
	if d, _ := r.Of(h.Rank()); d != 3 {
		t.Errorf("depth %d after the last was removed, want 3", d)
	}
}

func TestABlockBeforeItsAncestorsIsUsableAtOnce(t *testing.T) {
	x := New(Options{})
	h, _ := x.Rank(rankNo(0))
	x.Store(h, After(1), []Key{2, 3}, Device)
	var r Result
	x.Match([]Key{1, 2, 3, 4}, Deepest, DefaultWeights, &r)
	if d, _ := r.Of(h.Rank()); d != 3 {
		t.Errorf("deepest %d, want 3", d)
	}
	x.Match([]Key{1, 2, 3, 4}, Contiguous, DefaultWeights, &r)
	if d, _ := r.Of(h.Rank()); d != 0 {
		t.Errorf("contiguous %d, want 0", d)
	}
	if s := x.Stats(); s.Unrooted != 1 {
		t.Errorf("%d unrooted, want 1", s.Unrooted)
	}
	x.Store(h, Root, []Key{1}, Device)
	if s := x.Stats(); s.Unrooted != 0 {
		t.Errorf("%d unrooted after the parent came, want 0", s.Unrooted)
	}
}

func TestOpenTiersAndShyRanksProveNoAncestors(t *testing.T) {
	x := New(Options{})
	disk, _ := x.Rank(rankNo(0))
	shy, _ := x.Rank(rankNo(1))
	x.Store(disk, After(2), []Key{3}, Disk)
	x.Store(shy, After(2), []Key{3}, Device)
	x.SetContiguous(shy, true)
	var r Result
	query := []Key{1, 2, 3}
	depths := func() string {
		x.Match(query, Deepest, DefaultWeights, &r)
		a, _ := r.Of(disk.Rank())
		b, _ := r.Of(shy.Rank())
		return fmt.Sprint(a, b)
	}
	if got := depths(); got != "0 0" {
		t.Errorf("with a hole below: depths %s, want 0 0", got)
	}
	x.Store(disk, Root, []Key{1, 2}, External)
	x.Store(shy, Root, []Key{1, 2}, Device)
	if got := depths(); got != "3 3" {
		t.Errorf("contiguous: depths %s, want 3 3", got)
	}
	x.Remove(shy, []Key{2}, AllTiers)
	if got := depths(); got != "3 1" {
		t.Errorf("hole in the shy one: depths %s, want 3 1", got)
	}
	x.SetContiguous(shy, false)
	if got := depths(); got != "3 3" {
		t.Errorf("believed again: depths %s, want 3 3", got)
	}
}

func TestStoreNarrowRemoveWide(t *testing.T) {
	x := New(Options{})
	h, _ := x.Rank(rankNo(0))
	var r Result
	credit := func() int32 {
		x.Match([]Key{1}, Deepest, DefaultWeights, &r)
		_, c := r.Of(h.Rank())
		return c
	}
	for _, c := range []struct {
		do   func()
		want int32
	}{
		{func() { x.Store(h, Root, []Key{1}, Host) }, 75},
		{func() { x.Store(h, Root, []Key{1}, Device) }, 100},
		{func() { x.Remove(h, []Key{1}, Device) }, 75},
		{func() { x.Store(h, Root, []Key{1}, Disk) }, 75},
		{func() { x.Remove(h, []Key{1}, Host) }, 25},
		{func() { x.Remove(h, []Key{1}, AllTiers) }, 0},
		{func() { x.Store(h, Root, []Key{1}, 0) }, 0}, // no known medium: nothing is stored
	} {
		c.do()
		if got := credit(); got != c.want {
			t.Errorf("credit %d, want %d", got, c.want)
		}
	}
	if n := x.Stats().Nodes; n != 0 {
		t.Errorf("%d nodes left", n)
	}
}

func TestContradictionsAreDroppedAndCounted(t *testing.T) {
	x := New(Options{})
	honest, _ := x.Rank(rankNo(0))
	liar, _ := x.Rank(rankNo(1))
	x.Store(honest, Root, []Key{1, 2, 3}, Device)
	for name, lie := range map[string]func() int{
		"another parent":    func() int { return x.Store(liar, After(9), []Key{2}, Device) },
		"a root claim":      func() int { return x.Store(liar, Root, []Key{3}, Device) },
		"its own parent":    func() int { return x.Store(liar, After(7), []Key{7}, Device) },
		"a cycle":           func() int { return x.Store(liar, After(8), []Key{10, 8}, Device) - 1 },
		"a repeated member": func() int { return x.Store(liar, Root, []Key{20, 20}, Device) - 1 },
	} {
		before := liar.Contradictions
		if n := lie(); n != 0 || liar.Contradictions != before+1 {
			t.Errorf("%s: %d keys taken, %d contradictions", name, n, liar.Contradictions-before)
		}
	}
	if honest.Contradictions != 0 {
		t.Errorf("the honest rank was blamed %d times", honest.Contradictions)
	}
	x.checkAll(t)
}

func TestForgettingIsAtOnceForQueriesAndLeavesNothingBehind(t *testing.T) {
	w := newTwins(t, 1, 40, trie{2, 20}, Options{})
	for range 2000 {
		w.chain(true, w.tier())
	}
	path := w.trie.path(w.r)
	for _, h := range w.h {
		w.x.Forget(h)
		w.x.Match(path, Deepest, DefaultWeights, &w.res)
		if d, _ := w.res.Of(h.Rank()); d != 0 {
			t.Fatalf("forgotten %v still has depth %d", h.Rank(), d)
		}
	}
	w.x.drain()
	w.x.checkAll(t)
	if s := w.x.Stats(); s != (Stats{Audits: s.Audits}) {
		t.Errorf("left: %+v", s)
	}
}

func TestAForgottenRanksIdIsNotReusedUnderAReader(t *testing.T) {
	x := New(Options{})
	old, _ := x.Rank(rankNo(0))
	x.Store(old, Root, []Key{1}, Device)
	pin := x.epochs.enter()
	x.Forget(old)
	for range 100 {
		x.Work(1 << 20)
	}
	young, _ := x.Rank(rankNo(1))
	if young.id == old.id {
		t.Error("the id was reused while a reader was pinned")
	}
	x.epochs.leave(pin)
	x.drain()
	if last, _ := x.Rank(rankNo(2)); last.id != old.id {
		t.Errorf("id %d, want %d again after the reader left", last.id, old.id)
	}
}

func TestRankIdsRunOutWithAClearError(t *testing.T) {
	x := New(Options{})
	x.ranks.byID = make([]*Holder, maxRanks)
	if _, err := x.Rank(rankNo(0)); !errors.Is(err, ErrTooManyRanks) {
		t.Errorf("got %v", err)
	}
}

func TestTheCapEvictsOnlyEndsAndSparesWhatQueriesUse(t *testing.T) {
	const depth, chains = 20, 200
	x := New(Options{MaxBlocks: chains * depth / 2})
	h, _ := x.Rank(rankNo(0))
	path := func(c int) []Key {
		out := make([]Key, depth)
		for i := range out {
			out[i] = Key(c*1000 + i + 1)
		}
		return out
	}
	var r Result
	for c := range chains {
		x.Store(h, Root, path(c), Device)
		x.Match(path(0), Deepest, DefaultWeights, &r) // the hot one
	}
	x.drain()
	s := x.Stats()
	if s.Nodes > chains*depth/2 || h.Evicted != s.Evicted || s.Evicted == 0 {
		t.Errorf("%d nodes, %d evicted, the rank was told of %d", s.Nodes, s.Evicted, h.Evicted)
	}
	if s.Unrooted != 0 {
		t.Errorf("%d chains lost their middle", s.Unrooted)
	}
	x.Match(path(0), Contiguous, DefaultWeights, &r)
	if d, _ := r.Of(h.Rank()); d != depth {
		t.Errorf("the hot chain was cut to %d", d)
	}
	x.checkAll(t)
}

func TestCyclesOfStoreAndRemoveLeaveNothing(t *testing.T) {
	x := New(Options{})
	r := seeded(t, 5)
	var held [16]map[int][]Key
	var h [16]*Holder
	for i := range h {
		h[i], _ = x.Rank(rankNo(i))
		held[i] = map[int][]Key{}
	}
	peak := 0
	for step := range 400_000 {
		i, c := r.IntN(16), r.IntN(64)
		if keys := held[i][c]; keys != nil {
			r.Shuffle(len(keys), func(a, b int) { keys[a], keys[b] = keys[b], keys[a] })
			x.Remove(h[i], keys, AllTiers)
			delete(held[i], c)
		} else {
			keys := []Key{Key(c*10 + 1), Key(c*10 + 2), Key(c*10 + 3)}
			x.Store(h[i], Root, keys, Device)
			held[i][c] = keys
		}
		if step%1000 == 0 {
			x.Work(100)
			peak = max(peak, len(x.sets.books))
		}
	}
	for i := range h {
		for _, keys := range held[i] {
			x.Remove(h[i], keys, AllTiers)
		}
	}
	x.drain()
	x.checkAll(t)
	if s := x.Stats(); s.Nodes != 0 || s.Sets != 0 || s.Unrooted != 0 {
		t.Errorf("left: %+v", s)
	}
	for i := range x.segs {
		if n := x.segs[i].Load().n; n > 3*minSlots {
			t.Errorf("segment %d keeps %d slots for nothing", i, n)
		}
	}
	if peak > 4*192+2*minBudgetSets {
		t.Errorf("%d set ids for 192 nodes", peak)
	}
}

func TestSetsStayWithinTwiceTheLiveCombinations(t *testing.T) {
	const ranks, nodes = 1000, 128
	x := New(Options{})
	r := seeded(t, 6)
	h := make([]*Holder, ranks)
	for i := range h {
		h[i], _ = x.Rank(rankNo(i))
	}
	held := make([][nodes]bool, ranks)
	for range 100_000 { // the full million in the benchmark program
		i, k := r.IntN(ranks), r.IntN(nodes)
		if held[i][k] = !held[i][k]; held[i][k] {
			x.Store(h[i], Root, []Key{Key(k + 1)}, Device)
		} else {
			x.Remove(h[i], []Key{Key(k + 1)}, AllTiers)
		}
	}
	x.drain()
	live := map[string]bool{}
	for k := range nodes {
		bits := make([]byte, ranks)
		for i := range held {
			if held[i][k] {
				bits[i] = 1
			}
		}
		live[string(bits)] = true
	}
	if s := x.Stats(); s.Sets > 2*len(live) {
		t.Errorf("%d sets for %d live combinations", s.Sets, len(live))
	}
	x.checkAll(t)
}

func TestLargeCombinationsOverBudgetStayOnTheirNodes(t *testing.T) {
	const ranks, nodes = 400, 1200
	x := New(Options{})
	r := seeded(t, 7)
	o := newOracle()
	var h []*Holder
	for i := range ranks {
		hi, _ := x.Rank(rankNo(i))
		h = append(h, hi)
	}
	for k := range nodes {
		for _, i := range r.Perm(ranks)[:100+r.IntN(200)] {
			x.Store(h[i], Root, []Key{Key(k + 1)}, Device)
			o.store(h[i].Rank(), Root, []Key{Key(k + 1)}, Device)
		}
	}
	private := 0
	for _, b := range x.sets.books {
		if b.private && b.refs > 0 {
			private++
		}
	}
	if private == 0 {
		t.Error("no combination stayed on its node")
	}
	for k := range nodes {
		for _, i := range r.Perm(ranks)[:390] {
			x.Remove(h[i], []Key{Key(k + 1)}, AllTiers)
			o.remove(h[i].Rank(), []Key{Key(k + 1)}, AllTiers)
		}
	}
	x.drain()
	x.checkAll(t)
	var res Result
	for k := range nodes {
		x.Match([]Key{Key(k + 1)}, Deepest, DefaultWeights, &res)
		for _, hi := range h {
			if d, _ := res.Of(hi.Rank()); d != o.deepest(hi.Rank(), []Key{Key(k + 1)}) {
				t.Fatalf("key %d rank %v: depth %d", k+1, hi.Rank(), d)
			}
		}
	}
}

func TestMoreChildrenThanASlotCanCount(t *testing.T) {
	x := New(Options{})
	h, _ := x.Rank(rankNo(0))
	x.Store(h, Root, []Key{1}, Device)
	const n = manyChildren + 10
	for i := range n {
		x.Store(h, After(1), []Key{Key(i + 2)}, Device)
	}
	x.Remove(h, []Key{1}, AllTiers)
	if s := x.Stats(); s.Unrooted != n {
		t.Errorf("%d unrooted, want %d", s.Unrooted, n)
	}
	x.Store(h, Root, []Key{1}, Device)
	for i := range n {
		x.Remove(h, []Key{Key(i + 2)}, AllTiers)
	}
	x.checkAll(t)
	if len(x.crowded) != 0 {
		t.Errorf("%d crowded parents left", len(x.crowded))
	}
}

func TestAMatchAllocatesNothing(t *testing.T) {
	w := newTwins(t, 8, 100, trie{2, 300}, Options{})
	for range 500 {
		w.chain(true, w.tier())
	}
	path := w.trie.path(rand.New(rand.NewPCG(1, 1)))
	w.x.Match(path, Deepest, DefaultWeights, &w.res)
	for _, mode := range []Mode{Deepest, Contiguous} {
		if n := testing.AllocsPerRun(100, func() { w.x.Match(path, mode, DefaultWeights, &w.res) }); n != 0 {
			t.Errorf("mode %d: %v allocations", mode, n)
		}
	}
}

func TestAuditsRepeatJumpsAndFindNoDifferenceInHonestData(t *testing.T) {
	w := newTwins(t, 9, 20, trie{2, 40}, Options{})
	for range 2000 {
		w.chain(true, Device)
	}
	for range 20 * auditEvery {
		w.x.Match(w.trie.path(w.r), Deepest, DefaultWeights, &w.res)
		w.x.Work(1)
	}
	if s := w.x.Stats(); s.Audits < 15 || s.Differed != 0 {
		t.Errorf("%d audits, %d differed", s.Audits, s.Differed)
	}
}

func TestLongQueriesAreSettledByStridesFromTheirEnd(t *testing.T) {
	x := New(Options{})
	h, _ := x.Rank(rankNo(0))
	keys := make([]Key, walkKeys+1000)
	for i := range keys {
		keys[i] = Key(i + 1)
	}
	x.Store(h, After(1), keys[1:], Device) // the first is missing: no jump
	var r Result
	x.Match(keys, Deepest, DefaultWeights, &r)
	if d, _ := r.Of(h.Rank()); int(d) != len(keys) {
		t.Errorf("depth %d, want %d", d, len(keys))
	}
	if r.Probes() > walkKeys+1000/walkStride+2 {
		t.Errorf("%d probes", r.Probes())
	}
}

func TestRanksAreListedWhileTheyLive(t *testing.T) {
	x := New(Options{})
	a, _ := x.Rank(rankNo(0))
	if again, _ := x.Rank(rankNo(0)); again != a {
		t.Error("a known rank got a second handle")
	}
	state := x.View().State(a.Rank())
	if err := x.Clear(a); err != nil {
		t.Fatal(err)
	}
	if s := x.View().State(a.Rank()); s == state || s == 0 {
		t.Errorf("state %d after Clear, %d before", s, state)
	}
	if got := x.View().Ranks(); !slices.Equal(got, []Rank{rankNo(0)}) {
		t.Errorf("ranks %v", got)
	}
	x.Forget(a)
	x.Forget(a) // twice is once
	if got := x.View().Ranks(); len(got) != 0 || x.View().State(a.Rank()) != 0 {
		t.Errorf("ranks %v", got)
	}
	if n := x.Store(a, Root, []Key{1}, Device); n != 0 || x.Remove(a, []Key{1}, Device) != 0 {
		t.Error("a forgotten rank stored a block")
	}
}

func TestDepthsOfAWordAreThoseGivenOneByOne(t *testing.T) {
	r := seeded(t, 13)
	for range 2000 {
		w := ^uint64(0)
		for range r.IntN(20) {
			w &^= 1 << r.IntN(64)
		}
		got, want := Result{depth: make([]int32, 192)}, make([]int32, 192)
		for id := range want {
			want[id] = r.Int32()
			got.depth[id] = want[id]
		}
		got.setDepth(1, w, 7)
		for id := range want {
			if id/64 == 1 && w>>(id%64)&1 != 0 {
				want[id] = 7
			}
		}
		if !slices.Equal(got.depth, want) {
			t.Fatalf("word %x: depths %v, want %v", w, got.depth, want)
		}
		got.setDepth(3, w, 7) // ranks that joined after the view: no depth
	}
}
