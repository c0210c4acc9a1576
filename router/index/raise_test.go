package index

import "testing"

func TestRaiseAddsATierAndInventsNoBlock(t *testing.T) {
	x := New(Options{})
	a, err := x.Rank(Rank{Worker: "a"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := x.Rank(Rank{Worker: "b"})
	if err != nil {
		t.Fatal(err)
	}
	x.Store(a, Root, []Key{1, 2, 3}, Device)
	if got := x.Raise(a, []Key{2, 3, 9}, Host); got != 2 {
		t.Errorf("raised %d blocks, want the 2 that are known", got)
	}
	if got := x.Raise(b, []Key{1}, Disk); got != 1 {
		t.Errorf("another rank's copy: raised %d", got)
	}
	for _, c := range []struct {
		h    *Holder
		k    Key
		want Tier
	}{{a, 1, Device}, {a, 2, Device | Host}, {a, 3, Device | Host}, {a, 9, 0}, {b, 1, Disk}, {b, 2, 0}} {
		if got := x.Held(c.h, c.k); got != c.want {
			t.Errorf("%s holds %d in %b, want %b", c.h.Rank().Worker, c.k, got, c.want)
		}
	}
	x.Remove(a, []Key{3, 2, 1}, Device)
	if got := x.Held(a, 3); got != Host {
		t.Errorf("without its device copy block 3 is in %b, want host", got)
	}
	x.Remove(a, []Key{3, 2}, Host)
	x.Remove(b, []Key{1}, AllTiers)
	if s := x.Stats(); s.Nodes != 0 {
		t.Errorf("%d nodes are left", s.Nodes)
	}
	if a.Digest != 0 || b.Digest != 0 {
		t.Errorf("digests %x, %x of nothing", a.Digest, b.Digest)
	}
}
