package kvevents

import (
	"slices"
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
)

// chunkOf is the chunk the tokens scheme defines.
func chunkOf(lora string, extra index.Extra, tokens ...uint32) index.Chunk {
	var block []byte
	for _, t := range tokens {
		block = index.AppendToken(block, t)
	}
	return index.Seed(1).Chunk(index.AppendSuffix(block, lora, extra))
}

func TestTokensBecomeChunks(t *testing.T) {
	parent := ptr[wire.Hash](9)
	cases := []struct {
		name   string
		event  wire.Stored
		chunks []index.Chunk
		salt   string
	}{
		{"full blocks", wire.Stored{Tokens: []uint32{1, 2, 3, 4}, BlockSize: 2},
			[]index.Chunk{chunkOf("", nil, 1, 2), chunkOf("", nil, 3, 4)}, ""},
		{"a short last block", wire.Stored{Tokens: []uint32{1, 2, 3}, BlockSize: 2},
			[]index.Chunk{chunkOf("", nil, 1, 2), chunkOf("", nil, 3)}, ""},
		{"pairs", wire.Stored{Tokens: []uint32{1, 2, 3, 4}, Pairs: true, BlockSize: 2},
			[]index.Chunk{chunkOf("", nil, 1, 2, 2, 3), chunkOf("", nil, 3, 4)}, ""},
		{"a LoRA by name", wire.Stored{Tokens: []uint32{1}, BlockSize: 1, LoRAID: ptr(3), LoRAName: "l"},
			[]index.Chunk{chunkOf("l", nil, 1)}, ""},
		{"a LoRA by number", wire.Stored{Tokens: []uint32{1}, BlockSize: 1, LoRAID: ptr(3)},
			[]index.Chunk{chunkOf("#3", nil, 1)}, ""},
		{"a LoRA in the extra keys too", wire.Stored{Tokens: []uint32{1, 2}, BlockSize: 1, LoRAName: "l", ExtraKeys: [][]any{{"l"}, {"l"}}},
			[]index.Chunk{chunkOf("l", nil, 1), chunkOf("l", nil, 2)}, ""},
		{"a LoRA's number in the extra keys", wire.Stored{Tokens: []uint32{1}, BlockSize: 1, LoRAID: ptr(3), ExtraKeys: [][]any{{3}}},
			[]index.Chunk{chunkOf("#3", nil, 1)}, ""},
		{"a salt in the extra keys", wire.Stored{Tokens: []uint32{1, 2}, BlockSize: 1, ExtraKeys: [][]any{{"salt"}, nil}},
			[]index.Chunk{chunkOf("", nil, 1), chunkOf("", nil, 2)}, "salt"},
		{"LoRA, image and salt", wire.Stored{Tokens: []uint32{1, 2}, BlockSize: 1, LoRAName: "l",
			ExtraKeys: [][]any{{"l", []any{"image", 0}, "salt"}, {"l", []any{"image", -1}}}},
			[]index.Chunk{chunkOf("l", index.Extra(nil).List(2).Text("image").Int(0), 1), chunkOf("l", index.Extra(nil).List(2).Text("image").Int(-1), 2)}, "salt"},
		{"a text in a block with a parent", wire.Stored{Parent: parent, Tokens: []uint32{1}, BlockSize: 1, ExtraKeys: [][]any{{"image"}}},
			[]index.Chunk{chunkOf("", index.Extra(nil).Text("image"), 1)}, ""},
		{"a text beside a salt of its own", wire.Stored{Tokens: []uint32{1}, BlockSize: 1, CacheSalt: "salt", ExtraKeys: [][]any{{"image"}}},
			[]index.Chunk{chunkOf("", index.Extra(nil).Text("image"), 1)}, "salt"},
		{"prompt embeddings after the salt", wire.Stored{Tokens: []uint32{1}, BlockSize: 1, ExtraKeys: [][]any{{"salt", []byte("embeds")}}},
			[]index.Chunk{chunkOf("", index.Extra(nil).Bytes([]byte("embeds")), 1)}, "salt"},
	}
	for _, c := range cases {
		c.event.Hashes = make([]wire.Hash, len(c.chunks))
		for i := range c.event.Hashes {
			c.event.Hashes[i] = wire.Hash(i + 1)
		}
		for _, d := range []wire.Dialect{wire.VLLMArray, wire.VLLMMap} {
			if c.event.CacheSalt != "" && !d.MapEvent {
				continue // arrays have no place for it
			}
			b := decode(t, index.SchemeTokens, d.Encode(wire.Batch{Events: []wire.Event{c.event}}))
			if b.Untrusted() || len(b.Events) != 1 {
				t.Errorf("%s, %s: %s", c.name, d.Name, told(b))
				continue
			}
			if s := b.Events[0].(*Stored); !slices.Equal(s.Chunks, c.chunks) || s.CacheSalt != c.salt {
				t.Errorf("%s, %s: chunks %x, salt %q; want %x, %q", c.name, d.Name, s.Chunks, s.CacheSalt, c.chunks, c.salt)
			}
		}
	}
}

func TestTokensThatDoNotFitTheirBlocksSkipTheEvent(t *testing.T) {
	deep := any("x")
	for range maxExtraDepth {
		deep = []any{deep}
	}
	cases := []struct {
		name   string
		event  wire.Stored
		reason Skip
	}{
		{"too few tokens", wire.Stored{Hashes: []wire.Hash{1, 2}, Tokens: []uint32{1, 2}, BlockSize: 2}, SkipUndecodable},
		{"too many tokens", wire.Stored{Hashes: []wire.Hash{1}, Tokens: []uint32{1, 2, 3}, BlockSize: 2}, SkipUndecodable},
		{"no block size", wire.Stored{Hashes: []wire.Hash{1}, Tokens: []uint32{1}, BlockSize: 0}, SkipUndecodable},
		{"too few extra keys", wire.Stored{Hashes: []wire.Hash{1, 2}, Tokens: []uint32{1, 2}, BlockSize: 1, ExtraKeys: [][]any{{"a"}}}, SkipUndecodable},
		{"extra keys too deep", wire.Stored{Hashes: []wire.Hash{1}, Tokens: []uint32{1}, BlockSize: 1, ExtraKeys: [][]any{{deep}}}, SkipTooLarge},
		{"extra keys too long", wire.Stored{Hashes: []wire.Hash{1}, Tokens: []uint32{1}, BlockSize: 1, ExtraKeys: [][]any{{make([]byte, maxExtraBytes+1)}}}, SkipTooLarge},
	}
	for _, c := range cases {
		b := decode(t, index.SchemeTokens, wire.VLLMMap.Encode(wire.Batch{Events: []wire.Event{c.event, wire.Cleared{}}}))
		if len(b.Events) != 1 || b.Skips[c.reason] != 1 {
			t.Errorf("%s: %s", c.name, told(b))
		}
	}
}
