package index

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

// Add restores one block of the i-th rank with all its tiers.
func (r *Restore) Add(i int, k Key, p Parent, t Tier) {
	h := r.masked[i]
	h.Stores++
	if t &= AllTiers; t == 0 {
		return
	}
	if _, ok := r.x.put(h, k, p, t, node{}); !ok {
		h.Contradictions++
		r.Dropped++
	}
	r.x.evictOver(evictSteps)
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
