package index

import (
	"math/bits"
	"sync/atomic"
)

// slot is one place of a segment. See meta for the third word. All words are read by readers: the writer stores to a
// published slot atomically.
type slot struct{ key, parent, meta uint64 }

// meta is a slot's state in one word:
//
//	bits  0-31  carrier set id
//	bits 32-47  child count, saturating
//	bits 48-49  state: empty, dead, live, ghost
//	bit  50     root: the block has no parent
//	bits 51-62  version: changes whenever a live block leaves the slot
type meta uint64

const (
	metaChildren = 32
	metaState    = 48
	metaRoot     = meta(1) << 50
	metaVersion  = 51

	stateMask  = meta(3) << metaState
	stateEmpty = meta(0)
	stateDead  = meta(1) << metaState
	stateLive  = meta(2) << metaState
	// stateGhost is a block that nobody holds and others name as their parent: its slot counts them until it comes.
	stateGhost = meta(3) << metaState

	childrenMask = meta(0xffff) << metaChildren
	versionMask  = meta(0xfff) << metaVersion

	// manyChildren is the saturated count: the true one is in Index.crowded.
	manyChildren = 0xffff
)

func (m meta) set() setID      { return setID(m) }
func (m meta) live() bool      { return m&stateMask == stateLive }
func (m meta) ghost() bool     { return m&stateMask == stateGhost }
func (m meta) empty() bool     { return m&stateMask == stateEmpty }
func (m meta) dead() bool      { return m&stateMask == stateDead }
func (m meta) children() int   { return int(m & childrenMask >> metaChildren) }
func (m meta) version() meta   { return m & versionMask }
func (m meta) isRoot() bool    { return m&metaRoot != 0 }
func (m meta) nextOwner() meta { return (m.version() + 1<<metaVersion) & versionMask }

func (m meta) withSet(id setID) meta { return m&^0xffffffff | meta(id) }
func (m meta) withChildren(n int) meta {
	return m&^childrenMask | meta(min(n, manyChildren))<<metaChildren
}

// segment is one array of slots, in pages. Linear probing; at least one slot in five is empty.
type segment struct {
	pages []*page
	n     int // slots
}

const (
	// minSlots is the smallest array.
	minSlots = 16
	// loadNum/loadDen is the share of slots in use (live, ghost or dead) from which a segment is rebuilt.
	loadNum, loadDen = 4, 5
	// nextLine is how many slots on another cache line of 64 bytes is likely.
	nextLine = 3
)

// at gives a slot by its number.
func (s *segment) at(i int) *slot { return &s.pages[uint(i)>>pageBits].slots[uint(i)%pageSlots] }

// meta reads a slot's state.
func (s *segment) meta(i int) meta { return meta(atomic.LoadUint64(&s.at(i).meta)) }

// key reads a slot's key. Writer only: readers ask find or read.
func (s *segment) key(i int) Key { return Key(atomic.LoadUint64(&s.at(i).key)) }

// next gives the slot behind i.
func (s *segment) next(i int) int {
	if i++; i == s.n {
		return 0
	}
	return i
}

// home gives the slot a hash starts at. The segment number used up the hash's top bits.
func (s *segment) home(hash uint64) int {
	at, _ := bits.Mul64(hash<<segmentBits, uint64(s.n))
	return int(at)
}

// load has the processor fetch where a probe for hash begins, and what lies a cache line further, where one in two probes
// ends: of several probes ahead of their use, the waits overlap.
func (s *segment) load(hash uint64) {
	at := s.home(hash)
	atomic.LoadUint64(&s.at(at).key)
	if at += nextLine; at < s.n {
		atomic.LoadUint64(&s.at(at).key)
	}
}

// find gives the meta word and place of a live key. It is the readers' probe; point 1 of the package doc is this loop.
func (s *segment) find(k Key, hash uint64) (m meta, at int, ok bool) {
	at = s.home(hash)
	for range s.n {
		sl := s.at(at)
		for c := atomic.LoadUint64(&sl.key); ; {
			if c != uint64(k) && c != 0 {
				break // some other key's, whatever its state
			}
			m = meta(atomic.LoadUint64(&sl.meta))
			if m.empty() {
				return 0, 0, false
			}
			if c != uint64(k) || !m.live() {
				break
			}
			c = atomic.LoadUint64(&sl.key)
			again := meta(atomic.LoadUint64(&sl.meta))
			if c == uint64(k) && again.live() && again.version() == m.version() {
				return again, at, true
			}
			if c == uint64(k) && !again.live() {
				break
			}
		}
		at = s.next(at)
	}
	return 0, 0, false
}

// seek gives the place of a key that is live or a ghost, else the place it would take: the first dead slot on its way,
// or the empty one that ends it. Writer only.
func (s *segment) seek(k Key, hash uint64) (at int, m meta) {
	free, freeMeta := -1, meta(0)
	for at = s.home(hash); ; at = s.next(at) {
		sl := s.at(at)
		m = meta(atomic.LoadUint64(&sl.meta))
		switch m & stateMask {
		case stateEmpty:
			if free >= 0 {
				return free, freeMeta
			}
			return at, m
		case stateDead:
			if free < 0 {
				free, freeMeta = at, m
			}
		default:
			if atomic.LoadUint64(&sl.key) == uint64(k) {
				return at, m
			}
		}
	}
}

// occupy gives a slot to a key, live last. The slot is not live, and its version is none that a block had in it: it was
// changed when the last one left. A mark that queries left for another block stays, and spares this one a round of the
// clock hand: to look costs a wait for memory. Writer only.
func (s *segment) occupy(at int, k Key, p Parent, set setID, children int) meta {
	sl := s.at(at)
	m := (stateLive | meta(sl.meta).version()).withSet(set).withChildren(children)
	if !p.Known {
		m |= metaRoot
	}
	atomic.StoreUint64(&sl.key, uint64(k))
	atomic.StoreUint64(&sl.parent, uint64(p.Key))
	atomic.StoreUint64(&sl.meta, uint64(m))
	return m
}

// haunt gives a slot that is not live to the ghost of a key. Writer only.
func (s *segment) haunt(at int, k Key, children int) {
	sl := s.at(at)
	atomic.StoreUint64(&sl.key, uint64(k))
	atomic.StoreUint64(&sl.meta, uint64((stateGhost | meta(sl.meta).version()).withChildren(children)))
}

// vacate frees a slot and gives the number of dead ones there are more: those before an empty slot are empty too, as no
// probe goes on behind it. Writer only.
func (s *segment) vacate(at int) (dead int32) {
	sl := s.at(at)
	version := meta(sl.meta).nextOwner()
	if !s.meta(s.next(at)).empty() {
		atomic.StoreUint64(&sl.meta, uint64(stateDead|version))
		return 1
	}
	atomic.StoreUint64(&sl.meta, uint64(stateEmpty|version))
	atomic.StoreUint64(&sl.key, 0)
	for {
		if at--; at < 0 {
			at = s.n - 1
		}
		sl = s.at(at)
		m := meta(sl.meta)
		if !m.dead() {
			return dead
		}
		atomic.StoreUint64(&sl.meta, uint64(stateEmpty|m.version()))
		atomic.StoreUint64(&sl.key, 0)
		dead--
	}
}

// parentOf gives the parent of a live slot. Writer, or a reader that checks the version around it.
func (s *segment) parentOf(at int, m meta) Parent {
	return Parent{Key: Key(atomic.LoadUint64(&s.at(at).parent)), Known: !m.isRoot()}
}

// mark notes that a query used a slot.
func (s *segment) mark(at int) {
	w, bit := s.seen(at)
	if atomic.LoadUint64(w)&bit == 0 {
		atomic.OrUint64(w, bit)
	}
}

// unmark takes the note back, and tells whether there was one.
func (s *segment) unmark(at int) bool {
	w, bit := s.seen(at)
	if atomic.LoadUint64(w)&bit == 0 {
		return false
	}
	atomic.AndUint64(w, ^bit)
	return true
}

func (s *segment) seen(at int) (word *uint64, bit uint64) {
	return &s.pages[uint(at)>>pageBits].seen[uint(at)%pageSlots/64], 1 << (uint(at) % 64)
}

// rebuilt copies what is live or a ghost into a new array of n slots, which nobody else sees yet. Writer only; s is not
// written afterwards.
func (s *segment) rebuilt(n int, x *Index) *segment {
	t := &segment{pages: make([]*page, (n+pageSlots-1)/pageSlots), n: n}
	for i := range t.pages {
		t.pages[i] = x.pool.take()
	}
	for i, left := 0, s.n; left > 0; i, left = i+1, left-pageSlots {
		pg := s.pages[i]
		for j := range pg.slots[:min(left, pageSlots)] {
			sl := &pg.slots[j]
			if m := meta(sl.meta); !m.live() && !m.ghost() {
				continue
			}
			to := t.home(x.hash.sum(Key(sl.key)))
			for t.at(to).meta != 0 {
				to = t.next(to)
			}
			*t.at(to) = *sl
			if atomic.LoadUint64(&pg.seen[j/64])>>(j%64)&1 != 0 {
				w, bit := t.seen(to)
				*w |= bit
			}
		}
	}
	return t
}
