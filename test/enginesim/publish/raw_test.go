package publish

import (
	"testing"

	"github.com/tinylib/msgp/msgp"
)

// said is a batch as somebody reads it who knows MessagePack and the names only.
type said struct {
	stored  []map[string]any
	removed int
	cleared int
	unknown int
	hashes  int // of stored events
}

var positions = map[string][]string{
	"BlockStored": {"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys",
		"group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window"},
	"BlockRemoved": {"block_hashes", "medium", "group_idx"},
}

// decode reads a message of a dialect; it is no fault of a test when it cannot.
func decode(t *testing.T, d Dialect, m Message) said {
	t.Helper()
	value, left, err := msgp.ReadIntfBytes(m.Payload)
	if err != nil || len(left) > 0 {
		t.Fatalf("seq %d: %d bytes are left, %v", m.Seq, len(left), err)
	}
	var events []any
	if shapes[d].mapBatch {
		events = value.(map[string]any)["events"].([]any)
	} else {
		events = value.([]any)[1].([]any)
	}
	var b said
	for _, e := range events {
		b.add(named(e))
	}
	return b
}

// named makes an event in either form a map with its tag as "type".
func named(e any) map[string]any {
	if m, ok := e.(map[string]any); ok {
		return m
	}
	list := e.([]any)
	m := map[string]any{"type": list[0]}
	for i, name := range positions[list[0].(string)] {
		if i+1 < len(list) {
			m[name] = list[i+1]
		}
	}
	return m
}

func (b *said) add(e map[string]any) {
	switch e["type"] {
	case "BlockStored":
		b.stored = append(b.stored, e)
		b.hashes += len(e["block_hashes"].([]any))
	case "BlockRemoved":
		b.removed += len(e["block_hashes"].([]any))
	case "AllBlocksCleared":
		b.cleared++
	default:
		b.unknown++
	}
}

func TestIntegersAreWrittenAsShortAsMsgspecWritesThem(t *testing.T) {
	for value, want := range map[int64]string{
		0: "00", 127: "7f", 128: "cc80", 255: "ccff", 256: "cd0100", 65535: "cdffff", 65536: "ce00010000", 1<<32 - 1: "ceffffffff",
		1 << 32: "cf0000000100000000", -1: "ff", -32: "e0", -33: "d0df", -128: "d080", -129: "d1ff7f", -32768: "d18000", -32769: "d2ffff7fff",
		-1 << 31: "d280000000", -1<<31 - 1: "d3ffffffff7fffffff",
	} {
		equalHex(t, "integer", appendInt(nil, value), want)
	}
}

func TestLengthsAreReadBack(t *testing.T) {
	for _, n := range []int{0, 15, 16, 31, 32, 255, 256, 65535, 65536} {
		text := make([]byte, n)
		if got, left, err := msgp.ReadStringBytes(appendText(nil, string(text))); err != nil || len(got) != n || len(left) != 0 {
			t.Errorf("text of %d: %d, %v", n, len(got), err)
		}
		if got, left, err := msgp.ReadBytesZC(appendBytes(nil, text)); err != nil || len(got) != n || len(left) != 0 {
			t.Errorf("bytes of %d: %d, %v", n, len(got), err)
		}
		if got, left, err := msgp.ReadArrayHeaderBytes(appendArray(nil, n)); err != nil || int(got) != n || len(left) != 0 {
			t.Errorf("array of %d: %d, %v", n, got, err)
		}
		if got, left, err := msgp.ReadMapHeaderBytes(appendMap(nil, n)); err != nil || int(got) != n || len(left) != 0 {
			t.Errorf("map of %d: %d, %v", n, got, err)
		}
	}
}
