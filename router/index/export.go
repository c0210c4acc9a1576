package index

import "sync/atomic"

// Carrier is who holds a block, outside the index.
type Carrier struct {
	Rank  Rank
	Tiers Tier
}

// Node is one exported block. Carriers is valid during the call that delivers it.
type Node struct {
	Key      Key
	Parent   Parent
	Carriers []Carrier
}

// Export walks the index beside its writer. It is not one instant: each segment is read as of some moment between two
// calls of Next. Whoever needs to know that a rank's holdings did not begin anew meanwhile compares RankView.State.
type Export struct {
	x        *Index
	segment  int
	carriers []Carrier
	members  []carrier
}

// Export begins a walk. Any goroutine may run it, beside any number of others.
func (x *Index) Export() *Export { return &Export{x: x} }

// Next delivers the nodes of one segment (a thousandth of the index) that a live rank carries, and tells whether there
// are more segments.
func (e *Export) Next(emit func(Node)) (more bool) {
	if e.segment == segments {
		return false
	}
	x := e.x
	pin := x.epochs.enter()
	defer x.epochs.leave(pin)
	view := x.view.Load()
	seg := x.segs[e.segment].Load()
	for at := range seg.n {
		n, set, ok := seg.read(at)
		if !ok {
			continue
		}
		e.members = x.sets.at(set).members(e.members[:0])
		e.carriers = e.carriers[:0]
		for _, m := range e.members {
			if id := int(m.rank); id < len(view.ranks) && view.live[id/64]>>(id%64)&1 != 0 {
				e.carriers = append(e.carriers, Carrier{view.ranks[id], m.tiers})
			}
		}
		if len(e.carriers) > 0 {
			n.Carriers = e.carriers
			emit(n)
		}
	}
	e.segment++
	return e.segment < segments
}

// read gives a live slot's key, parent and set, all of one owner.
func (s *segment) read(at int) (Node, setID, bool) {
	sl := s.at(at)
	for {
		m := s.meta(at)
		if !m.live() {
			return Node{}, 0, false
		}
		n := Node{Key: Key(atomic.LoadUint64(&sl.key)), Parent: s.parentOf(at, m)}
		again := s.meta(at)
		if again.live() && again.version() == m.version() {
			return n, again.set(), true
		}
	}
}
