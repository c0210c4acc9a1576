package bpe

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// mergeable is a tokenizer of nothing but merges: ids below 256 are bytes, others come of pairs that are drawn.
func mergeable(r *rand.Rand, merges int) *Tokenizer {
	t := &Tokenizer{pairs: newPairTable(merges)}
	for b := range t.byteIDs {
		t.byteIDs[b] = uint32(b)
	}
	for rank := range uint32(merges) {
		// Of few letters, so that there are ties, chains and merges that undo others' chances.
		pick := func() uint32 {
			if rank > 0 && r.IntN(2) == 0 {
				return 256 + r.Uint32N(rank)
			}
			return 'a' + r.Uint32N(3)
		}
		t.pairs.put(pick(), pick(), rank, 256+rank)
	}
	return t
}

func TestMergingWithAHeapEqualsMergingWithout(t *testing.T) {
	r := rand.New(rand.NewPCG(80, 81))
	merged := 0
	for range 2000 {
		tok := mergeable(r, 1+r.IntN(60))
		word := make([]byte, 1+r.IntN(shortWord))
		for i := range word {
			word[i] = 'a' + byte(r.IntN(3))
		}
		short, long := tok.merge(nil, string(word)), tok.mergeLong(nil, string(word))
		if !slices.Equal(short, long) {
			t.Fatalf("%s: %v without a heap, %v with it", word, short, long)
		}
		merged += len(word) - len(short)
	}
	if merged < 10_000 {
		t.Errorf("%d merges were made", merged)
	}
}

func TestThePairTableHoldsEachMergeAndNoOther(t *testing.T) {
	r := rand.New(rand.NewPCG(82, 83))
	for _, n := range []int{0, 1, 7, 5000} {
		table, want := newPairTable(n), map[[2]uint32][2]uint32{}
		for rank := range uint32(n) {
			pair := [2]uint32{r.Uint32N(200), r.Uint32N(200)}
			table.put(pair[0], pair[1], rank, rank+7)
			want[pair] = [2]uint32{rank, rank + 7} // of two for one pair the later
		}
		for left := range uint32(200) {
			for right := range uint32(200) {
				s := table.find(left, right)
				w, ok := want[[2]uint32{left, right}]
				if ok != (s.rank != noRank) || ok && (s.rank != w[0] || s.id != w[1]) {
					t.Fatalf("%d merges: %d and %d give %+v, want %v %v", n, left, right, *s, w, ok)
				}
			}
		}
	}
}
