package index

// sweep is the pass that takes forgotten rank ids out of the sets, a bounded number of slots at a time.
type sweep struct {
	segment, slot int
	seg           *segment
	dead          map[rankID]bool
	memo          map[setID]sweptTo
}

// sweptTo is what a set becomes without the forgotten ranks. gen makes an entry void when the id is reused.
type sweptTo struct {
	gen     uint32
	changed bool
}

// Work does housekeeping worth about budget slots or sets (some 20 ns each, so 10,000 stay well below 1 ms): taking
// forgotten ranks out of the sets, freeing sets and ids, evicting what is over the cap, auditing a jump. It tells
// whether there is more to do.
func (x *Index) Work(budget int) (more bool) {
	x.runAudit()
	budget -= x.evictOver(budget)
	x.settleRanks()
	more = x.sets.reclaim(max(1, budget/4))
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
	x.sweep = sweep{dead: map[rankID]bool{}, memo: map[setID]sweptTo{}}
	for _, id := range t.sweeping {
		x.sweep.dead[id] = true
	}
	return true
}

// sweepSlots visits up to budget slots and gives how many it did. At the end of a pass the ids wait for the readers.
//
// A segment that is rebuilt during the pass is begun again: its slots may have moved behind the cursor.
func (x *Index) sweepSlots(budget int) (visited int) {
	s := &x.sweep
	for s.segment < segments {
		seg := x.segs[s.segment].Load()
		if seg != s.seg {
			s.seg, s.slot = seg, 0
		}
		for s.slot < seg.n {
			if visited++; visited > budget {
				return visited
			}
			x.sweepSlot(seg, s.slot)
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
	return visited + 1
}

func (x *Index) sweepSlot(seg *segment, at int) {
	m := seg.meta(at)
	if !m.live() {
		return
	}
	id := m.set()
	gen := x.sets.books[id].gen
	private := x.sets.books[id].private
	if memo, ok := x.sweep.memo[id]; ok && memo.gen == gen && !memo.changed && !private {
		return
	}
	to := x.without(id)
	if to == id {
		x.sweep.memo[id] = sweptTo{gen: gen}
		return
	}
	x.setOf(node{seg, at, m}, seg.key(at), to, node{})
}

// without gives the set that is left of id when the ranks being swept are taken out.
func (x *Index) without(id setID) setID {
	x.members = x.sets.at(id).members(x.members[:0])
	for _, c := range x.members {
		if x.sweep.dead[c.rank] {
			id, _, _ = x.sets.change(id, c.rank, AllTiers, false)
		}
	}
	return id
}
