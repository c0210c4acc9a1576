package publish

import "testing"

func TestBabbleIsBoundedAndDense(t *testing.T) {
	s := newScript(t, Options{})
	if err := s.Babble(nil, 100, 5); err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{}
	for i := range s.messages {
		if s.messages[i].Seq != int64(i) {
			t.Fatalf("message %d has seq %d", i, s.messages[i].Seq)
		}
		for _, h := range decode(t, SGLangMap, s.messages[i]).stored[0]["block_hashes"].([]any) {
			seen[number(h)] = true
		}
	}
	if len(seen) != 500 {
		t.Errorf("%d blocks, want 500 different ones", len(seen))
	}
	for _, wrong := range [][2]int{{0, 1}, {1, 0}, {MaxBabbleBytes, 1}, {1, MaxBabbleBytes}, {1 << 40, 1 << 40}} {
		if s.Babble(nil, wrong[0], wrong[1]) == nil {
			t.Errorf("%d batches of %d blocks are taken", wrong[0], wrong[1])
		}
	}
}
