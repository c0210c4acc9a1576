package index

import (
	"math/bits"
	"slices"
)

// rankID is a rank's dense id.
type rankID uint16

// carrier is one member of a set.
type carrier struct {
	rank  rankID
	tiers Tier
}

// carrierSet says who holds a block and in which tiers. It is immutable once published. Up to listMembers it is a
// sorted list; above, a bitset of ranks with one plane a tier. A plane that equals words shares its memory.
type carrierSet struct {
	list   []carrier
	words  []uint64
	planes [tierCount][]uint64

	n    int
	hash uint64 // sum over the members: the key of the intern table
	// open tells that some member holds nothing in a closed tier: its presence proves no ancestor.
	open bool
	// mixed tells that some member holds no device copy, so that its blocks are worth less than 100 %.
	mixed bool
}

var noCarriers = &carrierSet{}

// newSet builds a set from members in ascending order of rank. It takes ownership of the slice.
func newSet(members []carrier) *carrierSet {
	s := &carrierSet{n: len(members)}
	for _, m := range members {
		s.hash += hashOf(m)
		s.open = s.open || m.tiers&closed == 0
		s.mixed = s.mixed || m.tiers&Device == 0
	}
	if len(members) <= listMembers {
		s.list = members
		return s
	}
	size := int(members[len(members)-1].rank)/64 + 1
	s.words = make([]uint64, size)
	for _, m := range members {
		s.words[m.rank/64] |= 1 << (m.rank % 64)
	}
	for t := range s.planes {
		s.planes[t] = plane(members, Tier(1<<t), s.words)
	}
	return s
}

// plane gives the bitset of the members with tier t: nil if there are none, words if all are.
func plane(members []carrier, t Tier, words []uint64) []uint64 {
	n := 0
	for _, m := range members {
		if m.tiers&t != 0 {
			n++
		}
	}
	switch n {
	case 0:
		return nil
	case len(members):
		return words
	}
	p := make([]uint64, len(words))
	for _, m := range members {
		if m.tiers&t != 0 {
			p[m.rank/64] |= 1 << (m.rank % 64)
		}
	}
	return p
}

// tiers gives what rank r holds.
func (s *carrierSet) tiers(r rankID) Tier {
	if s.words == nil {
		for _, m := range s.list {
			if m.rank == r {
				return m.tiers
			}
		}
		return 0
	}
	at, bit := int(r/64), uint64(1)<<(r%64)
	if at >= len(s.words) || s.words[at]&bit == 0 {
		return 0
	}
	var t Tier
	for i, p := range s.planes {
		if p != nil && p[at]&bit != 0 {
			t |= 1 << i
		}
	}
	return t
}

// members appends the set's members in ascending order of rank.
func (s *carrierSet) members(dst []carrier) []carrier {
	if s.words == nil {
		return append(dst, s.list...)
	}
	for at, w := range s.words {
		for ; w != 0; w &= w - 1 {
			r := rankID(at*64 + bits.TrailingZeros64(w))
			dst = append(dst, carrier{r, s.tiers(r)})
		}
	}
	return dst
}

// with gives the members of s with rank r holding tiers t; none removes it.
func (s *carrierSet) with(r rankID, t Tier) []carrier {
	members := s.members(make([]carrier, 0, s.n+1))
	at, found := slices.BinarySearchFunc(members, r, func(m carrier, r rankID) int { return int(m.rank) - int(r) })
	switch {
	case t == 0 && found:
		return slices.Delete(members, at, at+1)
	case t == 0:
		return members
	case found:
		members[at].tiers = t
		return members
	default:
		return slices.Insert(members, at, carrier{r, t})
	}
}

// derive gives the set with rank r holding tiers t instead of what it holds now; none removes it. Of a large set it copies
// words, not members.
func (s *carrierSet) derive(r rankID, t Tier) *carrierSet {
	before := s.tiers(r)
	if s.words == nil || t == 0 && s.n-1 <= listMembers {
		return newSet(s.with(r, t))
	}
	size := max(len(s.words), int(r/64)+1)
	if last := len(s.words) - 1; t == 0 && int(r/64) == last && s.words[last] == 1<<(r%64) {
		for size = last; s.words[size-1] == 0; size-- { // the highest ranks are gone
		}
	}
	d := &carrierSet{n: s.n, hash: s.hash, words: withBit(s.words, size, r, t != 0)}
	if before != 0 {
		d.n--
		d.hash -= hashOf(carrier{r, before})
	}
	if t != 0 {
		d.n++
		d.hash += hashOf(carrier{r, t})
	}
	for i, p := range s.planes {
		has := t>>i&1 != 0
		switch all := p != nil && &p[0] == &s.words[0]; {
		case p == nil && !has:
		case all && (has || t == 0):
			d.planes[i] = d.words
		default:
			d.planes[i] = d.shared(withBit(p, size, r, has))
		}
	}
	for i, w := range d.words {
		d.open = d.open || w&^d.closedWord(i) != 0
	}
	d.mixed = d.planes[0] == nil || &d.planes[0][0] != &d.words[0]
	return d
}

// withBit copies size words with bit r set or not.
func withBit(words []uint64, size int, r rankID, set bool) []uint64 {
	out := make([]uint64, size)
	copy(out, words)
	if set {
		out[r/64] |= 1 << (r % 64)
	} else if int(r/64) < size {
		out[r/64] &^= 1 << (r % 64)
	}
	return out
}

// shared gives a plane as it is kept: nil if nobody is in it, words if all are.
func (s *carrierSet) shared(plane []uint64) []uint64 {
	if slices.Equal(plane, s.words) {
		return s.words
	}
	for _, w := range plane {
		if w != 0 {
			return plane
		}
	}
	return nil
}

// hashOf is a member's part of its set's hash.
func hashOf(m carrier) uint64 {
	hi, lo := bits.Mul64((uint64(m.rank)<<8|uint64(m.tiers))^0x632be59bd9b4e019, 0x9e3779b97f4a7c15)
	return hi ^ lo
}

// equals tells whether two sets have the same members.
func (s *carrierSet) equals(t *carrierSet) bool {
	if s.n != t.n || s.hash != t.hash || !slices.Equal(s.list, t.list) || !slices.Equal(s.words, t.words) {
		return false
	}
	for i := range s.planes {
		if !slices.Equal(s.planes[i], t.planes[i]) {
			return false
		}
	}
	return true
}

// within tells whether every member of s is one of t.
func (s *carrierSet) within(t *carrierSet) bool {
	if s.n > t.n {
		return false
	}
	if s.words == nil {
		for _, m := range s.list {
			if !t.has(m.rank) {
				return false
			}
		}
		return true
	}
	if t.words == nil || len(s.words) > len(t.words) {
		return false
	}
	for i, w := range s.words {
		if w&^t.words[i] != 0 {
			return false
		}
	}
	return true
}

// has tells whether rank r is a member.
func (s *carrierSet) has(r rankID) bool {
	if s.words == nil {
		for _, m := range s.list {
			if m.rank == r {
				return true
			}
		}
		return false
	}
	at := int(r / 64)
	return at < len(s.words) && s.words[at]>>(r%64)&1 != 0
}

// meets tells whether a rank of a bitset is a member.
func (s *carrierSet) meets(ranks []uint64) bool {
	for _, m := range s.list {
		if at := int(m.rank / 64); at < len(ranks) && ranks[at]>>(m.rank%64)&1 != 0 {
			return true
		}
	}
	for i := range min(len(s.words), len(ranks)) {
		if s.words[i]&ranks[i] != 0 {
			return true
		}
	}
	return false
}

// closedWord gives word i of the members that hold a closed tier.
func (s *carrierSet) closedWord(i int) uint64 {
	var w uint64
	for t := range s.planes {
		if Tier(1<<t)&closed != 0 && s.planes[t] != nil {
			w |= s.planes[t][i]
		}
	}
	return w
}
