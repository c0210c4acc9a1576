package publish

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/routerfleet/routerfleet/test/data/vectors"
	"github.com/routerfleet/routerfleet/test/enginesim"
)

// ofInt64 is a hash of SGLang's.
func ofInt64(i int64) (h hash) {
	binary.BigEndian.PutUint64(h[:], uint64(i))
	return h
}

func equalHex(t *testing.T, name string, got []byte, want string) {
	t.Helper()
	if hex.EncodeToString(got) != want {
		t.Errorf("%s:\n got %x\nwant %s", name, got, want)
	}
}

// The bytes are msgspec's, computed for the description of the wire.
func TestBothDialectsOfSGLangEqualTheDescribedBytes(t *testing.T) {
	b := batch{seconds: 1.5, rank: 0, events: []event{{
		kind: blockStored, hashes: []hash{ofInt64(-3488128144981237669)}, tokens: tokens(1, 4), blockSize: 4, medium: mediumGPU,
	}}}
	equalHex(t, "array", shapes[SGLangArray].encode(b),
		"93cb3ff80000000000009197ab426c6f636b53746f72656491d3cf97adeedb59e05bc0940102030404c0a347505500")
	equalHex(t, "map", shapes[SGLangMap].encode(b),
		"93cb3ff80000000000009187a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391d3cf97adeedb59e05bb1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da347505500")
	b = batch{seconds: 2, rank: 0, events: []event{{kind: allBlocksCleared}}}
	equalHex(t, "cleared", shapes[SGLangMap].encode(b), "93cb40000000000000009181a474797065b0416c6c426c6f636b73436c656172656400")
}

// TestMapEventsEqualWhatSGLangSent encodes what the captured batches say.
func TestMapEventsEqualWhatSGLangSent(t *testing.T) {
	var file struct {
		Vectors []struct {
			Name   string
			Hex    string
			Expect struct {
				TS     float64
				Rank   *int
				Events []struct {
					Type      string
					Hashes    []int64  `json:"block_hashes"`
					Parent    *int64   `json:"parent_block_hash"`
					Tokens    []uint32 `json:"token_ids"`
					BlockSize int      `json:"block_size"`
					LoRA      *int64   `json:"lora_id"`
					Medium    string
				}
			}
		}
	}
	if err := json.Unmarshal(vectors.SGLangEventBatches, &file); err != nil || len(file.Vectors) == 0 {
		t.Fatalf("decode the vectors: %d, %v", len(file.Vectors), err)
	}
	for _, v := range file.Vectors {
		b := batch{seconds: v.Expect.TS, rank: noRank}
		if v.Expect.Rank != nil {
			b.rank = *v.Expect.Rank
		}
		for _, e := range v.Expect.Events {
			one := event{kind: kind(e.Type), tokens: e.Tokens, blockSize: e.BlockSize, loraID: e.LoRA, medium: e.Medium}
			for _, h := range e.Hashes {
				one.hashes = append(one.hashes, ofInt64(h))
			}
			if e.Parent != nil {
				h := ofInt64(*e.Parent)
				one.parent = &h
			}
			b.events = append(b.events, one)
		}
		equalHex(t, v.Name, shapes[SGLangMap].encode(b), v.Hex)
	}
}

// The described bytes again, from an engine's step instead of an event.
func TestAStepOfTheEngineBecomesTheDescribedBytes(t *testing.T) {
	s := newScript(t, Options{Dialect: SGLangArray})
	s.change(chain(1, 1))
	if len(s.messages) != 1 {
		t.Fatalf("%d messages", len(s.messages))
	}
	m := s.messages[0]
	equalHex(t, "payload", m.Payload[10:], "9197ab426c6f636b53746f72656491d3cf97adeedb59e05bc0940102030404c0a347505500") // behind the time
	if ts := m.Payload[:10]; ts[0] != 0x93 || ts[1] != 0xcb {
		t.Errorf("the batch begins with %x", ts)
	}
	if len(m.Parts) != 3 || len(m.Parts[0]) != 0 || hex.EncodeToString(m.Parts[1]) != "0000000000000000" {
		t.Errorf("parts %x", m.Parts)
	}
}

func TestSGLangTellsEachPageAndVLLMEachRun(t *testing.T) {
	for dialect, want := range map[Dialect]int{SGLangArray: 3, SGLangMap: 3, VLLMArray: 1, VLLMMap: 1, VLLMInt: 1} {
		s := newScript(t, Options{Dialect: dialect})
		c := chain(1, 3)
		s.change(c)
		if b := decode(t, dialect, s.messages[0]); len(b.stored) != want || b.hashes != 3 {
			t.Errorf("%s: %d events of %d blocks, want %d of 3", dialect, len(b.stored), b.hashes, want)
		}
		s.change(enginesim.Removed{Keys: c.Keys})
		if b := decode(t, dialect, s.messages[1]); b.removed != 3 {
			t.Errorf("%s: %d removals, want one for each of 3 blocks", dialect, b.removed)
		}
	}
}
