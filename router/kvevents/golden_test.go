package kvevents

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
	"github.com/routerfleet/routerfleet/test/data/vectors"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// golden is a batch as SGLang's encoder wrote it.
type golden struct {
	Name   string `json:"name"`
	Hex    string `json:"hex"`
	Expect struct {
		TS     float64 `json:"ts"`
		Rank   *int    `json:"rank"`
		Events []struct {
			Type      string   `json:"type"`
			Hashes    []int64  `json:"block_hashes"`
			Parent    *int64   `json:"parent_block_hash"`
			Tokens    []uint32 `json:"token_ids"`
			BlockSize int      `json:"block_size"`
			LoRAID    *int     `json:"lora_id"`
			Medium    string   `json:"medium"`
		} `json:"events"`
	} `json:"expect"`
}

func goldens(t *testing.T) []golden {
	t.Helper()
	var file struct {
		Vectors []golden `json:"vectors"`
	}
	if err := json.Unmarshal(vectors.SGLangEventBatches, &file); err != nil || len(file.Vectors) == 0 {
		t.Fatalf("%d vectors, %v", len(file.Vectors), err)
	}
	return file.Vectors
}

func TestBatchesOfSGLangDecode(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.Name, func(t *testing.T) {
			b := NewDecoder(DecoderOptions{Scheme: index.SchemeSGLang}).Decode(3, unhex(t, g.Hex))
			defer b.Release()
			rank := NoRank
			if g.Expect.Rank != nil {
				rank = int32(*g.Expect.Rank)
			}
			if b.Seq != 3 || b.Rank != rank || b.Time != Stamp(math.Round(g.Expect.TS*1e9)) || b.Untrusted() || len(b.Events) != len(g.Expect.Events) {
				t.Fatalf("got seq %d, rank %d, time %d, skips %v, %d events; want %+v", b.Seq, b.Rank, b.Time, b.Skips, len(b.Events), g.Expect)
			}
			for i, want := range g.Expect.Events {
				hashes := make([]Hash, len(want.Hashes))
				for j, h := range want.Hashes {
					hashes[j] = Hash(h)
				}
				switch e := b.Events[i].(type) {
				case *Stored:
					lora := ""
					if want.LoRAID != nil {
						lora = "#7"
					}
					if want.Type != "BlockStored" || !slices.Equal(e.Hashes, hashes) || e.HasParent != (want.Parent != nil) ||
						e.BlockSize != int32(want.BlockSize) || e.LoRA != lora || e.Tokens != len(want.Tokens) || e.Form != IntegerForm || e.Group != NoGroup {
						t.Errorf("got %+v, want %+v", e, want)
					}
					if want.Parent != nil && e.Parent != Hash(*want.Parent) {
						t.Errorf("parent %d, want %d", e.Parent, *want.Parent)
					}
					if want.Medium == "" && e.Medium != MediumUntagged || want.Medium == "GPU" && e.Medium != MediumGPU {
						t.Errorf("medium %s, want %q", e.Medium, want.Medium)
					}
				case *Removed:
					if want.Type != "BlockRemoved" || !slices.Equal(e.Hashes, hashes) || e.Medium.String() != want.Medium {
						t.Errorf("got %+v, want %+v", e, want)
					}
				default:
					t.Errorf("got a %T, want %+v", e, want)
				}
			}
		})
	}
}

func TestTheEncoderWritesWhatSGLangWrites(t *testing.T) {
	for _, g := range goldens(t) {
		batch := wire.Batch{TS: g.Expect.TS, Rank: g.Expect.Rank}
		for _, e := range g.Expect.Events {
			hashes := make([]wire.Hash, len(e.Hashes))
			for j, h := range e.Hashes {
				hashes[j] = wire.Hash(h)
			}
			if e.Type == "BlockRemoved" {
				batch.Events = append(batch.Events, wire.Removed{Hashes: hashes, Medium: e.Medium})
				continue
			}
			s := wire.Stored{Hashes: hashes, Tokens: e.Tokens, BlockSize: e.BlockSize, LoRAID: e.LoRAID, Medium: e.Medium}
			if e.Parent != nil {
				p := wire.Hash(*e.Parent)
				s.Parent = &p
			}
			batch.Events = append(batch.Events, s)
		}
		if got := hex.EncodeToString(wire.SGLangMap.Encode(batch)); got != g.Hex {
			t.Errorf("%s: encoded\n%s, want\n%s", g.Name, got, g.Hex)
		}
	}
}

// The byte vectors of the wire description: one event in both dialects, and a clear.
func TestTheDescribedBytesDecodeAndEncode(t *testing.T) {
	rank := 0
	stored := wire.Batch{TS: 1.5, Rank: &rank, Events: []wire.Event{
		wire.Stored{Hashes: []wire.Hash{hashBits(-3488128144981237669)}, Tokens: []uint32{1, 2, 3, 4}, BlockSize: 4, Medium: "GPU"},
	}}
	for _, c := range []struct {
		dialect wire.Dialect
		batch   wire.Batch
		hex     string
		bytes   int
	}{
		{wire.SGLangArray, stored, "93cb3ff80000000000009197ab426c6f636b53746f72656491d3cf97adeedb59e05bc0940102030404c0a347505500", 47},
		{wire.SGLangMap, stored, "93cb3ff80000000000009187a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391d3cf97adeedb59e05bb1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da347505500", 119},
		{wire.SGLangMap, wire.Batch{TS: 2, Rank: &rank, Events: []wire.Event{wire.Cleared{}}}, "93cb40000000000000009181a474797065b0416c6c426c6f636b73436c656172656400", 35},
	} {
		payload := unhex(t, c.hex)
		if len(payload) != c.bytes {
			t.Fatalf("a vector of %d bytes, want %d", len(payload), c.bytes)
		}
		if got := hex.EncodeToString(c.dialect.Encode(c.batch)); got != c.hex {
			t.Errorf("%s: encoded %s, want %s", c.dialect.Name, got, c.hex)
		}
		b := NewDecoder(DecoderOptions{Scheme: index.SchemeSGLang}).Decode(0, payload)
		if b.Untrusted() || b.Rank != 0 || len(b.Events) != 1 || b.Time != Stamp(c.batch.TS*1e9) {
			t.Fatalf("%s: got %+v", c.dialect.Name, b)
		}
		switch e := b.Events[0].(type) {
		case *Stored:
			if int64(e.Hashes[0]) != -3488128144981237669 || e.HasParent || e.Medium != MediumGPU || e.BlockSize != 4 || e.Tokens != 4 {
				t.Errorf("%s: got %+v", c.dialect.Name, e)
			}
		case *Cleared:
		default:
			t.Errorf("%s: got a %T", c.dialect.Name, e)
		}
		b.Release()
	}
	if got := hex.EncodeToString(wire.SeqFrame(7)); got != "0000000000000007" {
		t.Errorf("seq 7 is %s", got)
	}
	if got := hex.EncodeToString(wire.EndSeqFrame()); got != "ffffffffffffffff" {
		t.Errorf("END_SEQ is %s", got)
	}
}

func hashBits(i int64) wire.Hash { return wire.Hash(i) }

// A block a real vLLM announced, in every dialect a vLLM has had: one model comes out.
func TestTheCaptureOfVLLMDecodesInEveryDialect(t *testing.T) {
	var capture struct {
		Hashes    []uint64 `json:"block_hashes"`
		Tokens    []uint32 `json:"token_ids"`
		BlockSize int      `json:"block_size"`
		Medium    string   `json:"medium"`
	}
	if err := json.Unmarshal(vectors.VLLMBlockStored, &capture); err != nil || len(capture.Hashes) != 25 {
		t.Fatalf("%d hashes, %v", len(capture.Hashes), err)
	}
	const seed = index.Seed(0x5eed)
	var want []index.Chunk
	for i := range capture.Hashes {
		var block []byte
		for _, token := range capture.Tokens[i*capture.BlockSize : (i+1)*capture.BlockSize] {
			block = index.AppendToken(block, token)
		}
		want = append(want, seed.Chunk(block))
	}
	batch := wire.Batch{TS: 1.7e9, Events: []wire.Event{
		wire.Stored{Hashes: capture.Hashes, Tokens: capture.Tokens, BlockSize: capture.BlockSize, Medium: capture.Medium},
	}}
	for _, dialect := range wire.Dialects {
		for _, nulls := range []bool{false, true} {
			dialect.Nulls = nulls
			b := NewDecoder(DecoderOptions{Scheme: index.SchemeTokens, Seed: seed}).Decode(0, dialect.Encode(batch))
			if b.Untrusted() || len(b.Events) != 1 {
				t.Fatalf("%s: %d events, skips %v", dialect.Name, len(b.Events), b.Skips)
			}
			s := b.Events[0].(*Stored)
			for i, h := range s.Hashes {
				if uint64(h) != capture.Hashes[i] {
					t.Errorf("%s: hash %d is %d, want %d", dialect.Name, i, h, capture.Hashes[i])
				}
			}
			if !slices.Equal(s.Chunks, want) {
				t.Errorf("%s: chunks %x, want %x", dialect.Name, s.Chunks, want)
			}
			if bytes := dialect.Hashes == wire.Bytes32; (s.Form == BytesForm) != bytes {
				t.Errorf("%s: form %d", dialect.Name, s.Form)
			}
			b.Release()
		}
	}
}
