package index

import "slices"

// Restore streams somebody's holdings into ranks that no query sees, until Commit makes them all visible in the place
// of what the ranks held before: nothing is visible earlier, nothing is united with the old.
type Restore struct {
	x       *Index
	masked  []*Holder
	Dropped uint64 // blocks refused because their key has another parent
	done    bool
}

// BeginRestore gives a restore for these ranks, known or not. Writer only, like every method of Restore.
func (x *Index) BeginRestore(ranks []Rank) (*Restore, error) {
	r := &Restore{x: x}
	for _, rank := range ranks {
		h := &Holder{rank: rank, masked: true}
		if err := x.assign(h); err != nil {
			r.Abort()
			return nil, err
		}
		r.masked = append(r.masked, h)
	}
	return r, nil
}

// Holder gives the masked handle of the i-th rank, for chains that come as they do from an engine (Store, Remove).
func (r *Restore) Holder(i int) *Holder { return r.masked[i] }

// Holding is one carrier of a restored block: the i-th rank of the restore.
type Holding struct {
	Rank  int
	Tiers Tier
}

// Add restores one block with all its carriers at once. A block that is known with another parent is dropped.
func (r *Restore) Add(k Key, p Parent, who []Holding) {
	defer r.x.evictOver(evictSteps)
	if len(who) == 1 { // by far the most
		h := r.masked[who[0].Rank]
		h.Stores++
		if t := who[0].Tiers & AllTiers; t != 0 {
			if _, ok := r.x.put(h, k, p, t, node{}); !ok {
				r.refuse(h)
			}
		}
		return
	}
	n, found := r.x.locate(k)
	if p == After(k) || found && n.seg.parentOf(n.at, n.m) != p {
		for _, w := range who {
			r.masked[w.Rank].Stores++
			r.refuse(r.masked[w.Rank])
		}
		return
	}
	from := setID(0)
	if found {
		from = n.m.set()
	}
	to := r.union(from, k, who)
	switch {
	case found:
		r.x.setOf(n, k, to, node{})
	case to != 0:
		r.x.insert(n, k, p, to, node{})
	}
}

func (r *Restore) refuse(h *Holder) {
	h.Contradictions++
	r.Dropped++
}

// union gives the set of the members of from and the carriers of a restored block, without the sets in between.
func (r *Restore) union(from setID, k Key, who []Holding) setID {
	members := r.x.sets.at(from).members(make([]carrier, 0, len(who)))
	sorted := true
	for _, w := range who {
		h := r.masked[w.Rank]
		h.Stores++
		t := w.Tiers & AllTiers
		if at := slices.IndexFunc(members, func(c carrier) bool { return c.rank == h.id }); from != 0 && at >= 0 {
			t |= members[at].tiers
			h.count(members[at].tiers, t, k)
			members[at].tiers = t
		} else if t != 0 {
			h.count(0, t, k)
			sorted = sorted && (len(members) == 0 || members[len(members)-1].rank < h.id)
			members = append(members, carrier{h.id, t})
		}
	}
	if !sorted {
		slices.SortFunc(members, func(a, b carrier) int { return int(a.rank) - int(b.rank) })
	}
	return r.x.sets.replace(from, members)
}

// Commit swaps the restored holdings in, by one publication, and gives the ranks' handles. A handle that was known
// stays the rank's handle.
func (r *Restore) Commit() []*Holder {
	out := make([]*Holder, len(r.masked))
	for i, m := range r.masked {
		h := r.x.ranks.byRank[m.rank]
		if h == nil {
			h = &Holder{rank: m.rank}
			r.x.ranks.byRank[m.rank] = h
		} else {
			r.x.retireID(h.id)
		}
		h.take(m)
		r.x.ranks.byID[h.id] = h
		out[i] = h
	}
	r.done = true
	r.x.judgeRoots()
	r.x.publish()
	return out
}

// take makes the holdings of a masked handle those of h.
func (h *Holder) take(m *Holder) {
	h.id, h.state, h.shy = m.id, m.state, false
	h.Digest, h.Blocks, h.Evicted = m.Digest, m.Blocks, m.Evicted
	h.Contradictions += m.Contradictions
	h.Stores += m.Stores
	m.gone = true
}

// Abort drops what was restored so far. After Commit it does nothing.
func (r *Restore) Abort() {
	if r.done {
		return
	}
	r.done = true
	for _, m := range r.masked {
		m.gone = true
		r.x.retireID(m.id)
	}
}
