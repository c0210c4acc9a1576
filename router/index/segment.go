package index

import (
	"math/bits"
	"sync/atomic"
)

// slot is one place of a segment. See meta for the third word.
type slot struct {
	key    atomic.Uint64
	parent atomic.Uint64
	meta   atomic.Uint64
}

// meta is a slot's state in one word:
//
//	bits  0-31  carrier set id
//	bits 32-47  child count, saturating
//	bits 48-49  state: empty, dead, live
//	bit  50     root: the block has no parent
//	bits 51-62  version: changes with every owner of the slot
type meta uint64

const (
	metaChildren = 32
	metaState    = 48
	metaRoot     = meta(1) << 50
	metaVersion  = 51

	stateMask    = meta(3) << metaState
	stateEmpty   = meta(0)
	stateDead    = meta(1) << metaState
	stateLive    = meta(2) << metaState
	childrenMask = meta(0xffff) << metaChildren
	versionMask  = meta(0xfff) << metaVersion

	// manyChildren is the saturated count: the true one is in Index.crowded.
	manyChildren = 0xffff
)

func (m meta) set() setID      { return setID(m) }
func (m meta) live() bool      { return m&stateMask == stateLive }
func (m meta) empty() bool     { return m&stateMask == stateEmpty }
func (m meta) children() int   { return int(m & childrenMask >> metaChildren) }
func (m meta) version() meta   { return m & versionMask }
func (m meta) isRoot() bool    { return m&metaRoot != 0 }
func (m meta) nextOwner() meta { return (m.version() + 1<<metaVersion) & versionMask }

func (m meta) withSet(id setID) meta { return m&^0xffffffff | meta(id) }
func (m meta) withChildren(n int) meta {
	return m&^childrenMask | meta(min(n, manyChildren))<<metaChildren
}

// segment is one array of slots. Linear probing; at least one slot in five is never live nor dead.
type segment struct {
	slots []slot
	// seen is one bit a slot, set by readers for the deepest level they found: the clock hand's second chance.
	seen []atomic.Uint64
}

const (
	// minSlots is the smallest array. Segments begin with up to half as much again, each by its number: they fill at
	// the same pace, and arrays of one size would all grow at the same moment, and the whole be at its emptiest then.
	minSlots = 16
	// loadNum/loadDen is the share of slots in use (live or dead) from which a segment is rebuilt.
	loadNum, loadDen = 4, 5
)

func newSegment(n int) *segment {
	return &segment{slots: make([]slot, n), seen: make([]atomic.Uint64, (n+63)/64)}
}

// staggered gives the slots a segment should have where n are wanted.
func staggered(n int, number uint64) int { return n + n*int(number%8)/16 }

// home gives the slot a hash starts at. The segment number used up the hash's top bits.
func (s *segment) home(hash uint64) int {
	at, _ := bits.Mul64(hash<<segmentBits, uint64(len(s.slots)))
	return int(at)
}

// find gives the meta word and place of a live key. It is the readers' probe; point 1 of the package doc is this loop.
func (s *segment) find(k Key, hash uint64) (m meta, at int, ok bool) {
	at = s.home(hash)
	for range s.slots {
		sl := &s.slots[at]
		for c := sl.key.Load(); ; {
			if c != uint64(k) && c != 0 {
				break // some other key's, live or dead
			}
			m = meta(sl.meta.Load())
			if m.empty() {
				return 0, 0, false
			}
			if c != uint64(k) || !m.live() {
				break
			}
			c = sl.key.Load()
			again := meta(sl.meta.Load())
			if c == uint64(k) && again.live() && again.version() == m.version() {
				return again, at, true
			}
			if c == uint64(k) && !again.live() {
				break
			}
		}
		if at++; at == len(s.slots) {
			at = 0
		}
	}
	return 0, 0, false
}

// place gives the slot for a key that is not in the segment: the first dead one, or the empty one that ends the probe.
// Writer only.
func (s *segment) place(hash uint64) (at int, fresh bool) {
	at = s.home(hash)
	for {
		m := meta(s.slots[at].meta.Load())
		if m.empty() {
			return at, true
		}
		if !m.live() {
			return at, false
		}
		if at++; at == len(s.slots) {
			at = 0
		}
	}
}

// occupy gives a free slot to a key: version first, live last. Writer only.
func (s *segment) occupy(at int, k Key, p Parent, set setID, children int) {
	sl := &s.slots[at]
	version := meta(sl.meta.Load()).nextOwner()
	sl.meta.Store(uint64(stateDead | version))
	sl.key.Store(uint64(k))
	sl.parent.Store(uint64(p.Key))
	m := (stateLive | version).withSet(set).withChildren(children)
	if !p.Known {
		m |= metaRoot
	}
	sl.meta.Store(uint64(m))
	s.seen[at/64].And(^(uint64(1) << (at % 64)))
}

// vacate frees a slot, and tells whether it is empty again: a chain of probes that ended behind it ends here as well.
// Writer only.
func (s *segment) vacate(at int) (empty bool) {
	sl := &s.slots[at]
	version := meta(sl.meta.Load()).nextOwner()
	next := at + 1
	if next == len(s.slots) {
		next = 0
	}
	if !meta(s.slots[next].meta.Load()).empty() {
		sl.meta.Store(uint64(stateDead | version))
		return false
	}
	sl.meta.Store(uint64(stateEmpty | version))
	sl.key.Store(0)
	return true
}

// parentOf gives the parent of a live slot. Writer, or a reader that checks the version around it.
func (s *segment) parentOf(at int, m meta) Parent {
	return Parent{Key: Key(s.slots[at].parent.Load()), Known: !m.isRoot()}
}

// touch marks a slot as used by a query.
func (s *segment) touch(at int) {
	w, bit := &s.seen[at/64], uint64(1)<<(at%64)
	if w.Load()&bit == 0 {
		w.Or(bit)
	}
}

// rebuilt copies the live slots into an array of n. Writer only; s is not written afterwards.
func (s *segment) rebuilt(n int, h hasher) *segment {
	t := newSegment(n)
	for i := range s.slots {
		m := meta(s.slots[i].meta.Load())
		if !m.live() {
			continue
		}
		k := s.slots[i].key.Load()
		at, _ := t.place(h.sum(Key(k)))
		sl := &t.slots[at]
		sl.key.Store(k)
		sl.parent.Store(s.slots[i].parent.Load())
		sl.meta.Store(uint64(m))
		if s.seen[i/64].Load()>>(i%64)&1 != 0 {
			t.seen[at/64].Or(1 << (at % 64))
		}
	}
	return t
}
