package publish

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/routerfleet/routerfleet/test/data/vectors"
	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// cborChain names the full blocks of tokens.
func cborChain(seed string, ids []uint32, size int) (hashes []hash) {
	var parent *hash
	for ; len(ids) >= size; ids = ids[size:] {
		h := cborHash(seed, parent, ids[:size], nil)
		hashes, parent = append(hashes, h), &h
	}
	return hashes
}

func TestSHA256CBOREqualsTheVectors(t *testing.T) {
	var file struct {
		Cases []struct {
			Seed      string   `json:"seed"`
			BlockSize int      `json:"block_size"`
			Tokens    []uint32 `json:"tokens"`
			Hashes    []string `json:"hashes"`
		} `json:"vllm_sha256_cbor"`
	}
	if err := json.Unmarshal(vectors.BlockHashes, &file); err != nil || len(file.Cases) == 0 {
		t.Fatalf("decode the vectors: %d cases, %v", len(file.Cases), err)
	}
	for _, c := range file.Cases {
		got := cborChain(c.Seed, c.Tokens, c.BlockSize)
		if len(got) != len(c.Hashes) {
			t.Fatalf("%d hashes, want %d", len(got), len(c.Hashes))
		}
		for i, h := range got {
			if hex.EncodeToString(h[:]) != c.Hashes[i] {
				t.Errorf("block %d: got %x, want %s", i, h, c.Hashes[i])
			}
		}
	}
}

// TestSHA256CBOREqualsARunningVLLM compares all 25 hashes of the capture.
func TestSHA256CBOREqualsARunningVLLM(t *testing.T) {
	var capture struct {
		Hashes    []uint64 `json:"block_hashes"`
		Tokens    []uint32 `json:"token_ids"`
		BlockSize int      `json:"block_size"`
		Seed      string   `json:"hash_seed"`
	}
	if err := json.Unmarshal(vectors.VLLMBlockStored, &capture); err != nil || len(capture.Hashes) != 25 {
		t.Fatalf("decode the capture: %d hashes, %v", len(capture.Hashes), err)
	}
	s := newScript(t, Options{Dialect: VLLMInt, PageSize: capture.BlockSize, HashScheme: SHA256CBOR, HashSeed: capture.Seed})
	s.change(enginesim.Stored{Keys: cache.Chain(capture.Tokens, capture.BlockSize, ""), Tokens: capture.Tokens, PageSize: capture.BlockSize})
	got := decode(t, VLLMInt, s.messages[0]).stored[0]["block_hashes"].([]any)
	for i, want := range capture.Hashes {
		if number(got[i]) != want {
			t.Errorf("block %d: got %v, want %d", i, got[i], want)
		}
	}
}

// number is an integer however it was read.
func number(v any) uint64 {
	switch v := v.(type) {
	case int64:
		return uint64(v)
	case uint64:
		return v
	}
	return 0
}

func TestOpaqueHashesDifferBetweenEnginesAndLives(t *testing.T) {
	first := func(seed string, restarts int) uint64 {
		s := newScript(t, Options{Dialect: VLLMMap, HashSeed: seed})
		for range restarts {
			s.change(enginesim.Restarted{})
		}
		s.change(chain(1, 1))
		h := decode(t, VLLMMap, s.messages[0]).stored[0]["block_hashes"].([]any)[0].([]byte)
		return binary.BigEndian.Uint64(h)
	}
	a, again, b, later := first("a", 0), first("a", 0), first("b", 0), first("a", 1)
	if a != again || a == b || a == later {
		t.Errorf("engine a %x and %x, engine b %x, engine a's next life %x", a, again, b, later)
	}
}

func TestSaltAndAdapterAreExtraKeysOfVLLM(t *testing.T) {
	s := newScript(t, Options{Dialect: VLLMMap, HashScheme: SHA256CBOR, HashSeed: "0", LoRA: "tuned"})
	ids := tokens(1, 12)
	c := enginesim.Stored{Keys: cache.Chain(ids, 4, "tenant"), Tokens: ids, PageSize: 4, CacheSalt: "tenant"}
	s.change(enginesim.Stored{Keys: c.Keys[:2], Tokens: ids[:8], PageSize: 4, CacheSalt: "tenant"})
	s.change(rest(c, 2))
	first, second := decode(t, VLLMMap, s.messages[0]).stored[0], decode(t, VLLMMap, s.messages[1]).stored[0]
	if got, _ := json.Marshal([]any{first["lora_name"], first["extra_keys"], second["extra_keys"]}); string(got) != `["tuned",[["tuned","tenant"],["tuned"]],[["tuned"]]]` {
		t.Errorf("got %s", got)
	}
	h := cborHash("0", nil, ids[:4], []string{"tuned", "tenant"})
	if got := first["block_hashes"].([]any)[0].([]byte); hash(got) != h {
		t.Errorf("the first block is %x, want %x: extra keys belong to the hash", got, h)
	}
	if parent, last := second["parent_block_hash"].([]byte), first["block_hashes"].([]any)[1].([]byte); string(parent) != string(last) {
		t.Errorf("the second run follows %x, want %x", parent, last)
	}
}
