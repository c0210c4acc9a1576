package ingest

import (
	"math/rand/v2"
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

// A fresh index hears of B3 behind B1, then of B4 behind B3; B1 comes last (data/cases 17).
func TestOrphansAreKeyedWhenTheirParentBecomesKnown(t *testing.T) {
	b := newBook(t, index.SchemeTokens)
	b.events(chain(1, 3), chain(3, 4))
	b.want(0, 1, 3, 4)
	if n := len(b.orphans.byHash); n != 2 {
		t.Fatalf("%d orphans, want 2", n)
	}
	b.events(chain(root, 1))
	b.want(3, 1, 3, 4)
	if n := len(b.orphans.byHash); n != 0 {
		t.Errorf("%d orphans are left", n)
	}
	b.events(gone(4, 3, 1))
	b.empty()
}

func TestAnOrphanDiesWithItsLastCopy(t *testing.T) {
	b := newBook(t, index.SchemeTokens)
	b.events(chain(1, 3), chain(1, 3), gone(3))
	b.events(chain(root, 1))
	b.want(2, 1, 3) // one copy was left
	b.events(gone(3, 1), chain(1, 3), gone(3), chain(root, 1))
	b.want(1, 1, 3)
}

func TestAnOrphanKeepsItsTiers(t *testing.T) {
	b := newBook(t, index.SchemeTokens)
	b.events(chain(1, 3), with(chain(1, 3), func(s *kvevents.Stored) { s.Medium = kvevents.MediumHost }), chain(root, 1))
	if b.holder.Blocks != [4]int64{2, 1, 0, 0} {
		t.Errorf("blocks by tier: %v", b.holder.Blocks)
	}
}

func TestAChainGoesOnBehindABlockThatIsKnown(t *testing.T) {
	b := newBook(t, index.SchemeTokens)
	b.events(chain(root, 1, 2, 3), chain(77, 2, 5)) // 77 is not known, 2 is
	b.want(3, 1, 2, 5)
	b.events(gone(2))
	b.want(3, 1, 2, 5) // 2 was announced twice
}

func TestABlockAnnouncedAsOrphanAndAgainInPlaceIsOne(t *testing.T) {
	b := newBook(t, index.SchemeTokens)
	b.events(chain(9, 2), chain(root, 1, 2))
	b.want(2, 1, 2)
	b.events(gone(2))
	b.want(2, 1, 2)
	b.events(gone(2, 1))
	b.empty()
}

func TestTheOldestOrphansGoFirst(t *testing.T) {
	b := newBook(t, index.SchemeTokens)
	for i := range maxOrphans {
		b.events(chain(1, 100+i))
	}
	b.events(gone(101), chain(1, 7)) // room was made
	if b.orphans.Dropped != 0 || len(b.orphans.byHash) != maxOrphans {
		t.Fatalf("%d orphans, %d dropped", len(b.orphans.byHash), b.orphans.Dropped)
	}
	b.events(chain(1, 8), chain(1, 9))
	if b.orphans.Dropped != 2 || len(b.orphans.byHash) != maxOrphans {
		t.Fatalf("%d orphans, %d dropped", len(b.orphans.byHash), b.orphans.Dropped)
	}
	b.events(chain(root, 1))
	for block, want := range map[int]int{100: 1, 102: 1, 103: 2, 7: 2, 8: 2, 9: 2} {
		b.want(want, 1, block)
	}
	if len(b.orphans.byHash) != 0 || len(b.orphans.byParent) != 0 || b.orphans.oldest != nil || b.orphans.newest != nil {
		t.Error("the table is not empty")
	}
}

// A node that the cap took still has its name: children and removals find it.
func TestAnEvictedBlockStillHasItsName(t *testing.T) {
	s := newTestSection(index.SchemeTokens, 4)
	s.Index = index.New(index.Options{MaxBlocks: 2})
	b := &book{t, newLedger(s, index.Rank{Worker: "w"}), newBook(t, index.SchemeTokens).now}
	b.events(chain(root, 1, 2), chain(root, 3))
	for s.Index.Work(1 << 16) {
	}
	if s.Index.Stats().Nodes != 2 || b.keys.n != 3 {
		t.Fatalf("%d nodes, %d names", s.Index.Stats().Nodes, b.keys.n)
	}
	b.events(chain(2, 4)) // whatever was evicted, its parent is known by name
	if len(b.orphans.byHash) != 0 {
		t.Error("the child of an evicted block is no orphan")
	}
	b.events(gone(4, 3, 2, 1))
	b.empty()
}

// The dumb twin of keyMap and orphans' counting.
func TestTheKeyMapEqualsAMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	m := newKeyMap(rnd.Uint64)
	type entry struct {
		key    index.Key
		copies [4]int
	}
	twin := map[uint64]*entry{}
	limits := [4]int{255, 15, 3, 3}
	for step := range 200_000 {
		span := uint64(2000)
		if step > 100_000 {
			span = 40 // shrink
		}
		hash := rnd.Uint64N(span) * 0x10001
		field := rnd.IntN(4)
		t1 := index.Tier(1) << field
		if rnd.IntN(100) < 48 {
			key := index.Key(hash + 1)
			e := twin[hash]
			if e == nil {
				e = &entry{key: key}
				twin[hash] = e
			}
			e.copies[field] = min(e.copies[field]+1, limits[field])
			if !m.add(hash, key, t1) {
				t.Fatalf("step %d: hash %d was refused", step, hash)
			}
			if m.add(hash, key+1, t1) {
				t.Fatalf("step %d: hash %d took another key", step, hash)
			}
			continue
		}
		tiers := t1
		if rnd.IntN(4) == 0 {
			tiers = index.AllTiers
		}
		_, gone, ok := m.remove(hash, tiers)
		e := twin[hash]
		if ok != (e != nil) {
			t.Fatalf("step %d: hash %d known: %v", step, hash, ok)
		}
		if e == nil {
			continue
		}
		var want index.Tier
		left := 0
		for f := range e.copies {
			if bit := index.Tier(1) << f; tiers&bit != 0 {
				if tiers == index.AllTiers && f > 0 {
					e.copies[f] = 0
				} else {
					e.copies[f] = max(0, e.copies[f]-1)
				}
				if e.copies[f] == 0 {
					want |= bit
				}
			}
			left += e.copies[f]
		}
		if gone != want {
			t.Fatalf("step %d: gone from %b, want %b", step, gone, want)
		}
		if left == 0 {
			delete(twin, hash)
		}
		if m.n != len(twin) {
			t.Fatalf("step %d: %d entries, want %d", step, m.n, len(twin))
		}
	}
	for hash, e := range twin {
		if k, ok := m.key(hash); !ok || k != e.key {
			t.Errorf("hash %d has key %d, %v", hash, k, ok)
		}
	}
}

// checkRuns finds every entry where it lies: in order, and behind no empty slot.
func (m *keyMap) checkRuns(t *testing.T) {
	t.Helper()
	n := 0
	for i := range m.segs {
		s := &m.segs[i]
		for at, c := range s.copies {
			if c == 0 {
				continue
			}
			n++
			if next := s.next(at); s.copies[next] != 0 && m.away(s, next) > m.away(s, at)+1 {
				t.Fatalf("segment %d: slot %d is %d from home, behind one that is %d", i, next, m.away(s, next), m.away(s, at))
			}
			if _, found, ok := m.find(s.slots[at].hash); !ok || found != at {
				t.Fatalf("segment %d: the entry in slot %d is found at %d, %v", i, at, found, ok)
			}
		}
	}
	if n != m.n {
		t.Fatalf("%d entries, counted %d", m.n, n)
	}
}

func TestEntriesOfTheKeyMapLieInOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	m := newKeyMap(rnd.Uint64)
	known := map[uint64]bool{}
	for step := range 60_000 {
		hash := rnd.Uint64N(20_000)
		if step/10_000%2 == 0 || !known[hash] {
			m.add(hash, index.Key(hash), index.Device)
			known[hash] = true
		} else if _, gone, _ := m.remove(hash, index.AllTiers); gone&index.Device != 0 {
			delete(known, hash)
		}
		if step%5000 == 0 {
			m.checkRuns(t)
		}
	}
	for hash := range uint64(20_000) {
		if k, ok := m.key(hash); ok != known[hash] || ok && k != index.Key(hash) {
			t.Fatalf("hash %d has key %d, %v, want %v", hash, k, ok, known[hash])
		}
	}
	m.checkRuns(t)
}

func TestASlotOfTheKeyMapTakesAtMost24BytesABlock(t *testing.T) {
	m := newKeyMap(rand.New(rand.NewPCG(3, 4)).Uint64)
	worst := 0.0
	for n := 1; n <= 400_000; n++ {
		m.add(uint64(n)*0x9e3779b97f4a7c15, index.Key(n), index.Device)
		if n >= 50_000 && n%1000 == 0 {
			slots := 0
			for i := range m.segs {
				slots += len(m.segs[i].slots)
			}
			worst = max(worst, 18*float64(slots)/float64(n))
		}
	}
	t.Logf("%.1f bytes a block at the worst point", worst)
	if worst > 24 {
		t.Errorf("%.1f bytes a block", worst)
	}
}
