package index

// sweep is the pass that takes forgotten rank ids out of the sets, a bounded number of slots at a time.
type sweep struct {
	segment, slot int
	seg           *segment
	dead          []uint64  // bit a rank id
	memo          []sweptTo // by set id
}

// sweptTo is what a set becomes without the forgotten ranks. The gens make an entry void when an id is reused.
type sweptTo struct {
	known      bool
	to         setID
	gen, toGen uint32
}

// What some steps of Work cost, in slots looked at: measured, rounded up.
const (
	freeCost  = 16 // a set taken out of the table; a block dropped
	evictCost = 8  // a slot looked at by the clock hand, which mostly evicts
	// memberCost is that of so many members of a large set that is made anew.
	membersACost = 2
)

// Work does housekeeping worth about budget slots (some 20 ns each, so 10,000 stay well below 1 ms): taking forgotten
// ranks out of the sets, freeing sets and ids, evicting what is over the cap, auditing a jump. It tells whether there is
// more to do.
func (x *Index) Work(budget int) (more bool) {
	x.runAudit()
	budget -= evictCost * x.evictOver(max(1, budget/evictCost))
	x.settleRanks()
	freed, more := x.sets.reclaim(max(1, budget/(2*freeCost)))
	budget -= freeCost * freed
	more = x.pool.settle() || more
	for budget > 0 {
		if len(x.ranks.sweeping) == 0 && !x.beginSweep() {
			break
		}
		budget -= x.sweepSlots(budget)
	}
	x.judgeRoots()
	more = more || x.max > 0 && x.nodes > x.max
	return more || len(x.ranks.sweeping) > 0 || len(x.ranks.forgotten) > 0 || len(x.ranks.limbo) > 0
}

// beginSweep starts a pass for all ids forgotten so far.
func (x *Index) beginSweep() bool {
	t := &x.ranks
	if len(t.forgotten) == 0 {
		return false
	}
	t.sweeping, t.forgotten = t.forgotten, nil
	x.sweep = sweep{dead: make([]uint64, (len(t.byID)+63)/64)}
	for _, id := range t.sweeping {
		x.sweep.dead[id/64] |= 1 << (id % 64)
	}
	return true
}

// sweepSlots visits slots worth budget and gives what they cost. At the end of a pass the ids wait for the readers.
//
// A segment that is rebuilt during the pass is begun again: its slots may have moved behind the cursor.
func (x *Index) sweepSlots(budget int) (cost int) {
	s := &x.sweep
	for s.segment < segments {
		seg := x.segs[s.segment].Load()
		if seg != s.seg {
			s.seg, s.slot = seg, 0
		}
		for s.slot < seg.n {
			if cost > budget {
				return cost
			}
			cost += x.sweepSlot(seg, s.slot)
			if x.segs[s.segment].Load() != seg {
				break
			}
			s.slot++
		}
		if x.segs[s.segment].Load() == seg {
			s.segment, s.seg = s.segment+1, nil
		}
	}
	t := &x.ranks
	tag := x.epochs.retire()
	for _, id := range t.sweeping {
		t.limbo = append(t.limbo, retiredRank{id, tag})
	}
	t.sweeping = nil
	x.sweep = sweep{}
	return cost + 1
}

// sweepSlot takes the forgotten ranks out of one slot and gives what that costs.
func (x *Index) sweepSlot(seg *segment, at int) (cost int) {
	m := seg.meta(at)
	if !m.live() {
		return 1
	}
	id := m.set()
	to, cost := x.swept(id)
	if to != id {
		x.setOf(node{seg, at, m}, seg.key(at), to, node{})
		cost += freeCost
	}
	return cost + 1
}

// swept gives what is left of a set, from memory if it was asked before.
func (x *Index) swept(id setID) (to setID, cost int) {
	s, books := &x.sweep, x.sets.books
	if len(s.memo) < len(books) {
		s.memo = append(s.memo, make([]sweptTo, len(books)-len(s.memo))...)
	}
	if e := s.memo[id]; e.known && e.gen == books[id].gen && e.toGen == books[e.to].gen {
		return e.to, 0
	}
	set := x.sets.at(id)
	if to = id; set.meets(s.dead) {
		to = x.without(id)
		cost = freeCost + set.n/membersACost
	}
	books = x.sets.books
	if !books[id].private && !books[to].private { // a private set is its node's alone, and may change in place
		s.memo[id] = sweptTo{true, to, books[id].gen, books[to].gen}
	}
	return to, cost
}

// without gives the set that is left of id when the ranks being swept are taken out.
func (x *Index) without(id setID) setID {
	dead := x.sweep.dead
	x.members = x.sets.at(id).members(x.members[:0])
	left := make([]carrier, 0, len(x.members))
	for _, c := range x.members {
		if int(c.rank/64) >= len(dead) || dead[c.rank/64]>>(c.rank%64)&1 == 0 {
			left = append(left, c)
		}
	}
	return x.sets.replace(id, newSet(left))
}
