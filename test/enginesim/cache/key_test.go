package cache

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/routerfleet/routerfleet/test/data/vectors"
)

// TestChainEqualsSGLangsVectors runs every unigram case of the shipped vectors.
// SGLang also hashes a short last page; the cache never holds one, so only full
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
	compared := 0
	for i, c := range file.SGLang {
		if c.Bigram {
			continue
		}
		want := c.Expect[:len(c.Tokens)/c.BlockSize]
		var got []int64
		for _, key := range Chain(c.Tokens, c.BlockSize, "") {
			got = append(got, key.Int64())
		}
		if !slices.Equal(got, want) {
			t.Errorf("case %d: tokens %v block %d: got %v, want %v", i, c.Tokens, c.BlockSize, got, want)
		}
		compared += len(want)
	}
	if compared == 0 {
		t.Error("the vectors hold no unigram case: nothing was compared")
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
