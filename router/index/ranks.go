package index

import "math/bits"

// RankView maps rank ids to ranks as of one moment. It is immutable.
type RankView struct {
	ranks  []Rank          // by id; the zero Rank where an id is free
	ids    map[Rank]rankID // live ranks
	live   []uint64        // bit a live id
	shy    []uint64        // live ids whose depth is answered contiguously only: untrusted or suspect
	shies  int             // bits in shy
	states []uint64        // by id: which life of the rank's holdings this is
}

// Ranks gives the live ranks in no particular order.
func (v *RankView) Ranks() []Rank {
	out := make([]Rank, 0, len(v.ids))
	for r := range v.ids {
		out = append(out, r)
	}
	return out
}

// State names the life of what a rank holds: Clear, a restore and a new registration begin another. 0 means unknown.
// Whoever reads a rank's blocks over some time compares it before and after.
func (v *RankView) State(r Rank) uint64 {
	id, ok := v.ids[r]
	if !ok {
		return 0
	}
	return v.states[id]
}

// Holder is the writer's handle on a rank: whatever is stored through it counts for the rank.
type Holder struct {
	rank   Rank
	id     rankID
	masked bool // not in the view: being restored
	shy    bool
	gone   bool
	state  uint64

	Digest uint64           // over key and tiers of everything the rank holds; see DigestVersion
	Blocks [tierCount]int64 // blocks by tier; one block in two tiers counts in both
	// Contradictions counts claims that were dropped because the key has another parent.
	Contradictions uint64
	// Stores counts the blocks of accepted and dropped claims.
	Stores uint64
	// Evicted counts blocks that the cap took from the rank: from then on it knows less than the engine holds.
	Evicted uint64
}

// Rank gives whose handle this is.
func (h *Holder) Rank() Rank { return h.rank }

// count books a change of a block's tiers.
func (h *Holder) count(before, after Tier, k Key) {
	for t := range h.Blocks {
		h.Blocks[t] += int64(after>>t&1) - int64(before>>t&1)
	}
	h.Digest += digestOf(k, after) - digestOf(k, before)
}

// rankTable interns ranks. Writer only, but for the view it publishes.
type rankTable struct {
	byID   []*Holder // nil where an id is free or being forgotten
	byRank map[Rank]*Holder
	free   []rankID
	// forgotten ids are still in sets; sweeping ones are being taken out by the running pass; limbo ones are out of
	// every set and wait for readers.
	forgotten, sweeping []rankID
	limbo               []retiredRank
	states              uint64 // lives given out so far
}

type retiredRank struct {
	id  rankID
	tag uint64
}

// Rank gives the handle of a rank, a new one if it is not known.
func (x *Index) Rank(r Rank) (*Holder, error) {
	if h := x.ranks.byRank[r]; h != nil {
		return h, nil
	}
	h := &Holder{rank: r}
	if err := x.assign(h); err != nil {
		return nil, err
	}
	x.ranks.byRank[r] = h
	x.publish()
	return h, nil
}

// assign gives a handle an id of its own.
func (x *Index) assign(h *Holder) error {
	t := &x.ranks
	x.settleRanks()
	if n := len(t.free); n > 0 {
		h.id, t.free = t.free[n-1], t.free[:n-1]
	} else if len(t.byID) < maxRanks {
		h.id = rankID(len(t.byID))
		t.byID = append(t.byID, nil)
	} else {
		return ErrTooManyRanks
	}
	t.byID[h.id] = h
	t.states++
	h.state = t.states
	return nil
}

// Clear makes the rank hold nothing, at once for every query that begins from now on.
func (x *Index) Clear(h *Holder) error {
	old := h.id
	if err := x.assign(h); err != nil {
		return err
	}
	x.retireID(old)
	h.reset()
	x.publish()
	return nil
}

// Forget makes the rank unknown. The handle must not be used again.
func (x *Index) Forget(h *Holder) {
	if h.gone {
		return
	}
	h.gone = true
	x.retireID(h.id)
	if x.ranks.byRank[h.rank] == h {
		delete(x.ranks.byRank, h.rank)
	}
	x.publish()
}

// SetContiguous says whether the rank's depth counts only as far as it is contiguous: what an untrusted or suspect
// rank holds proves no ancestors.
func (x *Index) SetContiguous(h *Holder, only bool) {
	if h.shy != only {
		h.shy = only
		x.publish()
	}
}

func (h *Holder) reset() {
	h.Digest, h.Blocks, h.Evicted = 0, [tierCount]int64{}, 0
}

// retireID takes an id from its owner. It stays in sets until a sweep has passed.
func (x *Index) retireID(id rankID) {
	x.ranks.byID[id] = nil
	x.ranks.forgotten = append(x.ranks.forgotten, id)
}

// settleRanks frees ids whose readers have left.
func (x *Index) settleRanks() {
	t := &x.ranks
	for len(t.limbo) > 0 && x.epochs.quiet(t.limbo[0].tag) {
		t.free = append(t.free, t.limbo[0].id)
		t.limbo = t.limbo[1:]
	}
}

// publish makes a view of the ranks as they are and puts it in the place of the last.
func (x *Index) publish() {
	words := (len(x.ranks.byID) + 63) / 64
	v := &RankView{ranks: make([]Rank, len(x.ranks.byID)), states: make([]uint64, len(x.ranks.byID)), live: make([]uint64, words), shy: make([]uint64, words)}
	v.ids = make(map[Rank]rankID, len(x.ranks.byRank))
	for id, h := range x.ranks.byID {
		if h == nil || h.masked {
			continue
		}
		v.ranks[id], v.ids[h.rank], v.states[id] = h.rank, rankID(id), h.state
		v.live[id/64] |= 1 << (id % 64)
		if h.shy {
			v.shy[id/64] |= 1 << (id % 64)
		}
	}
	for _, w := range v.shy {
		v.shies += bits.OnesCount64(w)
	}
	x.view.Store(v)
}
