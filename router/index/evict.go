package index

// evictSteps bounds the slots one call looks at, so that a store over the cap stays short, with evictStepsABlock more for
// each block it stores: of chains that are evicted whole, finding an end takes some 1.5 looks a block, evicting it one.
// Work goes on.
const (
	evictSteps       = 256
	evictStepsABlock = 4
)

// clockHand goes round the slots. A slot that a query used since the last round gets a second chance.
type clockHand struct {
	segment, slot int
	evicted       uint64
}

// evictOver evicts childless nodes while there are more than the cap allows, looking at up to budget slots, and tells
// how many it looked at. A node with children is never evicted, so a chain loses its end first, and a hot chain, whose
// deepest level queries mark, nothing.
func (x *Index) evictOver(budget int) (looked int) {
	if x.max <= 0 {
		return 0
	}
	for ; x.nodes > x.max && looked < budget; looked++ {
		seg := x.segs[x.hand.segment].Load()
		if x.hand.slot >= seg.n {
			x.hand.segment, x.hand.slot = (x.hand.segment+1)%segments, 0
			continue
		}
		at := x.hand.slot
		x.hand.slot++
		n := node{seg, at, seg.meta(at)}
		// A chain goes from its end up, as far as it is cold: whoever lost its last child is looked at next.
		for ok := true; ok && x.nodes > x.max && x.mayEvict(n); looked++ {
			n, ok = x.evict(n)
		}
	}
	return looked
}

// mayEvict tells whether a slot holds a childless node that no query used since the hand last came by.
func (x *Index) mayEvict(n node) bool {
	if !n.m.live() || n.m.children() > 0 {
		return false
	}
	return !n.seg.unmark(n.at)
}

// evict drops a node for all its carriers, who know less from now on, and gives its parent.
func (x *Index) evict(n node) (parent node, ok bool) {
	k, p := n.seg.key(n.at), n.seg.parentOf(n.at, n.m)
	x.members = x.sets.at(n.m.set()).members(x.members[:0])
	for _, c := range x.members {
		if h := x.ranks.byID[c.rank]; h != nil {
			h.count(c.tiers, 0, k)
			h.Evicted++
		}
	}
	x.hand.evicted++
	from := n.m.set()
	x.drop(n, k, node{})
	x.sets.move(from, 0)
	if !p.Known {
		return node{}, false
	}
	return x.locate(p.Key)
}
