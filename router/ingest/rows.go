package ingest

import (
	"math"
	"math/bits"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// How a rank's names for blocks and its orphans go to siblings and come from them (scheme tokens). The copies of both have
// the layout of snapshot.Copies.

// has gives what is known of a hash.
func (m *keyMap) has(hash uint64) (index.Key, copies, bool) {
	s, at, ok := m.find(hash)
	if !ok {
		return 0, 0, false
	}
	return index.Key(s.slots[at].key), s.copies[at], true
}

// put sets the copies of a block, at least one, and tells whether the hash has no other key.
func (m *keyMap) put(hash uint64, k index.Key, c copies) (same bool) {
	if !m.add(hash, k, index.Tier(1)<<bits.TrailingZeros8(uint8(c.tiers()))) {
		return false
	}
	s, at, _ := m.find(hash)
	s.copies[at] = c
	return true
}

// rows appends what one segment has: so many are copied in well below a millisecond.
func (m *keyMap) rows(segment int, out []snapshot.HashRow) []snapshot.HashRow {
	s := &m.segs[segment]
	for i, c := range s.copies {
		if c != 0 {
			out = append(out, snapshot.HashRow{Hash: s.slots[i].hash, Key: index.Key(s.slots[i].key), Copies: snapshot.Copies(c)})
		}
	}
	return out
}

// tiers gives the tiers that hold a copy.
func (c copies) tiers() index.Tier { return snapshot.Copies(c).Tiers() }

// rows appends up to n orphans younger than one of an age, oldest first.
func (o *orphans) rows(after uint64, n int, out []snapshot.OrphanRow) (rows []snapshot.OrphanRow, last uint64) {
	at := o.oldest
	if r := o.resume; r != nil && r.age == after && o.byHash[r.hash] == r {
		at = r.junior
	}
	last = after
	for ; at != nil && n > 0; at = at.junior {
		if at.age > after {
			out = append(out, snapshot.OrphanRow{Hash: at.hash, Parent: at.parent, Chunk: at.chunk, Copies: snapshot.Copies(at.copies)})
			o.resume, last = at, at.age
			n--
		}
	}
	return out, last
}

// restoreHash takes a sibling's name for a block. Orphans that waited for it are placed.
func (l *ledger) restoreHash(h snapshot.HashRow) {
	if l.keys == nil || l.holder == nil || copies(h.Copies).tiers() == 0 {
		return
	}
	if _, _, known := l.keys.has(h.Hash); !known && l.keys.n >= maxMapped {
		l.dropped(DropNoRoom, 1)
		l.wanting = true
		return
	}
	if !l.keys.put(h.Hash, h.Key, copies(h.Copies)) {
		l.dropped(DropMismatch, 1)
		l.wanting = true
		return
	}
	if len(l.orphans.byHash) > 0 {
		l.adopt([]uint64{h.Hash})
	}
}

// restoreOrphan takes a block whose parent a sibling does not know, or did not at that moment.
func (l *ledger) restoreOrphan(r snapshot.OrphanRow) {
	if l.keys == nil || l.holder == nil || copies(r.Copies).tiers() == 0 {
		return
	}
	if _, known := l.keys.key(r.Hash); known {
		return
	}
	l.orphans.add(r.Hash, r.Parent, r.Chunk, index.Device)
	if o := l.orphans.byHash[r.Hash]; o != nil {
		o.copies = copies(r.Copies)
	}
	if _, known := l.keys.key(r.Parent); known {
		l.adopt([]uint64{r.Parent})
	}
}

// newShadow gives the ledger of a rank that is being restored under a masked handle.
func newShadow(s *Section, r index.Rank, h *index.Holder, walkedTo int64) *ledger {
	l := &ledger{section: s, rank: r, holder: h, shadow: true, smearEnd: smearEnd(walkedTo)}
	l.begin()
	l.groups.inherited = true
	return l
}

// become takes over what was restored. anew says that the ledger knew nothing of this life before; otherwise it knows the
// engine's groups.
func (l *ledger) become(shadow *ledger, h *index.Holder, anew bool) {
	dropped := uint64(0)
	if l.orphans != nil {
		dropped = l.orphans.Dropped
	}
	l.holder, l.keys, l.orphans, l.extra = h, shadow.keys, shadow.orphans, shadow.extra
	l.wanting, l.smearEnd, l.suspect = shadow.wanting, shadow.smearEnd, suspicion{}
	if l.orphans != nil {
		l.orphans.Dropped += dropped
	}
	if anew {
		l.groups = shadow.groups
	}
	l.section.busy = true
}

// smearEnd is the first seq whose events are in nothing that was walked.
func smearEnd(walkedTo int64) int64 { return min(walkedTo, math.MaxInt64-1) + 1 }
