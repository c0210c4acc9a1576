package index

import "sync/atomic"

// ahead is how many slots are loaded before the first of them is used: about as many misses as a processor can have
// under way.
const ahead = 16

// node is a place found or made by the writer, and what it held then. It is valid until its segment is rebuilt, which
// any insertion or removal may do.
type node struct {
	seg *segment
	at  int
	m   meta
}

func (n node) store(m meta) { atomic.StoreUint64(&n.seg.at(n.at).meta, uint64(m)) }

// segmentOf gives the segment for a key's hash.
func (x *Index) segmentOf(hash uint64) *segment { return x.segs[hash>>(64-segmentBits)].Load() }

// load has the processor fetch where a key is or would be.
func (x *Index) load(k Key) {
	hash := x.hash.sum(k)
	x.segmentOf(hash).load(hash)
}

func (x *Index) loadAll(keys []Key) {
	for _, k := range keys {
		x.load(k)
	}
}

// seek finds a key, live or a ghost, or the place it would take.
func (x *Index) seek(k Key) node {
	hash := x.hash.sum(k)
	seg := x.segmentOf(hash)
	at, m := seg.seek(k, hash)
	return node{seg, at, m}
}

// locate finds a live key for the writer.
func (x *Index) locate(k Key) (node, bool) {
	n := x.seek(k)
	return n, n.m.live()
}

// holds tells whether n still is the place of key k, live or a ghost, and reads its meta again.
func (n *node) holds(x *Index, k Key) bool {
	if n.seg == nil || x.segmentOf(x.hash.sum(k)) != n.seg || n.seg.key(n.at) != k {
		return false
	}
	n.m = n.seg.meta(n.at)
	return n.m.live() || n.m.ghost()
}

// insert makes a node for a key that is not live, n being its place. Children that came before it had its ghost count
// them. parent is where that was a moment ago, if the caller knows.
func (x *Index) insert(n node, k Key, p Parent, set setID, parent node) node {
	children := 0
	if n.m.ghost() {
		children = x.children(n, k)
		x.unrooted -= children
	} else {
		n = x.claim(n, k)
	}
	n.m = n.seg.occupy(n.at, k, p, set, children)
	x.nodes++
	x.sets.move(0, set)
	x.adopt(p, parent)
	return n
}

// claim counts a free place as taken, and looks for another first if the segment has too few.
func (x *Index) claim(n node, k Key) node {
	number := x.hash.sum(k) >> (64 - segmentBits)
	use := &x.used[number]
	if need := use.taken + use.dead + 1; int(need)*loadDen > n.seg.n*loadNum || n.seg == noSlots {
		x.rebuild(number)
		n = x.seek(k)
	}
	if n.m.dead() {
		use.dead--
	}
	use.taken++
	return n
}

// rebuild puts what is live in a segment into new pages: more of them while there is too little room, fewer when most
// is dead or gone.
func (x *Index) rebuild(number uint64) {
	old, use := x.segs[number].Load(), &x.used[number]
	seg := old.rebuilt(slotsFor(int(use.taken)+1, old.n, number), x)
	use.dead = 0
	x.segs[number].Store(seg)
	if old != noSlots {
		x.pool.retire(old.pages)
	}
}

// slotsFor gives the slots that a segment with n of them should have for so many in use. Segments grow by a quarter to
// a half, each by another share: they fill at the same pace, and would otherwise all grow at the same moment, and the
// whole be at its emptiest then.
func slotsFor(taken, n int, number uint64) int {
	switch {
	case taken*3 > n*2:
		n += n/4 + n*int(number%8)/32
	case taken*6 < n:
		n = taken * 2
	}
	if n <= pageSlots {
		return max(n, minSlots)
	}
	return (n + pageSlots - 1) / pageSlots * pageSlots
}

// adopt books a new child of p. hint is where p was a moment ago, if the caller knows.
func (x *Index) adopt(p Parent, hint node) {
	if !p.Known {
		return
	}
	n := hint
	if !n.holds(x, p.Key) {
		n = x.seek(p.Key)
	}
	switch {
	case n.m.live():
		x.setChildren(n, p.Key, x.children(n, p.Key)+1)
	case n.m.ghost():
		x.setChildren(n, p.Key, x.children(n, p.Key)+1)
		x.unrooted++
	default:
		n = x.claim(n, p.Key)
		n.seg.haunt(n.at, p.Key, 1)
		x.unrooted++
	}
}

// orphan takes a child from p, which is here as long as it has children: live or as a ghost.
func (x *Index) orphan(p Parent, hint node) {
	if !p.Known {
		return
	}
	n := hint
	if !n.holds(x, p.Key) {
		n = x.seek(p.Key)
	}
	if n.m.ghost() {
		x.unrooted--
	}
	if n.m.ghost() && n.m.children() == 1 {
		x.free(n, p.Key)
		return
	}
	x.setChildren(n, p.Key, x.children(n, p.Key)-1)
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

// setOf gives a node another carrier set, and drops it when nobody carries it. parent is where its parent was a moment
// ago, if the caller knows.
func (x *Index) setOf(n node, k Key, to setID, parent node) {
	from := n.m.set()
	switch to {
	case 0:
		x.drop(n, k, parent)
	case from:
		return
	default:
		n.store(n.m.withSet(to))
	}
	x.sets.move(from, to)
}

// drop takes a block out. Its ghost stays while it has children.
func (x *Index) drop(n node, k Key, parent node) {
	p := n.seg.parentOf(n.at, n.m)
	x.nodes--
	if c := x.children(n, k); c > 0 {
		n.store((stateGhost | n.m.nextOwner()).withChildren(c))
		x.unrooted += c
	} else {
		x.free(n, k)
	}
	x.orphan(p, parent)
}

// free gives a slot back.
func (x *Index) free(n node, k Key) {
	number := x.hash.sum(k) >> (64 - segmentBits)
	use := &x.used[number]
	use.taken--
	use.dead += n.seg.vacate(n.at)
	if n.seg.n >= 2*minSlots && int(use.taken)*8 < n.seg.n {
		x.rebuild(number)
	}
}
