package index

// jumper is one jump search. closed stays true while what it saw fits holdings that are prefixes.
type jumper struct {
	x      *Index
	keys   []Key
	r      *Result
	closed bool
}

// probed is a level that was looked up.
type probed struct {
	level int
	id    setID
	place place
}

const (
	// firstGallop is the first step; each further one doubles.
	firstGallop = 8
	// gallopAhead is how many steps are loaded together: of a long prefix that is held, all of them in two turns; of one
	// that is not, no more than that in vain.
	gallopAhead = 4
)

func (j *jumper) probe(level int) probed {
	j.r.probes++
	id, at := j.x.lookup(j.keys[level])
	return probed{level, id, at}
}

// jump answers a query whose ranks hold prefixes, and tells whether they do as far as it can see.
func (x *Index) jump(keys []Key, r *Result) bool {
	j := jumper{x: x, keys: keys, r: r, closed: true}
	first := j.probe(0)
	if first.id == 0 {
		return false
	}
	last := j.gallop(first)
	if !j.closed {
		return false
	}
	depth := last.level
	if last.id != 0 { // every key is known
		j.leave(last.level, x.sets.at(last.id), noCarriers, last.level+1)
		last.place.mark()
		depth++
	}
	if !j.closed || r.shyFound() || !j.nothingBeyond(depth) {
		return false
	}
	return true
}

// load has the processor fetch what probes of some levels will read. A probe's outcome decides about the next one, and
// its wait for memory is most of its cost: what is likely to be probed is loaded together before.
func (j *jumper) load(level int) { j.x.load(j.keys[level]) }

// gallop settles all levels up to the last present one, or to the first absent one it finds, and gives that.
func (j *jumper) gallop(from probed) probed {
	end, loaded := len(j.keys)-1, 0
	for step := firstGallop; from.id != 0 && from.level < end && j.closed; step *= 2 {
		if loaded == 0 {
			loaded = j.loadSteps(from.level, step)
		}
		loaded--
		to := j.probe(min(from.level+step, end))
		from = j.between(from, to, false)
	}
	return from
}

// loadSteps loads the next few levels of a gallop and gives their number.
func (j *jumper) loadSteps(level, step int) (n int) {
	for end := len(j.keys) - 1; n < gallopAhead && level < end; n++ {
		level = min(level+step, end)
		j.load(level)
		step *= 2
	}
	return n
}

// between settles the ranks whose last level lies in [a, b), and gives b, or the first absent level if b is absent.
// loaded tells that the level it probes first is.
func (j *jumper) between(a, b probed, loaded bool) probed {
	if !j.closed {
		return b
	}
	if a.id == b.id {
		j.note(a, b.level)
		return b
	}
	if b.level-a.level > 1 {
		half := (a.level + b.level) / 2
		if !loaded { // one of the three after this probe, too
			j.load(half)
			j.load((a.level + half) / 2)
			j.load((half + b.level) / 2)
		}
		mid := j.between(a, j.probe(half), !loaded)
		if mid.id == 0 {
			j.closed = j.closed && b.id == 0 // a hole, with a block behind it
			return mid
		}
		return j.between(mid, b, !loaded)
	}
	upper, lower := noCarriers, j.x.sets.at(a.id)
	if b.id != 0 {
		upper = j.x.sets.at(b.id)
	} else {
		a.place.mark()
	}
	j.leave(a.level, lower, upper, b.level)
	return b
}

func (j *jumper) note(a probed, hi int) {
	if a.id != 0 {
		s := j.x.sets.at(a.id)
		j.r.note(a.level, hi, s)
		j.closed = j.closed && !s.open
	}
}

// leave gives depth to the ranks of the set at level lo that are not in the one above, whose levels begin at hi.
func (j *jumper) leave(lo int, lower, upper *carrierSet, hi int) {
	j.r.note(lo, hi, lower)
	if lower.open || upper.open || !upper.within(lower) {
		j.closed = false
		return
	}
	if lower.words == nil {
		for _, m := range lower.list {
			if !upper.has(m.rank) && int(m.rank) < len(j.r.depth) {
				j.r.depth[m.rank] = int32(hi)
			}
		}
		return
	}
	for i, w := range lower.words {
		if i < len(upper.words) {
			w &^= upper.words[i]
		}
		j.r.setDepth(i, w, hi)
	}
	if upper.words == nil { // a large set above a small one: the small one's ranks go on
		for _, m := range upper.list {
			j.r.setDepth(int(m.rank/64), 1<<(m.rank%64), 0)
		}
	}
}

// nothingBeyond probes levels beyond depth: holdings with a hole may begin again.
func (j *jumper) nothingBeyond(depth int) bool {
	rest := len(j.keys) - depth
	probes := min(tailProbes, rest)
	// The last level and others evenly before it; the first absent level is known.
	level := func(i int) int { return len(j.keys) - 1 - i*rest/probes }
	for i := range probes {
		j.load(level(i))
	}
	for i := range probes {
		if at := level(i); at >= depth && j.probe(at).id != 0 {
			return false
		}
	}
	return true
}

// shyFound tells whether a rank that is answered contiguously only holds something.
func (r *Result) shyFound() bool {
	if r.view.shies == 0 {
		return false
	}
	for id, d := range r.depth {
		if d > 0 && r.view.shy[id/64]>>(id%64)&1 != 0 {
			return true
		}
	}
	return false
}
