package index

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// claims are who holds what and what it follows, as a walk tells it.
type claims map[Key]struct {
	parent Parent
	who    string
}

// gather walks an index by chains. ordered checks that parents come before their children.
func gather(t testing.TB, x *Index, ranks []Rank, o RunOptions) claims {
	t.Helper()
	got := claims{}
	sets := map[uint32]string{}
	e := x.Runs(ranks, o)
	for e.Next(1, func(r Run) {
		if len(r.Keys) == 0 || len(r.Keys) > maxRunKeys {
			t.Fatalf("a run of %d keys", len(r.Keys))
		}
		who := ""
		for _, w := range r.Who {
			who += fmt.Sprint(ranks[w.Rank], w.Tiers, ";")
		}
		if was, ok := sets[r.Set]; ok && was != who && r.Set != noCarrier {
			t.Fatalf("set %d is %s and %s", r.Set, was, who)
		}
		sets[r.Set] = who
		p := r.Parent
		for _, k := range r.Keys {
			if _, again := got[k]; again {
				t.Fatalf("key %d comes twice", k)
			}
			if _, ok := got[p.Key]; o.Ordered && p.Known && !ok {
				if n, known := x.locate(p.Key); known && n.m.live() {
					t.Fatalf("key %d comes before its parent %d", k, p.Key)
				}
			}
			got[k] = struct {
				parent Parent
				who    string
			}{p, who}
			p = After(k)
		}
	}) {
	}
	return got
}

// naive is the dumb twin: every block by Export.
func naive(x *Index, ranks []Rank) claims {
	place := map[Rank]int{}
	for i, r := range ranks {
		place[r] = i
	}
	want := claims{}
	for e := x.Export(); e.Next(func(n Node) {
		who := ""
		for _, r := range ranks {
			for _, c := range n.Carriers {
				if c.Rank == r {
					who += fmt.Sprint(r, c.Tiers, ";")
				}
			}
		}
		if who != "" {
			want[n.Key] = struct {
				parent Parent
				who    string
			}{n.Parent, who}
		}
	}); {
	}
	return want
}

func compareClaims(t *testing.T, got, want claims, seed uint64) {
	t.Helper()
	for k, w := range want {
		if g, ok := got[k]; !ok || g != w {
			t.Fatalf("seed %d: key %d: got %+v (%v), want %+v", seed, k, g, ok, w)
		}
	}
	for k, g := range got {
		if _, ok := want[k]; !ok && g.who != "" {
			t.Fatalf("seed %d: key %d (%+v) is held by nobody", seed, k, g)
		}
	}
}

// forest stores random chains that share prefixes, lack middles and have tiers.
func forest(t testing.TB, rng *rand.Rand, ranks, chains int) (*Index, []Rank) {
	x := New(Options{Rand: rng.Uint64})
	var all []Rank
	var stored [][]Key
	for r := range ranks {
		rank := Rank{Worker: fmt.Sprint("w", r/2), DP: int32(r % 2)}
		all = append(all, rank)
		if _, err := x.Rank(rank); err != nil {
			t.Fatal(err)
		}
	}
	for range chains {
		h, _ := x.Rank(all[rng.IntN(ranks)])
		var chain []Key
		if len(stored) > 0 && rng.IntN(3) > 0 {
			from := stored[rng.IntN(len(stored))]
			chain = append(chain, from[:rng.IntN(len(from)+1)]...)
		}
		for range rng.IntN(40) {
			chain = append(chain, Key(rng.Uint64()))
		}
		if len(chain) == 0 {
			continue
		}
		stored = append(stored, chain)
		x.Store(h, Root, chain, Tier(1)<<rng.IntN(tierCount))
		if rng.IntN(3) == 0 { // take pieces out, so that there are holes and unrooted blocks
			x.Remove(h, chain[rng.IntN(len(chain)):][:1], AllTiers)
		}
	}
	return x, all
}

func TestAWalkByChainsTellsWhatAnExportTells(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		x, ranks := forest(t, rng, 1+rng.IntN(30), 1+rng.IntN(300))
		some := ranks
		if seed%3 == 0 {
			some = ranks[:1+rng.IntN(len(ranks))]
		}
		want := naive(x, some)
		for _, ordered := range []bool{false, true} {
			compareClaims(t, gather(t, x, some, RunOptions{Ordered: ordered}), want, seed)
		}
	}
}

func TestAnOrderedWalkKeepsTheBlocksBetweenCarriedOnes(t *testing.T) {
	x := New(Options{})
	a, _ := x.Rank(Rank{Worker: "a"})
	b, _ := x.Rank(Rank{Worker: "b"})
	chain := []Key{1, 2, 3, 4, 5}
	x.Store(a, Root, chain, Device)
	x.Store(b, Root, chain, Device)
	x.Remove(a, []Key{2, 3, 5}, AllTiers)
	ranks := []Rank{{Worker: "a"}}
	got := gather(t, x, ranks, RunOptions{Ordered: true})
	if len(got) != 4 || got[2].who != "" || got[3].parent != After(2) || got[4].who == "" {
		t.Fatalf("got %v, want 1 to 4, with 2 and 3 held by nobody", got)
	}
	if got := gather(t, x, ranks, RunOptions{}); len(got) != 2 || got[4].parent != After(3) {
		t.Fatalf("got %v, want 1 and 4", got)
	}
}

func TestAWalkEndsInACycle(t *testing.T) {
	x := New(Options{})
	a, _ := x.Rank(Rank{Worker: "a"})
	x.Store(a, After(9), []Key{7, 8}, Device)
	x.Store(a, After(8), []Key{9}, Device)
	for _, ordered := range []bool{false, true} {
		got := map[Key]bool{}
		e := x.Runs([]Rank{{Worker: "a"}}, RunOptions{Ordered: ordered})
		for n := 0; e.Next(1, func(r Run) {
			for _, k := range r.Keys {
				got[k] = true
			}
		}); n++ {
			if n > 100_000 {
				t.Fatal("the walk does not end")
			}
		}
		if len(got) != 3 {
			t.Fatalf("got %v, want 7, 8 and 9", got)
		}
	}
}

func TestALongChainComesInPieces(t *testing.T) {
	x := New(Options{})
	a, _ := x.Rank(Rank{Worker: "a"})
	chain := make([]Key, 3*maxChainKeys+5)
	for i := range chain {
		chain[i] = Key(i)*0x9e3779b97f4a7c15 + 1
	}
	x.Store(a, Root, chain, Device)
	for _, ordered := range []bool{false, true} {
		if got := gather(t, x, []Rank{{Worker: "a"}}, RunOptions{Ordered: ordered}); len(got) != len(chain) {
			t.Fatalf("ordered %v: got %d blocks, want %d", ordered, len(got), len(chain))
		}
	}
}

func TestAWalkLeavesOutARankWhoseLifeEnds(t *testing.T) {
	x := New(Options{})
	ranks := []Rank{{Worker: "a"}, {Worker: "b"}, {Worker: "c"}}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range ranks[:2] {
		h, _ := x.Rank(r)
		for range 3000 {
			x.Store(h, Root, []Key{Key(rng.Uint64()), Key(rng.Uint64())}, Device)
		}
	}
	e := x.Runs(ranks, RunOptions{})
	lives := []uint64{e.Life(0), e.Life(1)}
	if lives[0] == 0 || lives[1] == 0 || e.Life(2) != 0 {
		t.Fatalf("lives %v and %d of a rank that is not known", lives, e.Life(2))
	}
	n, told := [2]int{}, map[Key]bool{}
	count := func(r Run) {
		for _, k := range r.Keys {
			if !told[k] { // blocks of a segment that is rebuilt may come twice
				n[r.Who[0].Rank]++
			}
			told[k] = true
		}
	}
	e.Next(1, count)
	h, _ := x.Rank(ranks[0])
	if err := x.Clear(h); err != nil {
		t.Fatal(err)
	}
	x.Store(h, Root, []Key{1, 2, 3}, Device)
	before := n[0]
	for e.Next(1, count) {
	}
	if e.Life(0) != 0 || e.Life(1) != lives[1] {
		t.Fatalf("lives %d and %d, want none and %d", e.Life(0), e.Life(1), lives[1])
	}
	if n[0] > before+chainsAtOnce*2 || n[1] != 6000 {
		t.Fatalf("%d more blocks of the first rank after its life, %d of the second, want few and 6000", n[0]-before, n[1])
	}
}

func TestAWalkBesideTheWriterTellsAllThatStands(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		x, ranks := forest(t, rng, 8, 400)
		churn, _ := x.Rank(Rank{Worker: "churn"})
		want := naive(x, ranks)
		got := claims{}
		e := x.Runs(ranks, RunOptions{Ordered: seed%2 == 0})
		var kept []Key
		for e.Next(1, func(r Run) {
			who := ""
			for _, w := range r.Who {
				who += fmt.Sprint(ranks[w.Rank], w.Tiers, ";")
			}
			p := r.Parent
			for _, k := range r.Keys {
				got[k] = struct {
					parent Parent
					who    string
				}{p, who}
				p = After(k)
			}
		}) {
			for range 40 { // segments grow and shrink under the walk
				chain := []Key{Key(rng.Uint64()), Key(rng.Uint64()), Key(rng.Uint64())}
				x.Store(churn, Root, chain, Device)
				kept = append(kept, chain...)
			}
			if rng.IntN(3) == 0 {
				x.Remove(churn, kept, AllTiers)
				kept = kept[:0]
			}
			x.Work(1000)
		}
		compareClaims(t, got, want, seed)
	}
}
