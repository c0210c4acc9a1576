package index

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// copyOf restores an export of x into an empty index, as a booting replica does.
func copyOf(t testing.TB, x *Index, ranks []Rank) *Index {
	t.Helper()
	y := New(Options{})
	r, err := y.BeginRestore(ranks)
	if err != nil {
		t.Fatal(err)
	}
	who := map[Rank]int{}
	for i, rank := range ranks {
		who[rank] = i
	}
	e := x.Export()
	for more := true; more; {
		more = e.Next(func(n Node) {
			var holdings []Holding
			for _, c := range n.Carriers {
				holdings = append(holdings, Holding{who[c.Rank], c.Tiers})
			}
			r.Add(n.Key, n.Parent, holdings)
		})
	}
	if n := len(y.View().Ranks()); n != 0 {
		t.Errorf("%d ranks are visible before the commit", n)
	}
	r.Commit()
	if r.Dropped != 0 {
		t.Errorf("%d blocks dropped", r.Dropped)
	}
	return y
}

func TestARestoredExportAnswersAsItsSource(t *testing.T) {
	for seed := range uint64(10) {
		w := newTwins(t, seed, 30, trie{2, 20}, Options{})
		for range 1500 {
			w.chain(w.r.IntN(2) == 0, w.tier())
			w.trim(false, w.tier())
		}
		var ranks []Rank
		for _, h := range w.h {
			ranks = append(ranks, h.Rank())
		}
		y := copyOf(t, copyOf(t, w.x, ranks), ranks) // and its copy too
		y.checkAll(t)
		var a, b Result
		for range 300 {
			path := w.trie.path(w.r)
			w.x.Match(path, Contiguous, DefaultWeights, &a)
			y.Match(path, Contiguous, DefaultWeights, &b)
			for _, h := range w.h {
				da, ca := a.Of(h.Rank())
				db, cb := b.Of(h.Rank())
				if da != db || ca != cb {
					t.Fatalf("seed %d %v: copy %d %d, source %d %d", seed, h.Rank(), db, cb, da, ca)
				}
			}
		}
		for _, h := range w.h {
			if c, _ := y.Rank(h.Rank()); c.Digest != h.Digest || c.Blocks != h.Blocks {
				t.Fatalf("seed %d %v: copy's digest %x %v, source's %x %v", seed, h.Rank(), c.Digest, c.Blocks, h.Digest, h.Blocks)
			}
		}
	}
}

func TestARestoreIsInvisibleUntilItsCommitAndReplaces(t *testing.T) {
	x := New(Options{})
	h, _ := x.Rank(rankNo(0))
	x.Store(h, Root, []Key{1, 2}, Device)
	var res Result
	depth := func(keys ...Key) int32 {
		x.Match(keys, Contiguous, DefaultWeights, &res)
		d, _ := res.Of(h.Rank())
		return d
	}
	r, err := x.BeginRestore([]Rank{h.Rank(), rankNo(5)})
	if err != nil {
		t.Fatal(err)
	}
	r.Add(1, Root, []Holding{{0, Device}})
	r.Add(7, After(1), []Holding{{0, Device}})
	x.Store(r.Holder(0), After(7), []Key{8}, Device) // held batches go on top of the copy
	if d := depth(1, 2); d != 2 || depth(1, 7) != 1 {
		t.Error("the restore shows before its commit")
	}
	state := x.View().State(h.Rank())
	got := r.Commit()
	if got[0] != h || x.View().State(h.Rank()) == state {
		t.Error("the rank's handle or state is not the restored one's")
	}
	if depth(1, 7, 8) != 3 || depth(1, 2) != 1 {
		t.Errorf("after the commit: %d and %d, want the restored blocks and nothing of the old", depth(1, 7, 8), depth(1, 2))
	}
	x.Store(h, After(8), []Key{9}, Device)
	if depth(1, 7, 8, 9) != 4 {
		t.Error("the stream does not go on after the commit")
	}
	r.Abort() // does nothing any more
	x.drain()
	x.checkAll(t)
	if n := x.Stats().Nodes; n != 4 {
		t.Errorf("%d nodes, want 4", n)
	}
}

func TestAnAbortedRestoreLeavesNothing(t *testing.T) {
	x := New(Options{})
	r, _ := x.BeginRestore([]Rank{rankNo(0)})
	for i := range 100 {
		r.Add(Key(i+1), Root, []Holding{{0, Device}})
	}
	r.Add(1, After(50), []Holding{{0, Device}})
	if r.Dropped != 1 {
		t.Errorf("%d dropped, want the contradiction", r.Dropped)
	}
	r.Abort()
	x.drain()
	x.checkAll(t)
	if s := x.Stats(); s.Nodes != 0 || s.Sets != 0 || s.Ranks != 0 {
		t.Errorf("left: %+v", s)
	}
}

// Metamorphic: a graft at any cut of a stream, and the rest of the stream on top, is the whole stream.
func TestAGraftAtEveryCutPlusTheRestIsTheWholeStream(t *testing.T) {
	type op struct {
		store bool
		p     Parent
		keys  []Key
		t     Tier
	}
	w := newTwins(t, 3, 1, trie{2, 12}, Options{})
	var ops []op
	for range 60 {
		path := w.trie.path(w.r)
		from := w.r.IntN(len(path))
		p := Root
		if from > 0 {
			p = After(path[from-1])
		}
		ops = append(ops, op{w.r.IntN(3) > 0, p, path[from:], w.tier()})
	}
	apply := func(x *Index, h *Holder, ops []op) {
		for _, o := range ops {
			if o.store {
				x.Store(h, o.p, o.keys, o.t)
			} else {
				x.Remove(h, o.keys, o.t)
			}
		}
	}
	whole := New(Options{})
	want, _ := whole.Rank(rankNo(0))
	apply(whole, want, ops)
	for cut := range ops {
		source := New(Options{})
		h, _ := source.Rank(rankNo(0))
		apply(source, h, ops[:cut])
		y := copyOf(t, source, []Rank{rankNo(0)})
		g, _ := y.Rank(rankNo(0))
		apply(y, g, ops[cut:])
		if g.Digest != want.Digest {
			t.Fatalf("cut %d: digest %x, want %x", cut, g.Digest, want.Digest)
		}
	}
}

func TestAnExportOmitsForgottenRanks(t *testing.T) {
	x := New(Options{})
	var h [3]*Holder
	for i := range h {
		h[i], _ = x.Rank(rankNo(i))
		x.Store(h[i], Root, []Key{1}, Device)
	}
	x.Store(h[1], After(1), []Key{2}, Device)
	x.Forget(h[1])
	var got []string
	e := x.Export()
	for more := true; more; {
		more = e.Next(func(n Node) { got = append(got, fmt.Sprint(n.Key, n.Carriers)) })
	}
	if len(got) != 1 || got[0] != fmt.Sprint(1, []Carrier{{rankNo(0), Device}, {rankNo(2), Device}}) {
		t.Errorf("exported %q", got)
	}
}

// AddRun and its dumb twin: every block stored alone for each of its carriers.
func TestARunRestoresWhatItsBlocksDoOneByOne(t *testing.T) {
	for seed := range uint64(30) {
		r := seeded(t, seed)
		tr := trie{2, 40}
		ranks := make([]Rank, 3+r.IntN(100)) // above 64 a set over budget stays private
		for i := range ranks {
			ranks[i] = rankNo(i)
		}
		var xs [2]*Index
		var rs [2]*Restore
		for i := range xs {
			xs[i] = New(Options{})
			h, _ := xs[i].Rank(rankNo(0))
			for c := range 20 { // what was there before
				path := tr.path(rand.New(rand.NewPCG(seed, uint64(c))))
				xs[i].Store(h, Root, path, Device)
			}
			var err error
			if rs[i], err = xs[i].BeginRestore(ranks); err != nil {
				t.Fatal(err)
			}
		}
		for range 300 {
			path := tr.path(r)
			from := r.IntN(len(path))
			p, keys := Root, path[from:]
			if from > 0 && r.IntN(20) > 0 { // else it contradicts
				p = After(path[from-1])
			}
			if r.IntN(30) == 0 {
				p = After(keys[0])
			}
			var who []Holding
			for range 1 + r.IntN(1+r.IntN(len(ranks))) {
				who = append(who, Holding{r.IntN(len(ranks)), Tier(r.IntN(16))}) // any order, some twice
			}
			rs[0].AddRun(p, keys, who)
			for _, k := range keys {
				for _, w := range who {
					xs[1].Store(rs[1].Holder(w.Rank), p, []Key{k}, w.Tiers)
				}
				p = After(k)
			}
		}
		var hs [2][]*Holder
		for i := range xs {
			hs[i] = rs[i].Commit()
			xs[i].drain()
			xs[i].checkAll(t)
		}
		for i, h := range hs[0] {
			if twin := hs[1][i]; h.Digest != twin.Digest || h.Blocks != twin.Blocks || (h.Contradictions == 0) != (twin.Contradictions == 0) {
				t.Fatalf("seed %d %v: %x %v %d contradictions, want %x %v %d", seed, h.Rank(), h.Digest, h.Blocks,
					h.Contradictions, twin.Digest, twin.Blocks, twin.Contradictions)
			}
		}
		if a, b := xs[0].Stats(), xs[1].Stats(); a.Nodes != b.Nodes || a.Unrooted != b.Unrooted {
			t.Fatalf("seed %d: %+v, want %+v", seed, a, b)
		}
	}
}
