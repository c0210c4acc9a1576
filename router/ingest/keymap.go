package ingest

import (
	"math/bits"
	"slices"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

// keyMap maps the block hashes of one rank's engine to keys, and counts the copies the engine has announced of each block.
// An entry outlives the eviction of its node from the index, so that removals and children still find their block; it dies
// with the last copy.
//
// It takes 18 bytes a slot in open addressing (package limits: 24 a block): 64 segments, each grown by a sixteenth or more alone,
// so that no step copies much and the whole is never half empty. Removal shifts entries back, there are no dead slots. In a
// run of slots entries lie in the order of their homes: who looks for a hash that is not there passes only those whose
// home is before its own, also where nine slots of ten are taken.
type keyMap struct {
	segs [keySegments]keySegment
	n    int
	a, b uint64 // seed: hashes come from engines
	sink uint64 // of loads
}

const (
	keySegmentBits = 6
	keySegments    = 1 << keySegmentBits
	// A segment grows from 9/10 full on, and shrinks below a quarter.
	keyLoadNum, keyLoadDen = 9, 10
	minKeySlots            = 8
	// keysAhead is how many hashes are looked up together.
	keysAhead = 16
	// staggerSlots spreads the segments' first sizes over one step of growth and more.
	staggerSlots = 16
)

type keySegment struct {
	slots  []keySlot
	copies []copies // 0 where the slot is empty
	n      int
}

type keySlot struct{ hash, key uint64 }

func newKeyMap(random func() uint64) *keyMap { return &keyMap{a: random(), b: random() | 1} }

// stagger has the segments grow at different moments, though they fill at one pace.
func (m *keyMap) stagger(s *keySegment, sum uint64) {
	number := int(sum >> (64 - keySegmentBits))
	m.resize(s, staggerSlots*number/keySegments)
}

func (m *keyMap) sum(hash uint64) uint64 {
	hi, lo := bits.Mul64(hash^m.a, m.b)
	return hi ^ lo
}

func (s *keySegment) home(sum uint64) int {
	at, _ := bits.Mul64(sum<<keySegmentBits, uint64(len(s.slots)))
	return int(at)
}

// load has the processor fetch where a probe for a hash begins: of several ahead of their use, the waits for memory
// overlap.
func (m *keyMap) load(hash uint64) {
	sum := m.sum(hash)
	if s := &m.segs[sum>>(64-keySegmentBits)]; len(s.slots) > 0 {
		at := s.home(sum)
		m.sink += s.slots[at].hash + uint64(s.copies[at])
	}
}

// loadNames loads the hashes of an event from number i on, before the first of every keysAhead is used.
func (m *keyMap) loadNames(i int, hashes []kvevents.Hash, f kvevents.Form) {
	if i%keysAhead == 0 {
		for _, h := range hashes[i:min(i+keysAhead, len(hashes))] {
			m.load(nameOf(h, f))
		}
	}
}

// find gives the place of a hash, or the one it would take.
func (m *keyMap) find(hash uint64) (s *keySegment, at int, ok bool) {
	sum := m.sum(hash)
	s = &m.segs[sum>>(64-keySegmentBits)]
	if len(s.slots) == 0 {
		m.stagger(s, sum)
	}
	at, ok = m.place(s, hash, sum)
	return s, at, ok
}

func (m *keyMap) place(s *keySegment, hash, sum uint64) (at int, ok bool) {
	at = s.home(sum)
	for away := 0; s.copies[at] != 0; away++ {
		if s.slots[at].hash == hash {
			return at, true
		}
		if away > 0 && m.away(s, at) < away {
			return at, false
		}
		at = s.next(at)
	}
	return at, false
}

// away gives how many slots an entry is behind its home.
func (m *keyMap) away(s *keySegment, at int) int {
	if at -= s.home(m.sum(s.slots[at].hash)); at < 0 {
		return at + len(s.slots)
	}
	return at
}

func (s *keySegment) next(at int) int {
	if at++; at == len(s.slots) {
		return 0
	}
	return at
}

// insert puts an entry at a place, and those of its run from there on one further.
func (s *keySegment) insert(at int, slot keySlot, c copies) {
	for c != 0 {
		s.slots[at], slot = slot, s.slots[at]
		s.copies[at], c = c, s.copies[at]
		at = s.next(at)
	}
}

// key gives the key of a hash.
func (m *keyMap) key(hash uint64) (index.Key, bool) {
	s, at, ok := m.find(hash)
	if !ok {
		return 0, false
	}
	return index.Key(s.slots[at].key), true
}

// add books one more copy of a block. same is false, and nothing is booked, if the hash has another key.
func (m *keyMap) add(hash uint64, k index.Key, t index.Tier) (same bool) {
	s, at, ok := m.find(hash)
	if ok {
		if s.slots[at].key != uint64(k) {
			return false
		}
		s.copies[at] = s.copies[at].more(t)
		return true
	}
	if (s.n+1)*keyLoadDen > len(s.slots)*keyLoadNum {
		m.resize(s, 0)
		s, at, _ = m.find(hash)
	}
	s.insert(at, keySlot{hash, uint64(k)}, copies(0).more(t))
	s.n++
	m.n++
	return true
}

// remove books copies out and gives the tiers that hold none any more.
func (m *keyMap) remove(hash uint64, t index.Tier) (k index.Key, gone index.Tier, ok bool) {
	s, at, ok := m.find(hash)
	if !ok {
		return 0, 0, false
	}
	k = index.Key(s.slots[at].key)
	left, gone := s.copies[at].less(t)
	if s.copies[at] = left; left == 0 {
		m.vacate(s, at)
	}
	return k, gone, true
}

// vacate empties a slot and shifts those back that are not at their home.
func (m *keyMap) vacate(s *keySegment, at int) {
	for next := s.next(at); s.copies[next] != 0 && m.away(s, next) > 0; next = s.next(next) {
		s.slots[at], s.copies[at] = s.slots[next], s.copies[next]
		at = next
	}
	s.copies[at] = 0
	s.n--
	m.n--
	if len(s.slots) > 4*minKeySlots && s.n*4 < len(s.slots) {
		m.resize(s, 0)
	}
}

// resize gives a segment room for a sixteenth more than it has, and for so many slots beside: as many as the runtime gives
// for that, which has memory in certain sizes only.
func (m *keyMap) resize(s *keySegment, beside int) {
	old := *s
	n := minKeySlots + (s.n+1)*keyLoadDen*17/(keyLoadNum*16) + beside
	slots := slices.Grow([]keySlot(nil), n)
	n = cap(slots)
	*s = keySegment{slots: slots[:n], copies: make([]copies, n), n: old.n}
	for i, c := range old.copies {
		if c == 0 {
			continue
		}
		hash := old.slots[i].hash
		at, _ := m.place(s, hash, m.sum(hash))
		s.insert(at, old.slots[i], c)
	}
}

// copies counts the announced copies of a block by tier, saturating: 8 bits for device, 4 for host, 2 for each of the
// others. A count that was saturated ends early, so less is claimed than there is, never more.
type copies uint16

var copyFields = [...]struct{ shift, max uint16 }{{0, 255}, {8, 15}, {12, 3}, {14, 3}}

func (c copies) of(field int) uint16 {
	f := copyFields[field]
	return uint16(c) >> f.shift & f.max
}

// more counts a copy in one tier.
func (c copies) more(t index.Tier) copies {
	field := bits.TrailingZeros8(uint8(t))
	if c.of(field) < copyFields[field].max {
		c += 1 << copyFields[field].shift
	}
	return c
}

// less takes a copy away and tells which tiers hold none now. Several tiers are those of a removal that does not say
// where: a copy in device memory goes, and all others.
func (c copies) less(t index.Tier) (left copies, gone index.Tier) {
	wide := t&(t-1) != 0
	for field, f := range copyFields {
		bit := index.Tier(1) << field
		if t&bit == 0 {
			continue
		}
		n := c.of(field)
		if n > 0 && (field > 0 && wide || n == 1) {
			c -= copies(n << f.shift)
			n = 0
		} else if n > 0 {
			c -= 1 << f.shift
			n--
		}
		if n == 0 {
			gone |= bit
		}
	}
	return c, gone
}
