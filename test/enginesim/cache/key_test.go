package cache

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/routerfleet/routerfleet/test/data/vectors"
)

// TestChainEqualsSGLangsVectors runs every case of the shipped vectors. SGLang also hashes a short last page; the cache never holds one, so only full
// pages are compared.
func TestChainEqualsSGLangsVectors(t *testing.T) {
	var file struct {
		SGLang []struct {
			Tokens    []uint32 `json:"tokens"`
			BlockSize int      `json:"block_size"`
			Bigram    bool     `json:"bigram"`
			Expect    []int64  `json:"expect"`
		} `json:"sglang"`
	}
	if err := json.Unmarshal(vectors.BlockHashes, &file); err != nil {
		t.Fatalf("decode block_hashes.json: %v", err)
	}
	compared, bigrams := 0, 0
	for i, c := range file.SGLang {
		chain, units := Chain, len(c.Tokens)
		if c.Bigram {
			chain, units = BigramChain, len(c.Tokens)-1
			bigrams++
		}
		want := c.Expect[:units/c.BlockSize]
		var got []int64
		for _, key := range chain(c.Tokens, c.BlockSize, "") {
			got = append(got, key.Int64())
		}
		if !slices.Equal(got, want) {
			t.Errorf("case %d: tokens %v block %d: got %v, want %v", i, c.Tokens, c.BlockSize, got, want)
		}
		compared += len(want)
	}
	if compared == 0 || bigrams == 0 {
		t.Errorf("compared %d keys, %d cases of bigrams: the vectors hold too little", compared, bigrams)
	}
}

// The value is computed from SGLang's stated rule for salted chains.
func TestChainStartsFromTheSalt(t *testing.T) {
	tokens := []uint32{1, 2, 3, 4}
	if got, want := Chain(tokens, 4, "tenant-a")[0].Int64(), int64(3718046898735569995); got != want {
		t.Errorf("salted key: got %d, want %d", got, want)
	}
	if Chain(tokens, 4, "tenant-a")[0] == Chain(tokens, 4, "")[0] {
		t.Error("salted and plain chains share a key")
	}
}

func TestKeysNameTheWholePrefixNotThePage(t *testing.T) {
	a := Chain([]uint32{1, 2, 9, 9}, 2, "")
	b := Chain([]uint32{1, 3, 9, 9}, 2, "")
	if a[1] == b[1] {
		t.Error("the same page behind different prefixes has one key")
	}
	if got := len(Chain([]uint32{1, 2, 3}, 2, "")); got != 1 {
		t.Errorf("3 tokens in pages of 2: got %d keys, want 1 (a short page has none)", got)
	}
}

func TestAPageOfPairsIsCompleteOneTokenLater(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 0, 4: 0, 5: 1, 8: 1, 9: 2} {
		if got := len(BigramChain(make([]uint32, n), 4, "")); got != want {
			t.Errorf("%d tokens in pages of 4: %d keys, want %d", n, got, want)
		}
	}
}
