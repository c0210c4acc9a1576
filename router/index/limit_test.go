package index

import "testing"

func TestALimitThatIsLoweredTakesWhatIsBeyondItAndNoMore(t *testing.T) {
	x := New(Options{MaxBlocks: 1000})
	h, err := x.Rank(Rank{Worker: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for chain := range uint64(20) {
		keys := make([]Key, 40)
		for i := range keys {
			keys[i] = Key(1 + chain*1000 + uint64(i))
		}
		x.Store(h, Root, keys, Device)
	}
	for _, limit := range []int{800, 300, 0, 500, 1} {
		before := x.Stats().Nodes
		x.Limit(limit)
		for x.Work(1000) {
		}
		want := before
		if limit > 0 {
			want = min(before, limit)
		}
		if got := x.Stats().Nodes; got != want {
			t.Errorf("limit %d: %d nodes of %d are left, want %d", limit, got, before, want)
		}
	}
}
