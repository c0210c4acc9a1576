package index

import "math/bits"

// Mode says how deep a rank's holding reaches.
type Mode int

const (
	// Deepest counts to the deepest block in a closed tier, or as far as any holding is contiguous.
	Deepest Mode = iota
	// Contiguous counts the levels held without a hole from the root.
	Contiguous
)

// Result is a query's answer and its scratch memory. The zero value is ready; one Result serves one query at a time and
// allocates nothing once it has grown to the number of ranks and keys.
type Result struct {
	view    *RankView
	depth   []int32 // by rank id
	deficit []int32 // percent-blocks to take off depth x 100; valid while mixed
	mixed   bool
	weights Weights

	alive, seen []uint64
	ids         []setID
	places      []place
	runs        []run
	jumps       uint32
	probes      int
}

// run is a stretch of levels [lo, hi) with one set that has members without a device copy.
type run struct {
	lo, hi int
	set    *carrierSet
}

// place is where a key was found, for the mark of the clock hand.
type place struct {
	seg *segment
	at  int
}

// Of gives a rank's depth in blocks and its credit: the blocks weighted by their tiers, in percent-blocks (100 is one
// block in device memory).
func (r *Result) Of(rank Rank) (depth, credit int32) {
	id, ok := r.view.ids[rank]
	if !ok {
		return 0, 0
	}
	depth = r.depth[id]
	credit = depth * r.weights[0]
	if r.mixed {
		credit -= r.deficit[id]
	}
	return depth, credit
}

// Each calls f for every rank that holds something of the query.
func (r *Result) Each(f func(rank Rank, depth, credit int32)) {
	for at, live := range r.view.live {
		for ; live != 0; live &= live - 1 {
			id := at*64 + bits.TrailingZeros64(live)
			if r.depth[id] == 0 {
				continue
			}
			rank := r.view.ranks[id]
			depth, credit := r.Of(rank)
			f(rank, depth, credit)
		}
	}
}

// Probes tells how many keys the last query looked up.
func (r *Result) Probes() int { return r.probes }

// Match finds how many of the leading keys each rank holds. Any goroutine may call it.
//
// Deepest is found so:
//
//  1. Level 0 is absent, or more than 0.1 % of all nodes are unrooted: walk, every level is probed.
//  2. Else jump: gallop and bisect where the set ids differ. A level with a carrier that a level before it lacks shows
//     that holdings are no prefixes: walk.
//  3. Probe 8 levels beyond the jump's depth; any that is present: walk.
//
// Open tiers (disk, external) and ranks that are answered contiguously only prove nothing by a deep level; where any
// takes part, the walk settles them.
func (x *Index) Match(keys []Key, mode Mode, w Weights, r *Result) {
	slot := x.epochs.enter()
	defer x.epochs.leave(slot)
	r.begin(x.view.Load(), w)
	if len(keys) == 0 {
		return
	}
	if mode == Deepest && !x.rootless.Load() && x.jump(keys, r) {
		x.sample(keys, r)
	} else {
		r.forget()
		x.walk(keys, mode, r)
	}
	r.settle()
}

// begin sizes the scratch for a view and clears what the last query left.
func (r *Result) begin(v *RankView, w Weights) {
	n := len(v.live) * 64
	if cap(r.depth) < n {
		r.depth, r.deficit = make([]int32, n), make([]int32, n)
		r.alive, r.seen = make([]uint64, n/64), make([]uint64, n/64)
	}
	r.depth, r.deficit = r.depth[:n], r.deficit[:n]
	r.alive, r.seen = r.alive[:n/64], r.seen[:n/64]
	r.view, r.weights = v, w
	r.forget()
	r.probes = 0
}

// forget drops what a jump found that must be walked.
func (r *Result) forget() {
	clear(r.depth)
	r.runs = r.runs[:0]
	r.mixed = false
}

// note keeps a stretch whose blocks are not all in device memory.
func (r *Result) note(lo, hi int, s *carrierSet) {
	if s.mixed {
		r.runs = append(r.runs, run{lo, hi, s})
	}
}

// settle turns the noted stretches into what each rank's credit lacks.
func (r *Result) settle() {
	if len(r.runs) == 0 {
		return
	}
	r.mixed = true
	clear(r.deficit)
	for _, n := range r.runs {
		r.charge(n)
	}
}

func (r *Result) charge(n run) {
	if n.set.words == nil {
		for _, m := range n.set.list {
			r.chargeRank(int(m.rank), m.tiers, n)
		}
		return
	}
	device := n.set.planes[0]
	for at, w := range n.set.words {
		if device != nil {
			w &^= device[at]
		}
		for ; w != 0; w &= w - 1 {
			id := at*64 + bits.TrailingZeros64(w)
			r.chargeRank(id, n.set.tiers(rankID(id)), n)
		}
	}
}

func (r *Result) chargeRank(id int, t Tier, n run) {
	if id >= len(r.depth) || t.best() == 0 || t == 0 {
		return
	}
	if levels := min(n.hi, int(r.depth[id])) - n.lo; levels > 0 {
		r.deficit[id] += int32(levels) * (r.weights[0] - r.weights[t.best()])
	}
}

// lookup finds one key's set.
func (x *Index) lookup(k Key) (setID, place) {
	hash := x.hash.sum(k)
	seg := x.segmentOf(hash)
	m, at, ok := seg.find(k, hash)
	if !ok {
		return 0, place{}
	}
	return m.set(), place{seg, at}
}

// mark gives the deepest level found its second chance.
func (p place) mark() {
	if p.seg != nil {
		p.seg.mark(p.at)
	}
}

// setDepth gives depth d to the ranks in word i of a bitset.
func (r *Result) setDepth(i int, w uint64, d int) {
	if bits.OnesCount64(w) > fillFrom && (i+1)*64 <= len(r.depth) {
		fill((*[64]int32)(r.depth[i*64:]), w, int32(d))
		return
	}
	for ; w != 0; w &= w - 1 {
		if id := i*64 + bits.TrailingZeros64(w); id < len(r.depth) {
			r.depth[id] = int32(d)
		}
	}
}

// fillFrom is the number of ranks of 64 from which it is quicker to write all and put the others back.
const fillFrom = 56

// fill gives depth d to the ranks in w, all but a few.
func fill(depth *[64]int32, w uint64, d int32) {
	var others [64 - fillFrom]int32
	n := 0
	for rest := ^w; rest != 0; rest &= rest - 1 {
		others[n] = depth[bits.TrailingZeros64(rest)]
		n++
	}
	for i := range depth {
		depth[i] = d
	}
	n = 0
	for rest := ^w; rest != 0; rest &= rest - 1 {
		depth[bits.TrailingZeros64(rest)] = others[n]
		n++
	}
}
