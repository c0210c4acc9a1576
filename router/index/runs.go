package index

import (
	"runtime"
	"slices"
	"sync/atomic"
)

// Run is a piece of a chain whose blocks have the same carriers: Keys[0] follows Parent, each other key the one before it.
// Its slices are valid during the call that delivers it.
type Run struct {
	Parent Parent
	Keys   []Key
	// Set numbers the carriers: one number never means two sets.
	Set uint32
	// Who are the carriers, by place in the list of ranks the walk was begun with, ascending.
	Who []Holding
}

// RunOptions say how a walk by chains goes.
type RunOptions struct {
	// Ordered delivers parents before their children, and blocks that none of the ranks carries if one does that
	// follows them (with no Who). It walks one chain at a time, which is slower: waits for memory do not overlap.
	Ordered bool
}

// Runs walks the index beside its writer, chain by chain from the ends up: for every block one of some ranks carries, who
// of them does. Like Export it is not one instant, and any goroutine may run it. Blocks of a segment that is rebuilt
// meanwhile may be delivered twice.
//
// It takes, beside the chains under way, two bits a slot.
type Runs struct {
	x       *Index
	ordered bool

	ranks  []Rank
	states []uint64 // by place: the life that is walked, 0 once it is over
	view   *RankView
	places []int32 // by rank id, -1 for others

	sets     map[*carrierSet]numbered
	numbered uint32              // numbers given out
	cache    [setCache]cachedSet // of the present pin

	marks   [segments]marks
	walkers []chainWalk
	ahead   [chainsAtOnce][2]*uint64
	segment int // of the scan for ends
	slot    int
	again   bool // the second scan: blocks no end led to
	members []carrier
}

const (
	// maxRunKeys bounds Run.Keys.
	maxRunKeys = 4096
	// maxNumbered bounds the sets remembered by their numbers.
	maxNumbered = 1 << 15
	// maxChainKeys bounds a chain that is gathered from its end before it is delivered. Longer ones come in pieces, the
	// end first.
	maxChainKeys = 1 << 16
	// chainsAtOnce are walked in turns.
	chainsAtOnce = 32
	// stepsAPin bounds how long the reuse of ids has to wait for the walk: well below a millisecond.
	stepsAPin = 2048
	setCache  = 256
	noCarrier = ^uint32(0)
)

// marks are those of one segment. They are void once it is replaced.
type marks struct {
	seg *segment
	// bits are two words for 64 slots: what was delivered, and what was passed by because nobody carries it. They lie
	// side by side, as both are asked for at every block.
	bits []markWords
}

type markWords struct{ done, passed uint64 }

// numbered is a set as the walk delivers it.
type numbered struct {
	set uint32 // noCarrier if none of its members is walked
	who []Holding
}

type cachedSet struct {
	id setID
	numbered
}

// chainWalk is one chain under way, from its end up.
type chainWalk struct {
	busy bool
	next Key // what is looked up next
	hash uint64
	keys []Key
	cuts []cut
}

// cut is a piece of a chain: keys up to end, and what its top follows.
type cut struct {
	end    int // -1 while it is open
	parent Parent
	numbered
}

// Runs begins a walk for the lives that these ranks live now.
func (x *Index) Runs(ranks []Rank, o RunOptions) *Runs {
	e := &Runs{x: x, ordered: o.Ordered, ranks: ranks, states: make([]uint64, len(ranks)), sets: map[*carrierSet]numbered{}}
	n := chainsAtOnce
	if o.Ordered {
		n = 1
	}
	e.walkers = make([]chainWalk, n)
	v := x.view.Load()
	for i, r := range ranks {
		e.states[i] = v.State(r)
	}
	e.look(v)
	return e
}

// Life names the life of the i-th rank that is walked (RankView.State), 0 if there was none or it has ended: then what
// was delivered of the rank is worth nothing.
func (e *Runs) Life(i int) uint64 {
	if v := e.x.view.Load(); v != e.view && v.State(e.ranks[i]) != e.states[i] {
		return 0
	}
	return e.states[i]
}

// look takes a new view: ranks whose life is over are not delivered any more.
func (e *Runs) look(v *RankView) {
	if e.view == v {
		return
	}
	e.view = v
	places := slices.Repeat([]int32{-1}, len(v.ranks))
	for i, r := range e.ranks {
		if e.states[i] != 0 && v.State(r) == e.states[i] {
			places[v.ids[r]] = int32(i)
		} else {
			e.states[i] = 0
		}
	}
	if !slices.Equal(places, e.places) {
		e.places = places
		e.forget()
	}
}

// forget drops the numbers of sets. They are not given out again.
func (e *Runs) forget() {
	clear(e.sets)
	clear(e.cache[:])
}

// Next delivers about budget blocks and tells whether there is more. The writer's reuse of ids waits for a small part of
// them only.
func (e *Runs) Next(budget int, emit func(Run)) (more bool) {
	for ; budget > 0; budget -= stepsAPin {
		if more = e.pinned(emit); !more {
			return false
		}
		runtime.Gosched() // requests that came meanwhile go first
	}
	return more
}

// pinned does the steps of one pin.
func (e *Runs) pinned(emit func(Run)) (more bool) {
	pin := e.x.epochs.enter()
	defer e.x.epochs.leave(pin)
	e.look(e.x.view.Load())
	clear(e.cache[:])
	for steps := 0; steps < stepsAPin; {
		if e.aim(&steps) == 0 {
			return steps >= stepsAPin
		}
		for i := range e.walkers {
			if w := &e.walkers[i]; w.busy {
				steps++
				e.step(w, emit)
			}
		}
	}
	return true
}

// aim finds out where each walker has to look next, and has the processor fetch all of that: the waits overlap, for there
// is little else between them. It gives the number of walkers that are under way.
func (e *Runs) aim(steps *int) (busy int) {
	for i := range e.walkers {
		w := &e.walkers[i]
		if !w.busy && !e.begin(w, steps) {
			continue
		}
		w.hash = e.x.hash.sum(w.next)
		number := w.hash >> (64 - segmentBits)
		seg := e.x.segs[number].Load()
		home := seg.home(w.hash)
		// Most are found within three slots, which are two lines of the cache.
		e.ahead[busy] = [2]*uint64{&seg.at(home).key, &seg.at(min(home+2, seg.n-1)).meta}
		busy++
	}
	for _, a := range e.ahead[:busy] {
		atomic.LoadUint64(a[0])
		atomic.LoadUint64(a[1])
	}
	return busy
}

// begin gives a walker the next end of a chain, or in the second scan any block that was left, and tells whether there
// was one.
func (e *Runs) begin(w *chainWalk, steps *int) bool {
	for e.segment < segments {
		seg := e.x.segs[e.segment].Load()
		m := e.marksOf(e.segment, seg)
		for e.slot < seg.n {
			at := e.slot
			e.slot++
			if *steps++; *steps > 8*stepsAPin {
				return false
			}
			if w := &m.bits[at/64]; (w.done|w.passed)>>(at%64)&1 != 0 {
				continue
			}
			if sm := seg.meta(at); !sm.live() || !e.again && sm.children() > 0 {
				continue
			}
			node, _, ok := seg.read(at)
			if !ok {
				continue
			}
			w.busy, w.next, w.keys, w.cuts = true, node.Key, w.keys[:0], w.cuts[:0]
			return true
		}
		e.segment, e.slot = e.segment+1, 0
		if e.segment == segments && !e.again {
			e.again, e.segment = true, 0
		}
	}
	return false
}

// marksOf gives a segment's marks. When it was replaced they begin anew, and so does the scan that is in it.
func (e *Runs) marksOf(number int, seg *segment) *marks {
	m := &e.marks[number]
	if m.seg != seg {
		if m.seg != nil && number == e.segment {
			e.slot = 0
		}
		*m = marks{seg, make([]markWords, (seg.n+63)/64)}
	}
	return m
}

// step takes a walker one block up.
func (e *Runs) step(w *chainWalk, emit func(Run)) {
	number := int(w.hash >> (64 - segmentBits))
	seg := e.x.segs[number].Load()
	_, at, ok := seg.find(w.next, w.hash)
	if !ok {
		e.finish(w, After(w.next), emit)
		return
	}
	node, id, ok := seg.read(at)
	if !ok || node.Key != w.next {
		e.finish(w, After(w.next), emit)
		return
	}
	words, bit := &e.marksOf(number, seg).bits[at/64], uint64(1)<<(at%64)
	set := e.number(id)
	if set.set == noCarrier && (len(w.keys) == 0 || !e.ordered) {
		if words.passed&bit != 0 {
			e.finish(w, After(w.next), emit)
			return
		}
		words.passed |= bit
		e.close(w, After(w.next))
	} else {
		if words.done&bit != 0 {
			e.finish(w, After(w.next), emit)
			return
		}
		words.done |= bit
		e.add(w, node.Key, set, emit)
	}
	if !node.Parent.Known {
		e.finish(w, Root, emit)
		return
	}
	w.next = node.Parent.Key
}

// add puts a block on top of the chain.
func (e *Runs) add(w *chainWalk, k Key, set numbered, emit func(Run)) {
	if n := len(w.cuts); n > 0 && w.cuts[n-1].set != set.set {
		e.close(w, After(k))
	}
	if len(w.keys) >= maxChainKeys && !e.ordered {
		e.close(w, After(k))
		e.deliver(w, emit)
	}
	if n := len(w.cuts); n == 0 || w.cuts[n-1].end >= 0 {
		w.cuts = append(w.cuts, cut{end: -1, numbered: set})
	}
	w.keys = append(w.keys, k)
}

// close ends the piece that is open, if any.
func (e *Runs) close(w *chainWalk, p Parent) {
	if n := len(w.cuts); n > 0 && w.cuts[n-1].end < 0 {
		w.cuts[n-1].end, w.cuts[n-1].parent = len(w.keys), p
	}
}

// finish ends a chain at what its top follows.
func (e *Runs) finish(w *chainWalk, p Parent, emit func(Run)) {
	w.busy = false
	e.close(w, p)
	e.deliver(w, emit)
}

// deliver hands out what a walker has, from the top down.
func (e *Runs) deliver(w *chainWalk, emit func(Run)) {
	for i := len(w.cuts) - 1; i >= 0; i-- {
		c, start := w.cuts[i], 0
		if i > 0 {
			start = w.cuts[i-1].end
		}
		keys := w.keys[start:c.end]
		slices.Reverse(keys)
		r := Run{Parent: c.parent, Set: c.set, Who: c.who}
		for len(keys) > 0 {
			r.Keys = keys[:min(len(keys), maxRunKeys)]
			keys = keys[len(r.Keys):]
			emit(r)
			r.Parent = After(r.Keys[len(r.Keys)-1])
		}
	}
	w.keys, w.cuts = w.keys[:0], w.cuts[:0]
}

// number gives a set its number.
func (e *Runs) number(id setID) numbered {
	c := &e.cache[id%setCache]
	if c.id == id && id != 0 {
		return c.numbered
	}
	set := e.x.sets.at(id)
	n, ok := e.sets[set]
	if !ok {
		n = e.enroll(set)
	}
	*c = cachedSet{id, n}
	return n
}

func (e *Runs) enroll(set *carrierSet) numbered {
	if len(e.sets) >= maxNumbered {
		e.forget()
	}
	e.members = set.members(e.members[:0])
	n := numbered{set: noCarrier}
	for _, m := range e.members {
		if id := int(m.rank); id < len(e.places) && e.places[id] >= 0 {
			n.who = append(n.who, Holding{int(e.places[id]), m.tiers})
		}
	}
	if len(n.who) > 0 {
		slices.SortFunc(n.who, func(a, b Holding) int { return a.Rank - b.Rank })
		n.set = e.numbered
		e.numbered++
	}
	e.sets[set] = n
	return n
}
