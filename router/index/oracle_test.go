package index

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// oracle is the dumb twin: maps of maps, every rule written the slow way.
type oracle struct {
	held   map[Rank]map[Key]Tier
	parent map[Key]Parent
}

func newOracle() *oracle { return &oracle{map[Rank]map[Key]Tier{}, map[Key]Parent{}} }

func (o *oracle) store(r Rank, p Parent, keys []Key, t Tier) {
	start := p
	for _, k := range keys {
		if start == After(k) || p == After(k) {
			return
		}
		if known, ok := o.parent[k]; ok && known != p {
			return
		}
		o.parent[k] = p
		if o.held[r] == nil {
			o.held[r] = map[Key]Tier{}
		}
		o.held[r][k] |= t
		p = After(k)
	}
}

func (o *oracle) remove(r Rank, keys []Key, t Tier) {
	for _, k := range keys {
		o.drop(r, k, t)
	}
}

func (o *oracle) drop(r Rank, k Key, t Tier) {
	before, ok := o.held[r][k]
	if !ok {
		return
	}
	if left := before &^ t; left != 0 {
		o.held[r][k] = left
		return
	}
	delete(o.held[r], k)
	for _, h := range o.held {
		if _, ok := h[k]; ok {
			return
		}
	}
	delete(o.parent, k)
}

func (o *oracle) clear(r Rank) {
	for k := range o.held[r] {
		o.drop(r, k, AllTiers)
	}
}

func (o *oracle) contiguous(r Rank, keys []Key) int32 {
	for i, k := range keys {
		if o.held[r][k] == 0 {
			return int32(i)
		}
	}
	return int32(len(keys))
}

func (o *oracle) deepest(r Rank, keys []Key) int32 {
	for i := len(keys) - 1; i >= 0; i-- {
		if o.held[r][keys[i]]&closed != 0 {
			return max(int32(i+1), o.contiguous(r, keys))
		}
	}
	return o.contiguous(r, keys)
}

func (o *oracle) credit(r Rank, keys []Key, depth int32, w Weights) (sum int32) {
	for _, k := range keys[:depth] {
		if t := o.held[r][k]; t != 0 {
			sum += w[t.best()]
		} else {
			sum += w[0] // below the deepest block: proven by it
		}
	}
	return sum
}

func (o *oracle) digest(r Rank) (sum uint64) {
	for k, t := range o.held[r] {
		sum += digestOf(k, t)
	}
	return sum
}

// seeded gives a generator and prints its seed when the test fails.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

func rankNo(i int) Rank { return Rank{Worker: fmt.Sprint("pod-", i/2), DP: int32(i % 2)} }

// twins are an index and its oracle under the same operations.
type twins struct {
	t    testing.TB
	x    *Index
	o    *oracle
	h    []*Holder
	trie trie
	r    *rand.Rand
	res  Result
}

// trie makes chains that share prefixes, with keys that are functions of their path.
type trie struct{ fan, depth int }

func (tr trie) path(r *rand.Rand) []Key {
	k, out := uint64(7), []Key{}
	for range 1 + r.IntN(tr.depth) {
		k = k*0x9e3779b97f4a7c15 + uint64(r.IntN(tr.fan)) + 1
		out = append(out, Key(k^k>>31))
	}
	return out
}

func newTwins(t testing.TB, seed uint64, ranks int, tr trie, o Options) *twins {
	r := seeded(t, seed)
	o.Rand = r.Uint64
	w := &twins{t: t, x: New(o), o: newOracle(), trie: tr, r: r}
	for i := range ranks {
		h, err := w.x.Rank(rankNo(i))
		if err != nil {
			t.Fatal(err)
		}
		w.h = append(w.h, h)
	}
	return w
}

func (w *twins) tier() Tier {
	if w.r.IntN(4) > 0 {
		return Device
	}
	return Tier(1 << w.r.IntN(tierCount))
}

// chain stores a random piece of a random path. whole stores from the root, as an honest engine with nothing lost does.
func (w *twins) chain(whole bool, t Tier) {
	path := w.trie.path(w.r)
	from := 0
	if !whole {
		from = w.r.IntN(len(path))
	}
	p := Root
	if from > 0 {
		p = After(path[from-1])
	}
	h := w.h[w.r.IntN(len(w.h))]
	w.x.Store(h, p, path[from:], t)
	w.o.store(h.Rank(), p, path[from:], t)
}

// trim removes the end of a path from a rank, as an engine's leaf-first eviction does, or a random piece of it.
func (w *twins) trim(leafFirst bool, t Tier) {
	path := w.trie.path(w.r)
	h := w.h[w.r.IntN(len(w.h))]
	keys := path[w.r.IntN(len(path)):]
	if !leafFirst {
		keys = keys[:1+w.r.IntN(len(keys))]
	} else {
		keys = w.subtree(h.Rank(), path[len(path)-1:])
	}
	w.x.Remove(h, keys, t)
	w.o.remove(h.Rank(), keys, t)
}

// subtree gives all blocks the rank holds at or below the given ones, so that removing them leaves its holdings closed.
func (w *twins) subtree(r Rank, keys []Key) []Key {
	in := map[Key]bool{}
	for _, k := range keys {
		in[k] = true
	}
	for grew := true; grew; {
		grew = false
		for k := range w.o.held[r] {
			if p := w.o.parent[k]; !in[k] && p.Known && in[p.Key] {
				in[k], grew = true, true
			}
		}
	}
	out := []Key{}
	for k := range in {
		out = append(out, k)
	}
	return out
}

// ask compares a random query in both modes. exact demands the oracle's deepest; with holes it is an upper bound.
func (w *twins) ask(exact bool) {
	w.t.Helper()
	path := w.trie.path(w.r)
	weights := Weights{100, 75, 25, 10}
	w.x.Match(path, Contiguous, weights, &w.res)
	for _, h := range w.h {
		want := w.o.contiguous(h.Rank(), path)
		depth, credit := w.res.Of(h.Rank())
		if depth != want || credit != w.o.credit(h.Rank(), path, depth, weights) {
			w.t.Fatalf("contiguous of %v over %d keys: depth %d credit %d, want %d and %d", h.Rank(), len(path),
				depth, credit, want, w.o.credit(h.Rank(), path, depth, weights))
		}
	}
	w.x.Match(path, Deepest, weights, &w.res)
	for _, h := range w.h {
		low, high := w.o.contiguous(h.Rank(), path), w.o.deepest(h.Rank(), path)
		if exact {
			low = high
		}
		depth, credit := w.res.Of(h.Rank())
		if depth < low || depth > high {
			w.t.Fatalf("deepest of %v over %d keys: %d, want %d to %d", h.Rank(), len(path), depth, low, high)
		}
		if want := w.o.credit(h.Rank(), path, depth, weights); exact && credit != want {
			w.t.Fatalf("credit of %v at depth %d: %d, want %d", h.Rank(), depth, credit, want)
		}
	}
}

// check compares what the writer keeps with the oracle, and walks the whole structure.
func (w *twins) check() {
	w.t.Helper()
	for _, h := range w.h {
		var blocks [tierCount]int64
		for _, t := range w.o.held[h.Rank()] {
			for i := range blocks {
				blocks[i] += int64(t >> i & 1)
			}
		}
		if h.Digest != w.o.digest(h.Rank()) || h.Blocks != blocks {
			w.t.Fatalf("%v: digest %x blocks %v, want %x %v", h.Rank(), h.Digest, h.Blocks, w.o.digest(h.Rank()), blocks)
		}
	}
	w.x.checkAll(w.t)
}

// checkAll walks every slot: counts, references, children and waiting parents must agree.
func (x *Index) checkAll(t testing.TB) {
	t.Helper()
	nodes, unrooted := 0, 0
	refs, children := map[setID]uint32{}, map[Key]int{}
	for i := range x.segs {
		taken, dead := 0, 0
		seg := x.segs[i].Load()
		for at := range seg.n {
			m := seg.meta(at)
			switch {
			case m.live():
				taken++
				nodes++
				refs[m.set()]++
				if p := seg.parentOf(at, m); p.Known {
					children[p.Key]++
					if _, ok := x.locate(p.Key); !ok {
						unrooted++
					}
				}
			case m.ghost():
				taken++
			case m.dead():
				dead++
			case seg.key(at) != 0:
				t.Fatalf("segment %d: the empty slot %d has key %x: a reader would go on behind it", i, at, seg.key(at))
			}
		}
		if u := x.used[i]; int(u.taken) != taken || int(u.dead) != dead {
			t.Fatalf("segment %d: taken %d dead %d, counted %d %d", i, u.taken, u.dead, taken, dead)
		}
	}
	if nodes != x.nodes || unrooted != x.unrooted {
		t.Fatalf("nodes %d unrooted %d, counted %d %d", x.nodes, x.unrooted, nodes, unrooted)
	}
	x.checkSets(t, refs)
	x.checkChildren(t, children)
	x.pool.check(t, x)
}

// checkChildren compares every count of children, those of ghosts included: a ghost without any should be gone.
func (x *Index) checkChildren(t testing.TB, children map[Key]int) {
	t.Helper()
	for i := range x.segs {
		seg := x.segs[i].Load()
		for at := range seg.n {
			m, k := seg.meta(at), seg.key(at)
			if !m.live() && !m.ghost() {
				continue
			}
			n := x.seek(k)
			if n.seg != seg || n.at != at {
				t.Fatalf("%x is in slot %d of segment %d and is found elsewhere", k, at, i)
			}
			if got := x.children(n, k); got != children[k] || got == 0 && m.ghost() {
				t.Fatalf("children of %x: %d, counted %d (ghost: %v)", k, got, children[k], m.ghost())
			}
			delete(children, k)
		}
	}
	if len(children) > 0 {
		t.Fatalf("%d parents have no slot", len(children))
	}
}

func (x *Index) checkSets(t testing.TB, refs map[setID]uint32) {
	t.Helper()
	live := 0
	for id := range x.sets.books {
		if id == 0 {
			continue
		}
		b := &x.sets.books[id]
		if b.refs != refs[setID(id)] {
			t.Fatalf("set %d: %d references, counted %d", id, b.refs, refs[setID(id)])
		}
		if b.refs > 0 {
			live++
			if s := x.sets.at(setID(id)); s == nil || s.n == 0 {
				t.Fatalf("set %d is used and empty", id)
			}
		}
	}
	if live != x.sets.live {
		t.Fatalf("%d live sets, counted %d", x.sets.live, live)
	}
}

// drain works until nothing is left to do.
func (x *Index) drain() {
	for x.Work(1000) {
	}
}
