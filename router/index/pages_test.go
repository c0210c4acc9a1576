package index

import "testing"

// check compares the pool's books with the pages that segments, readers and chunks hold.
func (p *pagePool) check(t testing.TB, x *Index) {
	t.Helper()
	held := map[*page]string{}
	hold := func(pages []*page, by string) {
		for _, pg := range pages {
			if before := held[pg]; before != "" {
				t.Fatalf("a page is held by %s and by %s", before, by)
			}
			held[pg] = by
		}
	}
	for i := range x.segs {
		if seg := x.segs[i].Load(); seg != noSlots {
			hold(seg.pages, "a segment")
		}
	}
	for _, r := range p.limbo {
		hold(r.pages, "readers")
	}
	total, free := 0, 0
	for at, c := range p.chunks {
		if c == nil {
			continue
		}
		if at < p.low && c.left() > 0 {
			t.Fatalf("chunk %d has %d pages left, and the search begins at %d", at, c.left(), p.low)
		}
		hold(c.free, "the pool")
		total += len(c.pages)
		free += c.left()
		for i := range c.pages[:c.fresh] {
			pg := &c.pages[i]
			if held[pg] == "" || pg.chunk != at {
				t.Fatalf("page %d of chunk %d is lost (it says chunk %d)", i, at, pg.chunk)
			}
			delete(held, pg)
		}
	}
	if len(held) > 0 || total != p.total || free != p.free {
		t.Fatalf("%d pages of no chunk; total %d free %d, counted %d %d", len(held), p.total, p.free, total, free)
	}
}

func TestPagesAreNotUsedAgainUnderAReader(t *testing.T) {
	x := New(Options{})
	h, _ := x.Rank(rankNo(0))
	x.Store(h, Root, []Key{1}, Device)
	hash := x.hash.sum(1)
	pin := x.epochs.enter()
	old := x.segmentOf(hash)
	next, key := Key(2), []Key{0}
	for range 16 { // grow the segment of key 1 until it was replaced often
		for seg := x.segmentOf(hash); x.segmentOf(hash) == seg; next++ {
			if key[0] = next; x.segmentOf(x.hash.sum(next)) == seg {
				x.Store(h, Root, key, Device)
			}
		}
		x.Work(1000)
	}
	if m, _, ok := old.find(1, hash); !ok || m.set() == 0 {
		t.Error("a pinned reader's segment does not hold what it held")
	}
	x.pool.check(t, x)
	before := x.pool.free
	x.epochs.leave(pin)
	if x.drain(); len(x.pool.limbo) > 0 || x.pool.free <= before {
		t.Errorf("%d retired segments and %d free pages after the reader left, %d before", len(x.pool.limbo), x.pool.free, before)
	}
	x.checkAll(t)
}

func TestAnEmptiedIndexGivesItsMemoryBack(t *testing.T) {
	x := New(Options{})
	h, _ := x.Rank(rankNo(0))
	r := seeded(t, 12)
	var held [][]Key
	for range 4000 {
		keys := make([]Key, 50)
		for i := range keys {
			keys[i] = Key(r.Uint64())
		}
		x.Store(h, Root, keys, Device)
		held = append(held, keys)
	}
	peak := x.pool.total
	for _, keys := range held {
		x.Remove(h, keys, AllTiers)
	}
	x.drain()
	x.checkAll(t)
	// A page a segment stays, and chunks of which a page is in use.
	if x.pool.total > peak*3/4 || x.pool.total-x.pool.free > segments {
		t.Errorf("%d pages, %d free, of %d at the peak", x.pool.total, x.pool.free, peak)
	}
}
