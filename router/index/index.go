package index

import (
	"math/rand/v2"
	"sync/atomic"
)

// noSlots stands for every segment that holds nothing yet. It is never written.
var noSlots = &segment{pages: []*page{{}}, n: 1}

const (
	segmentBits = 10
	segments    = 1 << segmentBits
)

// Options configure an index. Zero fields take the documented default.
type Options struct {
	// MaxBlocks bounds the nodes; beyond it childless ones are evicted. 0 means no bound.
	MaxBlocks int
	// Rand seeds the hash. The default is math/rand/v2's global generator.
	Rand func() uint64
}

// Index holds the blocks of one model, hash scheme and block size. See the package doc for who may call what: every
// method belongs to the writer, but Match, View and the atomic counters.
type Index struct {
	segs [segments]atomic.Pointer[segment]
	used [segments]struct{ taken, dead int32 } // slots: live ones and ghosts, and dead ones
	hash hasher
	pool pagePool
	view atomic.Pointer[RankView]

	epochs *epochs
	sets   *setTable
	ranks  rankTable

	nodes    int
	max      int
	unrooted int         // nodes whose parent is a ghost
	rootless atomic.Bool // unrooted is above its share: queries walk

	// crowded has the child counts that do not fit a slot.
	crowded map[Key]int

	hand  clockHand
	sweep sweep
	audit audit

	members []carrier // scratch
}

// New gives an empty index.
func New(o Options) *Index {
	random := o.Rand
	if random == nil {
		random = rand.Uint64
	}
	x := &Index{hash: newHasher(random), max: o.MaxBlocks, epochs: &epochs{}, crowded: map[Key]int{}}
	x.epochs.now.Store(1)
	x.sets = newSetTable(x.epochs, &x.nodes)
	x.ranks.byRank = map[Rank]*Holder{}
	x.pool.epochs = x.epochs
	for i := range x.segs {
		x.segs[i].Store(noSlots)
	}
	x.publish()
	return x
}

// View gives the ranks as they are now. Any goroutine may call it.
func (x *Index) View() *RankView { return x.view.Load() }

// Store adds a chain to what a rank holds: keys[0] follows p, each other key the one before it. A key that is known
// with another parent ends the chain there: an honest chain gives a key one parent. It returns how many keys were
// taken.
func (x *Index) Store(h *Holder, p Parent, keys []Key, t Tier) (taken int) {
	t &= AllTiers
	if t == 0 || h.gone {
		return 0
	}
	h.Stores += uint64(len(keys))
	if p.Known {
		x.load(p.Key)
	}
	start := p
	var last node
	for i, k := range keys {
		if i%ahead == 0 {
			x.loadAll(keys[i:min(i+ahead, len(keys))])
		}
		if start == After(k) { // the chain bites its own tail
			h.Contradictions++
			break
		}
		n, ok := x.put(h, k, p, t, last)
		if !ok {
			h.Contradictions++
			break
		}
		last, p, taken = n, After(k), i+1
	}
	// In proportion to what was stored: a flood of long chains would outrun any fixed number of slots.
	x.evictOver(evictSteps + evictStepsABlock*taken)
	x.judgeRoots()
	return taken
}

// put stores one block for one rank. last is where the parent was a moment ago, if the caller knows.
func (x *Index) put(h *Holder, k Key, p Parent, t Tier, last node) (node, bool) {
	if p.Known && p.Key == k {
		return node{}, false
	}
	n := x.seek(k)
	if !n.m.live() {
		to, before, after := x.sets.change(0, h.id, t, true)
		n = x.insert(n, k, p, to, last)
		h.count(before, after, k)
		return n, true
	}
	if n.seg.parentOf(n.at, n.m) != p {
		return node{}, false
	}
	from := n.m.set()
	to, before, after := x.sets.change(from, h.id, t, true)
	if to != from {
		n.m = n.m.withSet(to)
		n.store(n.m)
		x.sets.move(from, to)
	}
	if before != after {
		h.count(before, after, k)
	}
	return n, true
}

// judgeRoots tells readers whether holdings may be taken for prefixes.
func (x *Index) judgeRoots() {
	if now := x.unrooted*1000 > x.nodes*unrootedPerMille; now != x.rootless.Load() {
		x.rootless.Store(now)
	}
}

// Remove takes blocks from what a rank holds: one tier, or all that are named. Unknown keys are no error: the index may
// have evicted them. It returns how many were there.
func (x *Index) Remove(h *Holder, keys []Key, t Tier) (taken int) {
	if h.gone {
		return 0
	}
	for from := 0; from < len(keys); from += ahead {
		taken += x.removeSome(h, keys[from:min(from+ahead, len(keys))], t&AllTiers)
	}
	x.judgeRoots()
	return taken
}

// removeSome removes up to ahead blocks: it finds all of them before it changes any, and has the parents loaded
// meanwhile. What it found may move when a segment is rebuilt on the way, never come anew.
func (x *Index) removeSome(h *Holder, keys []Key, t Tier) (taken int) {
	x.loadAll(keys)
	var found [ahead]node
	for i, k := range keys {
		found[i] = x.seek(k)
		if n := found[i]; n.m.live() {
			if p := n.seg.parentOf(n.at, n.m); p.Known && neighbour(keys, i, p.Key) < 0 {
				x.load(p.Key)
			}
		}
	}
	for i, k := range keys {
		n := found[i]
		if !n.m.live() {
			continue
		}
		if !n.holds(x, k) {
			n = x.seek(k)
		}
		if !n.m.live() {
			continue // named twice
		}
		to, before, after := x.sets.change(n.m.set(), h.id, t, false)
		if before == after {
			continue
		}
		taken++
		h.count(before, after, k)
		var parent node
		if at := neighbour(keys, i, Key(n.seg.at(n.at).parent)); at >= 0 {
			parent = found[at]
		}
		x.setOf(n, k, to, parent)
	}
	return taken
}

// neighbour gives the place of a key among the two next to place i, -1 if it is neither. Engines remove the leaf before
// the root, others the other way: a block's parent mostly is next to it.
func neighbour(keys []Key, i int, k Key) int {
	switch {
	case i+1 < len(keys) && keys[i+1] == k:
		return i + 1
	case i > 0 && keys[i-1] == k:
		return i - 1
	}
	return -1
}

// Stats are figures of the index as the writer sees them.
type Stats struct {
	Nodes    int // blocks known
	Unrooted int // of them, those whose parent is not known
	Sets     int // distinct carrier sets, those that may come back included
	Ranks    int // ranks known, forgotten ones that are still swept included
	Evicted  uint64
	Audits   uint64 // jumps that were repeated as walks
	Differed uint64 // of them, those with another answer
}

// Stats gives the figures. Writer only.
func (x *Index) Stats() Stats {
	t := &x.ranks
	return Stats{
		Nodes: x.nodes, Unrooted: x.unrooted, Sets: x.sets.known(),
		Ranks:   len(t.byID) - len(t.free),
		Evicted: x.hand.evicted, Audits: x.audit.done, Differed: x.audit.differed,
	}
}
