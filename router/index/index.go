package index

import (
	"math/rand/v2"
	"sync/atomic"
)

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
	used [segments]struct{ live, dead int32 }
	hash hasher
	view atomic.Pointer[RankView]

	epochs *epochs
	sets   *setTable
	ranks  rankTable

	nodes    int
	max      int
	unrooted int
	rootless atomic.Bool // unrooted is above its share: queries walk

	// waiting counts the nodes whose parent is not here, by that parent. crowded has the child counts that do not fit
	// a slot.
	waiting map[Key]int
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
	x := &Index{hash: newHasher(random), max: o.MaxBlocks, epochs: &epochs{}, waiting: map[Key]int{}, crowded: map[Key]int{}}
	x.epochs.now.Store(1)
	x.sets = newSetTable(x.epochs, &x.nodes)
	x.ranks.byRank = map[Rank]*Holder{}
	empty := newSegment(minSlots)
	for i := range x.segs {
		x.segs[i].Store(empty) // shared until the first store; a shared segment is never written
	}
	x.publish()
	return x
}

// View gives the ranks as they are now. Any goroutine may call it.
func (x *Index) View() *RankView { return x.view.Load() }

// node is a place found or made by the writer. It is valid until the next insertion into its segment.
type node struct {
	seg *segment
	at  int
	m   meta
}

func (n node) store(m meta) { n.seg.slots[n.at].meta.Store(uint64(m)) }

// locate finds a key for the writer.
func (x *Index) locate(k Key) (node, bool) {
	hash := x.hash.sum(k)
	seg := x.segs[hash>>(64-segmentBits)].Load()
	m, at, ok := seg.find(k, hash)
	return node{seg, at, m}, ok
}

// holds tells whether n still is the place of key k, and reads its meta again.
func (n *node) holds(x *Index, k Key) bool {
	if n.seg == nil || x.segs[x.hash.sum(k)>>(64-segmentBits)].Load() != n.seg || n.seg.slots[n.at].key.Load() != uint64(k) {
		return false
	}
	n.m = meta(n.seg.slots[n.at].meta.Load())
	return n.m.live()
}

// Store adds a chain to what a rank holds: keys[0] follows p, each other key the one before it. A key that is known
// with another parent ends the chain there: an honest chain gives a key one parent. It returns how many keys were
// taken.
func (x *Index) Store(h *Holder, p Parent, keys []Key, t Tier) (taken int) {
	t &= AllTiers
	if t == 0 || h.gone {
		return 0
	}
	h.Stores += uint64(len(keys))
	start := p
	var last node
	for i, k := range keys {
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
	n, found := x.locate(k)
	if !found {
		to, before, after := x.sets.change(0, h.id, t, true)
		n = x.insert(k, p, to)
		x.sets.move(0, to)
		x.adopt(p, last)
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

// insert makes a node for a key that has none. Children that came before it are counted from now on.
func (x *Index) insert(k Key, p Parent, set setID) node {
	hash := x.hash.sum(k)
	number := hash >> (64 - segmentBits)
	seg := x.segs[number].Load()
	use := &x.used[number]
	if need := use.live + use.dead + 1; int(need)*loadDen > len(seg.slots)*loadNum || use.live+use.dead == 0 {
		seg = x.rebuild(number, int(use.live)+1)
	}
	at, fresh := seg.place(hash)
	if !fresh {
		use.dead--
	}
	use.live++
	children := 0
	if c, ok := x.waiting[k]; ok {
		children = c
		delete(x.waiting, k)
		x.unrooted -= c
	}
	if children >= manyChildren {
		x.crowded[k] = children
	}
	seg.occupy(at, k, p, set, children)
	x.nodes++
	return node{seg, at, meta(seg.slots[at].meta.Load())}
}

// rebuild puts a segment's live slots into a new array with room for live of them: 1.5 times the slots while they are
// in the way, fewer when most of them are dead or gone.
func (x *Index) rebuild(number uint64, live int) *segment {
	old := x.segs[number].Load()
	n := len(old.slots)
	switch {
	case n == minSlots && live == 1:
		n = staggered(n, number) // its first own array
	case live*2 > n:
		n += n / 2
	case live*6 < n:
		n = staggered(max(minSlots, live*2), number)
	}
	seg := old.rebuilt(n, x.hash)
	x.used[number].dead = 0
	x.segs[number].Store(seg)
	return seg
}

// adopt books a new child of p.
func (x *Index) adopt(p Parent, hint node) {
	if !p.Known {
		return
	}
	n, ok := hint, hint.holds(x, p.Key)
	if !ok {
		n, ok = x.locate(p.Key)
	}
	if !ok {
		x.waiting[p.Key]++
		x.unrooted++
		return
	}
	x.setChildren(n, p.Key, x.children(n, p.Key)+1)
}

// orphan takes a child from p.
func (x *Index) orphan(p Parent) {
	if !p.Known {
		return
	}
	if n, ok := x.locate(p.Key); ok {
		x.setChildren(n, p.Key, x.children(n, p.Key)-1)
		return
	}
	x.unrooted--
	if x.waiting[p.Key]--; x.waiting[p.Key] == 0 {
		delete(x.waiting, p.Key)
	}
}

func (x *Index) children(n node, k Key) int {
	if c := n.m.children(); c < manyChildren {
		return c
	}
	return x.crowded[k]
}

func (x *Index) setChildren(n node, k Key, c int) {
	if c >= manyChildren {
		x.crowded[k] = c
	} else if n.m.children() == manyChildren {
		delete(x.crowded, k)
	}
	n.store(n.m.withChildren(c))
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
	for _, k := range keys {
		n, ok := x.locate(k)
		if !ok {
			continue
		}
		from := n.m.set()
		to, before, after := x.sets.change(from, h.id, t&AllTiers, false)
		if before == after {
			continue
		}
		taken++
		h.count(before, after, k)
		x.setOf(n, k, to)
	}
	x.judgeRoots()
	return taken
}

// setOf gives a node another carrier set, and drops it when nobody carries it.
func (x *Index) setOf(n node, k Key, to setID) {
	from := n.m.set()
	if to != 0 {
		if to != from {
			n.store(n.m.withSet(to))
			x.sets.move(from, to)
		}
		return
	}
	x.drop(n, k)
	x.sets.move(from, 0)
}

// drop frees a node's slot. Its children, if any, wait for it.
func (x *Index) drop(n node, k Key) {
	p := n.seg.parentOf(n.at, n.m)
	if c := x.children(n, k); c > 0 {
		x.waiting[k] = c
		delete(x.crowded, k)
		x.unrooted += c
	}
	number := x.hash.sum(k) >> (64 - segmentBits)
	use := &x.used[number]
	use.live--
	if !n.seg.vacate(n.at) {
		use.dead++
	}
	x.nodes--
	x.orphan(p)
	if len(n.seg.slots) >= 2*minSlots && int(use.live)*8 < len(n.seg.slots) {
		x.rebuild(number, int(use.live))
	}
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
