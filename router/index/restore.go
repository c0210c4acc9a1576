package index

import "slices"

// Restore streams somebody's holdings into ranks that no query sees, until Commit makes them all visible in the place
// of what the ranks held before: nothing is visible earlier, nothing is united with the old.
type Restore struct {
	x       *Index
	masked  []*Holder
	Dropped uint64 // blocks refused because their key has another parent
	done    bool

	who []carrier // of the present run, ascending
	set setID     // of them, 0 before it is known
	gen uint32    // of set
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
func (r *Restore) Add(k Key, p Parent, who []Holding) { r.AddRun(p, []Key{k}, who) }

// AddRun restores a piece of a chain whose blocks have the same carriers: keys[0] follows p, each other key the one
// before it. A block that is known with another parent is dropped, and the ones behind it are not.
func (r *Restore) AddRun(p Parent, keys []Key, who []Holding) {
	r.begin(who, len(keys))
	if len(r.who) == 0 {
		return // nobody holds them
	}
	if p.Known {
		r.x.load(p.Key)
	}
	last := node{}
	for len(keys) > 0 {
		some := keys[:min(ahead, len(keys))]
		keys = keys[len(some):]
		r.x.loadAll(some)
		for _, k := range some {
			last = r.add(k, p, last)
			p = After(k)
		}
		r.x.evictOver(evictSteps + evictStepsABlock*len(some))
	}
}

// begin takes the carriers of a run of n blocks.
func (r *Restore) begin(who []Holding, n int) {
	r.who, r.set = r.who[:0], 0
	ascending := true
	for _, w := range who {
		c := carrier{r.masked[w.Rank].id, w.Tiers & AllTiers}
		if c.tiers == 0 {
			continue
		}
		ascending = ascending && (len(r.who) == 0 || r.who[len(r.who)-1].rank < c.rank)
		r.who = append(r.who, c)
	}
	if !ascending {
		r.who = united(r.who)
	}
	for _, c := range r.who {
		r.holder(c).Stores += uint64(n)
	}
}

// united sorts carriers by rank and has each rank once, in place.
func united(who []carrier) []carrier {
	slices.SortFunc(who, func(a, b carrier) int { return int(a.rank) - int(b.rank) })
	out := who[:0]
	for _, c := range who {
		if n := len(out); n > 0 && out[n-1].rank == c.rank {
			out[n-1].tiers |= c.tiers
		} else {
			out = append(out, c)
		}
	}
	return out
}

func (r *Restore) holder(c carrier) *Holder { return r.x.ranks.byID[c.rank] }

// add restores one block of the run and gives its place. last is where its parent was a moment ago, if the caller
// knows.
func (r *Restore) add(k Key, p Parent, last node) node {
	n := r.x.seek(k)
	if p == After(k) || n.m.live() && n.seg.parentOf(n.at, n.m) != p {
		for _, c := range r.who {
			r.holder(c).Contradictions++
			r.Dropped++
		}
		return node{}
	}
	if n.m.live() {
		r.x.setOf(n, k, r.union(n.m.set(), k), last)
		return n
	}
	for _, c := range r.who {
		r.holder(c).count(0, c.tiers, k)
	}
	return r.x.insert(n, k, p, r.runSet(), last)
}

// runSet gives the set of the run's carriers alone. Its id is void when it has another gen: in between nobody held it.
func (r *Restore) runSet() setID {
	t := r.x.sets
	if r.set == 0 || t.books[r.set].gen != r.gen || t.books[r.set].private {
		r.set = t.replace(0, newSet(slices.Clone(r.who)))
		r.gen = t.books[r.set].gen
	}
	return r.set
}

// union gives the set of the members of from and the run's carriers, without the sets in between.
func (r *Restore) union(from setID, k Key) setID {
	old := r.x.sets.at(from).members(r.x.members[:0])
	r.x.members = old
	members := make([]carrier, 0, len(old)+len(r.who))
	for _, c := range r.who {
		for len(old) > 0 && old[0].rank < c.rank {
			members, old = append(members, old[0]), old[1:]
		}
		before := Tier(0)
		if len(old) > 0 && old[0].rank == c.rank {
			before, old = old[0].tiers, old[1:]
		}
		r.holder(c).count(before, before|c.tiers, k)
		members = append(members, carrier{c.rank, before | c.tiers})
	}
	return r.x.sets.replace(from, newSet(append(members, old...)))
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
