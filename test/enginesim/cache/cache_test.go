package cache

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drive runs one random history against a Cache and its twin at once.
type drive struct {
	cache  *Cache
	twin   *twin
	leases []leasePair
}

type leasePair struct {
	real *Lease
	dumb *twinLease
	rest []Key // keys the sequence has still to commit
}

// drawChain draws a prompt over a tiny alphabet, so that prefixes are shared.
func drawChain(t *rapid.T) []Key {
	tokens := rapid.SliceOfN(rapid.Uint32Range(0, 2), 0, 7).Draw(t, "tokens")
	return Chain(tokens, 1, "")
}

func (d *drive) acquire(t *rapid.T) {
	keys := drawChain(t)
	private := rapid.IntRange(0, 3).Draw(t, "extra")
	real, evicted := d.cache.Acquire(keys, len(keys)+private)
	dumb, wantEvicted := d.twin.acquire(keys, len(keys)+private)
	if (real == nil) != (dumb == nil) {
		t.Fatalf("Acquire of %d keys + %d pages: got lease %v, twin %v", len(keys), private, real, dumb)
	}
	if !slices.Equal(evicted, wantEvicted) {
		t.Fatalf("evicted %d blocks, twin %d, or in another order", len(evicted), len(wantEvicted))
	}
	if real == nil {
		return
	}
	if real.Blocks() != len(dumb.path) || real.Private() != dumb.private {
		t.Fatalf("lease %d+%d, twin %d+%d", real.Blocks(), real.Private(), len(dumb.path), dumb.private)
	}
	d.leases = append(d.leases, leasePair{real, dumb, keys[real.Blocks():]})
}

func (d *drive) draw(t *rapid.T) int {
	if len(d.leases) == 0 {
		t.Skip("no lease")
	}
	return rapid.IntRange(0, len(d.leases)-1).Draw(t, "lease")
}

func (d *drive) commit(t *rapid.T) {
	pair := &d.leases[d.draw(t)]
	if len(pair.rest) == 0 {
		t.Skip("all committed")
	}
	got, want := pair.real.Commit(pair.rest[0]), d.twin.commit(pair.dumb, pair.rest[0])
	if got != want {
		t.Fatalf("Commit stored=%v, twin %v", got, want)
	}
	pair.rest = pair.rest[1:]
}

func (d *drive) release(t *rapid.T) {
	i := d.draw(t)
	d.leases[i].real.Release()
	d.twin.release(d.leases[i].dumb)
	d.leases = slices.Delete(d.leases, i, i+1)
}

func (d *drive) clear(t *rapid.T) {
	if got, want := d.cache.Clear(), d.twin.clear(); got != want {
		t.Fatalf("Clear = %v, twin %v", got, want)
	}
}

func (d *drive) check(t *rapid.T) {
	d.cache.checkAll(t)
	keys := drawChain(t)
	if got, want := d.cache.Match(keys), d.twin.match(keys); got != want {
		t.Fatalf("Match = %d, twin %d", got, want)
	}
	n := d.cache.Counts()
	if n.Pinned != d.twin.pinned() || n.Private != d.twin.private || n.Pinned+n.Cached != len(d.twin.blocks) {
		t.Fatalf("counts %+v, twin pinned %d private %d blocks %d", n, d.twin.pinned(), d.twin.private, len(d.twin.blocks))
	}
}

func TestEveryHistoryAgreesWithTheDumbTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 24).Draw(t, "capacity")
		d := &drive{cache: New(capacity), twin: &twin{capacity: capacity}}
		t.Repeat(map[string]func(*rapid.T){
			"acquire": d.acquire,
			"commit":  d.commit,
			"release": d.release,
			"clear":   d.clear,
			"":        d.check,
		})
	})
}

// fill runs one sequence over keys from start to end.
func fill(t *testing.T, c *Cache, keys []Key) (hit int, evicted []Key) {
	t.Helper()
	lease, evicted := c.Acquire(keys, len(keys))
	if lease == nil {
		t.Fatalf("no room for %d pages: %+v", len(keys), c.Counts())
	}
	hit = lease.Blocks()
	for _, key := range keys[hit:] {
		lease.Commit(key)
	}
	lease.Release()
	return hit, evicted
}

func TestASharedPrefixOutlivesItsExtensions(t *testing.T) {
	c := New(4)
	a := Chain([]uint32{1, 2, 3}, 1, "")
	b := Chain([]uint32{1, 2, 4}, 1, "")
	fill(t, c, a)
	if hit, _ := fill(t, c, b); hit != 2 {
		t.Fatalf("second prompt hit %d blocks, want the 2 shared ones", hit)
	}
	_, evicted := fill(t, c, Chain([]uint32{9}, 1, ""))
	if want := []Key{a[2]}; !slices.Equal(evicted, want) {
		t.Errorf("evicted %d blocks, want only the older leaf", len(evicted))
	}
	if got := c.Match(b); got != 3 {
		t.Errorf("the younger prompt kept %d blocks, want 3", got)
	}
}

func TestARefusedAcquireChangesNothing(t *testing.T) {
	c := New(4)
	old := Chain([]uint32{1}, 1, "")
	fill(t, c, old)
	young := Chain([]uint32{2}, 1, "")
	fill(t, c, young)
	if lease, evicted := c.Acquire(old, 5); lease != nil || evicted != nil {
		t.Fatalf("5 pages granted by a cache of 4")
	}
	lease, evicted := c.Acquire(nil, 3)
	if lease == nil || !slices.Equal(evicted, old) {
		t.Errorf("the refused Acquire refreshed its prefix: evicted %d blocks, want the oldest one", len(evicted))
	}
}

func TestPinnedBlocksAreNeverEvicted(t *testing.T) {
	c := New(3)
	keys := Chain([]uint32{1, 2}, 1, "")
	lease, _ := c.Acquire(keys, 2)
	lease.Commit(keys[0])
	lease.Commit(keys[1])
	if got, _ := c.Acquire(nil, 2); got != nil {
		t.Error("granted 2 pages while 2 of 3 are pinned")
	}
	if c.Clear() {
		t.Error("cleared below a live lease")
	}
	lease.Release()
	if got, evicted := c.Acquire(nil, 2); got == nil || len(evicted) != 1 {
		t.Errorf("after Release: evicted %d, want 1 and a lease", len(evicted))
	}
}

func TestTwoSequencesWithOneBlockShareOnePage(t *testing.T) {
	c := New(4)
	keys := Chain([]uint32{7}, 1, "")
	first, _ := c.Acquire(keys, 1)
	second, _ := c.Acquire(keys, 1)
	if !first.Commit(keys[0]) || second.Commit(keys[0]) {
		t.Error("the block was not stored exactly once")
	}
	if n := c.Counts(); n.Pinned != 1 || n.Private != 0 || n.Free != 3 {
		t.Errorf("uses %+v, want 1 pinned and 3 free", n)
	}
}

func TestCommitBeyondTheReservationPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	lease, _ := New(1).Acquire(nil, 0)
	lease.Commit(Key{})
}

func TestBlocksLeaveInTheOrderOfTheirRelease(t *testing.T) {
	const n = 9
	c := New(n)
	var leases []*Lease
	var keys []Key
	for i := range n {
		key := Chain([]uint32{uint32(i)}, 1, "")
		lease, _ := c.Acquire(key, 1)
		lease.Commit(key[0])
		leases, keys = append(leases, lease), append(keys, key[0])
	}
	var want []Key
	for i := range n {
		j := i * 4 % n // in another order than they came
		leases[j].Release()
		want = append(want, keys[j])
	}
	if _, evicted := c.Acquire(nil, n); !slices.Equal(evicted, want) {
		t.Error("the blocks did not leave in the order of their release")
	}
}
