package index

import "testing"

// An engine that announces chain after chain gets no more of the memory than the cap says, also when nobody has time for
// Work.
func TestAFloodOfLongChainsStaysAtTheCap(t *testing.T) {
	const most, chain = 50_000, 1000
	for _, long := range []int{1, 16, chain} {
		x := New(Options{MaxBlocks: most, Rand: func() uint64 { return 0x9e3779b97f4a7c15 }})
		h, err := x.Rank(Rank{Worker: "a"})
		if err != nil {
			t.Fatal(err)
		}
		next := Key(0)
		for range 300 * chain / long {
			keys := make([]Key, long)
			for i := range keys {
				next += 0x9e3779b97f4a7c15
				keys[i] = next
			}
			x.Store(h, Root, keys, Device)
			if n := x.Stats().Nodes; n > most+chain {
				t.Fatalf("chains of %d: %d blocks, the cap is %d", long, n, most)
			}
		}
		if n := x.Stats().Nodes; n < most/2 {
			t.Errorf("chains of %d: %d blocks are left under a cap of %d", long, n, most)
		}
	}
}
