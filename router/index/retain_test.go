package index

import "testing"

func TestARestoreMayLeaveOutRanksAtItsEnd(t *testing.T) {
	x := New(Options{})
	a, b := Rank{Worker: "a"}, Rank{Worker: "b"}
	old, err := x.Rank(a)
	if err != nil {
		t.Fatal(err)
	}
	x.Store(old, Root, []Key{1, 2}, Device)
	r, err := x.BeginRestore([]Rank{a, b})
	if err != nil {
		t.Fatal(err)
	}
	r.Add(5, Root, []Holding{{0, Device}, {1, Device}})
	r.Add(6, After(5), []Holding{{1, Device}})
	r.Retain(func(i int) bool { return i == 1 })
	holders := r.Commit()
	if len(holders) != 1 || holders[0].Rank() != b || holders[0].Blocks[0] != 2 {
		t.Fatalf("committed %v", holders)
	}
	if x.Held(old, 1) != Device || x.Held(old, 5) != 0 || old.Blocks[0] != 2 {
		t.Errorf("the rank that was left out holds %v", old.Blocks)
	}
	for x.Work(1000) {
	}
	if x.Held(holders[0], 6) != Device {
		t.Error("the sweep took from the rank that was committed")
	}
	x.Forget(old)
	x.Forget(holders[0])
	for x.Work(1000) {
	}
	if s := x.Stats(); s.Nodes != 0 || s.Ranks != 0 {
		t.Errorf("left: %+v", s)
	}
}
