package index

import (
	"math/bits"
	"slices"
)

// walk answers a query by probing every level, up to walkKeys; of longer queries every walkStride-th level beyond.
func (x *Index) walk(keys []Key, mode Mode, r *Result) {
	head := keys[:min(len(keys), walkKeys)]
	x.lookupAll(head, r)
	x.noteRuns(r)
	x.contiguous(r)
	if mode == Contiguous {
		return
	}
	clear(r.seen)
	for i := len(keys) - 1; i >= len(head); i -= walkStride {
		r.probes++
		id, at := x.lookup(keys[i])
		if id != 0 && r.deepen(x.sets.at(id), i+1) {
			at.mark()
		}
	}
	x.deepest(r)
}

// lookupAll finds the sets of all levels. The slots of the next few keys are loaded ahead, so that their cache misses
// overlap.
func (x *Index) lookupAll(keys []Key, r *Result) {
	r.ids = slices.Grow(r.ids[:0], len(keys))[:len(keys)]
	r.places = slices.Grow(r.places[:0], len(keys))[:len(keys)]
	var hashes [ahead]uint64
	var segs [ahead]*segment
	for from := 0; from < len(keys); from += ahead {
		batch := keys[from:min(from+ahead, len(keys))]
		for i, k := range batch {
			hashes[i] = x.hash.sum(k)
			segs[i] = x.segmentOf(hashes[i])
			segs[i].load(hashes[i])
		}
		for i, k := range batch {
			m, at, ok := segs[i].find(k, hashes[i])
			if !ok {
				r.ids[from+i], r.places[from+i] = 0, place{}
				continue
			}
			r.ids[from+i], r.places[from+i] = m.set(), place{segs[i], at}
		}
	}
	r.probes += len(keys)
}

// noteRuns keeps the stretches of levels that are worth less than a block each.
func (x *Index) noteRuns(r *Result) {
	for lo := 0; lo < len(r.ids); {
		hi := lo + 1
		for hi < len(r.ids) && r.ids[hi] == r.ids[lo] {
			hi++
		}
		if r.ids[lo] != 0 {
			r.note(lo, hi, x.sets.at(r.ids[lo]))
		}
		lo = hi
	}
}

// contiguous gives each rank the number of levels it holds without a hole from the root.
func (x *Index) contiguous(r *Result) {
	copy(r.alive, r.view.live)
	last := setID(0)
	var set *carrierSet
	for level, id := range r.ids {
		if id == 0 || level == 0 || id != last {
			if set = noCarriers; id != 0 {
				set = x.sets.at(id)
			}
			if !r.survive(set, level) {
				if level > 0 {
					r.places[level-1].mark()
				}
				return
			}
		}
		last = id
	}
	for i, w := range r.alive {
		r.setDepth(i, w, len(r.ids))
	}
	if n := len(r.places); n > 0 {
		r.places[n-1].mark()
	}
}

// survive ends the ranks that are not in the set at level, and tells whether any go on.
func (r *Result) survive(set *carrierSet, level int) bool {
	clear(r.seen)
	for i := range r.seen {
		if i < len(set.words) {
			r.seen[i] = set.words[i]
		}
	}
	for _, m := range set.list {
		if int(m.rank/64) < len(r.seen) {
			r.seen[m.rank/64] |= 1 << (m.rank % 64)
		}
	}
	var left uint64
	for i, w := range r.alive {
		r.setDepth(i, w&^r.seen[i], level)
		r.alive[i] = w & r.seen[i]
		left |= r.alive[i]
	}
	return left != 0
}

// deepest raises the depth of ranks that hold a closed tier deeper than they hold contiguously. r.seen has the ranks
// already found deeper.
func (x *Index) deepest(r *Result) {
	last := setID(0)
	for level := len(r.ids) - 1; level >= 0; level-- {
		id := r.ids[level]
		if id == 0 || id == last {
			continue
		}
		last = id
		if r.deepen(x.sets.at(id), level+1) {
			r.places[level].mark()
		}
	}
}

// deepen gives depth d to the set's live ranks that were not seen yet and may be believed, and tells whether any was
// raised by it.
func (r *Result) deepen(set *carrierSet, d int) (raised bool) {
	if set.words == nil {
		for _, m := range set.list {
			if m.tiers&closed != 0 && int(m.rank/64) < len(r.seen) {
				raised = r.deepenWord(int(m.rank/64), 1<<(m.rank%64), d) || raised
			}
		}
		return raised
	}
	for i := range min(len(set.words), len(r.seen)) {
		raised = r.deepenWord(i, set.closedWord(i), d) || raised
	}
	return raised
}

func (r *Result) deepenWord(i int, w uint64, d int) (raised bool) {
	w &= r.view.live[i] &^ r.view.shy[i] &^ r.seen[i]
	r.seen[i] |= w
	for ; w != 0; w &= w - 1 {
		id := i*64 + bits.TrailingZeros64(w)
		if r.depth[id] < int32(d) {
			r.depth[id] = int32(d)
			raised = true
		}
	}
	return raised
}
