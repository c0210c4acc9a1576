package tokens

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/test/data/vectors"
)

func keys(t testing.TB, o Options, tokens []uint32, c Context) []index.Key {
	t.Helper()
	k, err := NewKeyer(o)
	if err != nil {
		t.Fatal(err)
	}
	got, err := k.Append(nil, tokens, c)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func signed(keys []index.Key) []int64 {
	out := make([]int64, len(keys))
	for i, k := range keys {
		out[i] = int64(k)
	}
	return out
}

func TestSGLangKeysEqualTheVectors(t *testing.T) {
	type row struct {
		Tokens    []uint32 `json:"tokens"`
		BlockSize int      `json:"block_size"`
		Bigram    bool     `json:"bigram"`
		Expect    []int64  `json:"expect"`
		salt      string
	}
	var file struct {
		SGLang []row `json:"sglang"`
	}
	if err := json.Unmarshal(vectors.BlockHashes, &file); err != nil || len(file.SGLang) == 0 {
		t.Fatalf("%d vectors, %v", len(file.SGLang), err)
	}
	rows := append(file.SGLang,
		row{[]uint32{10, 20}, 4, false, []int64{978178666101069530}, ""},
		row{[]uint32{1, 2, 3, 4}, 4, false, []int64{3718046898735569995}, "tenant-a"},
		row{[]uint32{1, 2, 3, 4, 5, 6}, 4, true, []int64{-638950109823820341, 3604587133525381017}, ""},
		row{[]uint32{7}, 4, true, []int64{}, ""},
		row{nil, 4, true, []int64{}, ""},
		row{nil, 4, false, []int64{}, ""},
	)
	for _, r := range rows {
		o := Options{Scheme: index.SchemeSGLang, BlockSize: r.BlockSize, Bigram: r.Bigram}
		if got := signed(keys(t, o, r.Tokens, Context{CacheSalt: r.salt})); !slices.Equal(got, r.Expect) {
			t.Errorf("tokens %v, page %d, bigram %v, salt %q: %d, want %d", r.Tokens, r.BlockSize, r.Bigram, r.salt, got, r.Expect)
		}
	}
}

func TestVLLMKeysEqualTheVectors(t *testing.T) {
	var file struct {
		NoneSeed0 string `json:"vllm_sha256_cbor_none_hash_seed0"`
		VLLM      []struct {
			Seed      string   `json:"seed"`
			BlockSize int      `json:"block_size"`
			Tokens    []uint32 `json:"tokens"`
			Low64     []uint64 `json:"low64"`
		} `json:"vllm_sha256_cbor"`
	}
	if err := json.Unmarshal(vectors.BlockHashes, &file); err != nil || len(file.VLLM) == 0 {
		t.Fatalf("%d vectors, %v", len(file.VLLM), err)
	}
	if got := fmt.Sprintf("%x", newVLLM(4, "0").none); got != file.NoneSeed0 {
		t.Errorf("the root of seed 0 is %s, want %s", got, file.NoneSeed0)
	}
	for _, v := range file.VLLM {
		o := Options{Scheme: index.SchemeVLLM, BlockSize: v.BlockSize, HashSeed: v.Seed}
		if got := unsigned(keys(t, o, v.Tokens, Context{})); !slices.Equal(got, v.Low64) {
			t.Errorf("seed %s: %d, want %d", v.Seed, got, v.Low64)
		}
	}
}

func unsigned(keys []index.Key) []uint64 {
	out := make([]uint64, len(keys))
	for i, k := range keys {
		out[i] = uint64(k)
	}
	return out
}

func TestVLLMKeysEqualThoseARealEngineAnnounced(t *testing.T) {
	var capture struct {
		Hashes    []uint64 `json:"block_hashes"`
		Tokens    []uint32 `json:"token_ids"`
		BlockSize int      `json:"block_size"`
		Seed      string   `json:"hash_seed"`
	}
	if err := json.Unmarshal(vectors.VLLMBlockStored, &capture); err != nil {
		t.Fatal(err)
	}
	if len(capture.Hashes) != 25 {
		t.Fatalf("the capture has %d hashes, not the 25 it is known for", len(capture.Hashes))
	}
	o := Options{Scheme: index.SchemeVLLM, BlockSize: capture.BlockSize, HashSeed: capture.Seed}
	if got := unsigned(keys(t, o, capture.Tokens, Context{})); !slices.Equal(got, capture.Hashes) {
		t.Errorf("keys %d, want %d", got, capture.Hashes)
	}
	// A block more or less full changes nothing before it: only full blocks count.
	if got := unsigned(keys(t, o, append(slices.Clone(capture.Tokens), 1, 2, 3), Context{})); !slices.Equal(got, capture.Hashes) {
		t.Error("a short last block changed the keys")
	}
}

var schemes = []Options{
	{Scheme: index.SchemeSGLang, BlockSize: 4},
	{Scheme: index.SchemeSGLang, BlockSize: 4, Bigram: true},
	{Scheme: index.SchemeVLLM, BlockSize: 4, HashSeed: "42"},
	{Scheme: index.SchemeTokens, BlockSize: 4, Model: "m", Seed: 7},
	{Scheme: index.SchemeTokens, BlockSize: 4, Model: "m", Seed: 7, Bigram: true},
}

func TestPromptsShareKeysAsFarAsTheyShareBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, o := range schemes {
		for range 200 {
			a := make([]uint32, 8+random.IntN(40))
			for i := range a {
				a[i] = random.Uint32N(1000)
			}
			at := random.IntN(len(a))
			b := slices.Clone(a)
			b[at] += 1000
			whole := at / o.BlockSize
			if o.Bigram {
				whole = max(0, at-1) / o.BlockSize // a token is in two pairs
			}
			ka, kb := keys(t, o, a, Context{}), keys(t, o, b, Context{})
			for i := range ka {
				if same := ka[i] == kb[i]; same != (i < whole) {
					t.Fatalf("%s, bigram %v: %d tokens that differ at %d: block %d equal: %v", o.Scheme, o.Bigram, len(a), at, i, same)
				}
			}
		}
	}
}

func TestASaltChangesEveryKey(t *testing.T) {
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, o := range schemes {
		plain := keys(t, o, tokens, Context{})
		for _, salt := range []string{"a", "b"} {
			for i, k := range keys(t, o, tokens, Context{CacheSalt: salt}) {
				if slices.Contains(plain, k) {
					t.Errorf("%s: block %d has one key with salt %q and without", o.Scheme, i, salt)
				}
			}
		}
	}
}

func TestAnAdapterIsToldApartOrHasNoKeys(t *testing.T) {
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, o := range schemes {
		k, err := NewKeyer(o)
		if err != nil {
			t.Fatal(err)
		}
		plain := keys(t, o, tokens, Context{})
		got, err := k.Append(nil, tokens, Context{LoRA: "a"})
		if o.Scheme == index.SchemeSGLang {
			if !errors.Is(err, ErrNoKeys) || len(got) != 0 {
				t.Errorf("sglang gave an adapter %d keys, %v", len(got), err)
			}
			continue
		}
		if err != nil || len(got) != len(plain) {
			t.Fatalf("%s: %d keys, %v", o.Scheme, len(got), err)
		}
		for i := range got {
			if slices.Contains(plain, got[i]) {
				t.Errorf("%s: block %d has one key with an adapter and without", o.Scheme, i)
			}
		}
	}
}

// The request's keys are those the pump chains from the decoder's chunks.
func TestTokensKeysChainTheChunksOfTheirBlocks(t *testing.T) {
	o := Options{Scheme: index.SchemeTokens, BlockSize: 2, Model: "m", Seed: 99}
	got := keys(t, o, []uint32{1, 2, 3}, Context{CacheSalt: "s", LoRA: "l"})
	block := func(tokens ...uint32) index.Chunk {
		var b []byte
		for _, x := range tokens {
			b = index.AppendToken(b, x)
		}
		return o.Seed.Chunk(index.AppendSuffix(b, "l", nil))
	}
	first := o.Seed.RootKey("m", "s").Next(block(1, 2))
	if want := []index.Key{first, first.Next(block(3))}; !slices.Equal(got, want) {
		t.Errorf("keys %x, want %x", got, want)
	}
}

func TestAKeyerThatMakesNoSenseIsRefused(t *testing.T) {
	for _, o := range []Options{
		{Scheme: index.SchemeSGLang},
		{Scheme: index.SchemeSGLang, BlockSize: maxBlockSize + 1},
		{Scheme: index.SchemeVLLM, BlockSize: 16, Bigram: true},
		{Scheme: "xxhash", BlockSize: 16},
	} {
		if _, err := NewKeyer(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	if _, err := NewKeyer(Options{Scheme: index.SchemeSGLang, BlockSize: maxBlockSize}); err != nil {
		t.Error(err)
	}
}

func BenchmarkKeys(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	tokens := make([]uint32, 12_000)
	for i := range tokens {
		tokens[i] = random.Uint32N(150_000)
	}
	for _, o := range []Options{
		{Scheme: index.SchemeSGLang, BlockSize: 16}, {Scheme: index.SchemeSGLang, BlockSize: 64},
		{Scheme: index.SchemeVLLM, BlockSize: 16, HashSeed: "42"},
		{Scheme: index.SchemeTokens, BlockSize: 16, Model: "m", Seed: 7}, {Scheme: index.SchemeTokens, BlockSize: 64, Model: "m", Seed: 7},
	} {
		b.Run(fmt.Sprintf("scheme=%s/block=%d/tokens=%d", o.Scheme, o.BlockSize, len(tokens)), func(b *testing.B) {
			k, err := NewKeyer(o)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var dst []index.Key
			for b.Loop() {
				dst, _ = k.Append(dst[:0], tokens, Context{})
			}
			b.ReportMetric(float64(len(dst))*float64(b.N)/b.Elapsed().Seconds(), "blocks/s")
		})
	}
}
