package kveventstest

import (
	"encoding/binary"
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// HashForm is how block hashes stand on the wire.
type HashForm int

// The forms.
const (
	Int64   HashForm = iota // SGLang
	Uint64                  // vLLM with VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES
	Bytes32                 // vLLM; the hash's last eight bytes are those of a Hash
)

// Dialect is how an engine encodes batches.
type Dialect struct {
	Name     string
	MapBatch bool // the batch is a map, not an array
	MapEvent bool // events are maps, not arrays
	RankKey  string
	Hashes   HashForm
	// Nulls writes fields at their default as null where msgspec would omit them.
	Nulls bool
}

// The dialects engines have spoken.
var (
	SGLangArray   = Dialect{Name: "sglang-array", RankKey: "attn_dp_rank", Hashes: Int64}
	SGLangMap     = Dialect{Name: "sglang-map", MapEvent: true, RankKey: "attn_dp_rank", Hashes: Int64}
	VLLMArray     = Dialect{Name: "vllm-array", RankKey: "data_parallel_rank", Hashes: Bytes32}
	VLLMArrayInts = Dialect{Name: "vllm-array-ints", RankKey: "data_parallel_rank", Hashes: Uint64}
	VLLMMap       = Dialect{Name: "vllm-map", MapEvent: true, RankKey: "data_parallel_rank", Hashes: Bytes32}
	VLLMMapInts   = Dialect{Name: "vllm-map-ints", MapEvent: true, RankKey: "data_parallel_rank", Hashes: Uint64}
	VLLMMapMap    = Dialect{Name: "vllm-map-map", MapBatch: true, MapEvent: true, RankKey: "data_parallel_rank", Hashes: Bytes32}
)

// Dialects are all of them.
var Dialects = []Dialect{SGLangArray, SGLangMap, VLLMArray, VLLMArrayInts, VLLMMap, VLLMMapInts, VLLMMapMap}

// Hash is a block hash. Byte forms are given as their last eight bytes.
type Hash = uint64

// Batch is what an engine publishes in one message.
type Batch struct {
	TS     float64 // seconds since the Unix epoch
	Rank   *int
	Events []Event
}

// Event is Stored, Removed, Cleared or Raw.
type Event interface {
	encode(b []byte, d Dialect) []byte
}

// Stored announces blocks.
type Stored struct {
	Hashes    []Hash
	Parent    *Hash
	Tokens    []uint32
	Pairs     bool // tokens as [t, next] pairs, one fewer than tokens: EAGLE's bigrams
	BlockSize int
	LoRAID    *int
	Medium    string // empty is absent
	LoRAName  string
	CacheSalt string  // maps only
	ExtraKeys [][]any // an entry a block; elements are nil, string, []byte, int or []any
	Group     *int
	GroupKind string
	Window    *int
	Locality  string
}

// Removed takes blocks back.
type Removed struct {
	Hashes []Hash
	Medium string
	Group  *int
}

// Cleared takes everything back.
type Cleared struct{}

// Raw is an event as its bytes: for what no engine should send.
type Raw []byte

// Encode gives the payload of a batch.
func (d Dialect) Encode(b Batch) []byte {
	var out []byte
	if d.MapBatch {
		n := uint32(2)
		if b.Rank != nil {
			n++
		}
		out = msgp.AppendString(msgp.AppendMapHeader(out, n), "ts")
	} else {
		out = msgp.AppendArrayHeader(out, 3)
	}
	out = msgp.AppendFloat64(out, b.TS)
	if d.MapBatch {
		out = msgp.AppendString(out, "events")
	}
	out = msgp.AppendArrayHeader(out, uint32(len(b.Events)))
	for _, e := range b.Events {
		out = e.encode(out, d)
	}
	switch {
	case d.MapBatch && b.Rank == nil:
		return out
	case d.MapBatch:
		out = msgp.AppendString(out, d.RankKey)
	}
	return appendOptional(out, b.Rank)
}

// SeqFrame gives the frame of a sequence number.
func SeqFrame(seq int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(seq)) }

// EndSeqFrame ends a replay.
func EndSeqFrame() []byte { return SeqFrame(-1) }

// value is one field of an event: its name, its bytes, and whether it is at its default.
type value struct {
	name  string
	bytes []byte
	unset bool // at its default: omitted in maps, and at the end of arrays
}

func (s Stored) encode(b []byte, d Dialect) []byte {
	values := []value{
		{"block_hashes", d.appendHashes(nil, s.Hashes), false},
		{"parent_block_hash", d.appendParent(s.Parent), false},
		{"token_ids", s.appendTokens(nil), false},
		{"block_size", appendInt(nil, s.BlockSize), false},
		{"lora_id", appendOptional(nil, s.LoRAID), false},
		{"medium", appendText(s.Medium), s.Medium == ""},
		{"lora_name", appendText(s.LoRAName), s.LoRAName == ""},
		{"extra_keys", s.appendExtra(), s.ExtraKeys == nil},
		{"group_idx", appendOptional(nil, s.Group), s.Group == nil},
		{"kv_cache_spec_kind", appendText(s.GroupKind), s.GroupKind == ""},
		{"kv_cache_spec_sliding_window", appendOptional(nil, s.Window), s.Window == nil},
		{"locality", appendText(s.Locality), s.Locality == ""},
	}
	if d.MapEvent {
		values = append(values, value{"cache_salt", appendText(s.CacheSalt), s.CacheSalt == ""})
	}
	return d.appendEvent(b, "BlockStored", values)
}

func (r Removed) encode(b []byte, d Dialect) []byte {
	return d.appendEvent(b, "BlockRemoved", []value{
		{"block_hashes", d.appendHashes(nil, r.Hashes), false},
		{"medium", appendText(r.Medium), r.Medium == ""},
		{"group_idx", appendOptional(nil, r.Group), r.Group == nil},
	})
}

func (Cleared) encode(b []byte, d Dialect) []byte { return d.appendEvent(b, "AllBlocksCleared", nil) }

func (r Raw) encode(b []byte, _ Dialect) []byte { return append(b, r...) }

// appendEvent writes an event as msgspec does: defaults are omitted, in an array only at its end.
func (d Dialect) appendEvent(b []byte, tag string, values []value) []byte {
	if d.MapEvent {
		n := 1
		for _, v := range values {
			if d.Nulls || !v.unset {
				n++
			}
		}
		b = msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(b, uint32(n)), "type"), tag)
		for _, v := range values {
			if d.Nulls || !v.unset {
				b = append(msgp.AppendString(b, v.name), v.bytes...)
			}
		}
		return b
	}
	for !d.Nulls && len(values) > 0 && values[len(values)-1].unset {
		values = values[:len(values)-1]
	}
	b = msgp.AppendString(msgp.AppendArrayHeader(b, uint32(1+len(values))), tag)
	for _, v := range values {
		b = append(b, v.bytes...)
	}
	return b
}

func (d Dialect) appendHashes(b []byte, hashes []Hash) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(hashes)))
	for _, h := range hashes {
		b = d.appendHash(b, h)
	}
	return b
}

func (d Dialect) appendHash(b []byte, h Hash) []byte {
	switch d.Hashes {
	case Int64:
		if i := int64(h); i < 0 {
			return msgp.AppendInt64(b, i)
		}
		return msgp.AppendUint64(b, h)
	case Uint64:
		return msgp.AppendUint64(b, h)
	case Bytes32:
		// The bytes before the last eight are some function of them: a hash has no zeros to spare.
		var whole [32]byte
		for i := range 3 {
			binary.BigEndian.PutUint64(whole[8*i:], h*0x9e3779b97f4a7c15+uint64(i))
		}
		binary.BigEndian.PutUint64(whole[24:], h)
		return msgp.AppendBytes(b, whole[:])
	}
	panic(fmt.Sprintf("kveventstest: hash form %d", d.Hashes))
}

func (d Dialect) appendParent(p *Hash) []byte {
	if p == nil {
		return msgp.AppendNil(nil)
	}
	return d.appendHash(nil, *p)
}

func (s Stored) appendTokens(b []byte) []byte {
	if !s.Pairs {
		b = msgp.AppendArrayHeader(b, uint32(len(s.Tokens)))
		for _, t := range s.Tokens {
			b = msgp.AppendUint64(b, uint64(t))
		}
		return b
	}
	n := max(0, len(s.Tokens)-1)
	b = msgp.AppendArrayHeader(b, uint32(n))
	for i := range n {
		b = msgp.AppendArrayHeader(b, 2)
		b = msgp.AppendUint64(b, uint64(s.Tokens[i]))
		b = msgp.AppendUint64(b, uint64(s.Tokens[i+1]))
	}
	return b
}

func (s Stored) appendExtra() []byte {
	if s.ExtraKeys == nil {
		return msgp.AppendNil(nil)
	}
	b := msgp.AppendArrayHeader(nil, uint32(len(s.ExtraKeys)))
	for _, entry := range s.ExtraKeys {
		if entry == nil {
			b = msgp.AppendNil(b)
			continue
		}
		b = appendAny(b, entry)
	}
	return b
}

func appendAny(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return msgp.AppendNil(b)
	case string:
		return msgp.AppendString(b, v)
	case []byte:
		return msgp.AppendBytes(b, v)
	case int:
		return appendInt(b, v)
	case []any:
		b = msgp.AppendArrayHeader(b, uint32(len(v)))
		for _, e := range v {
			b = appendAny(b, e)
		}
		return b
	}
	panic(fmt.Sprintf("kveventstest: an extra key of type %T", v))
}

func appendText(s string) []byte {
	if s == "" {
		return msgp.AppendNil(nil)
	}
	return msgp.AppendString(nil, s)
}

func appendOptional(b []byte, v *int) []byte {
	if v == nil {
		return msgp.AppendNil(b)
	}
	return appendInt(b, *v)
}

// appendInt writes an integer in its shortest form, unsigned if it can be, as msgspec does.
func appendInt(b []byte, v int) []byte {
	if v < 0 {
		return msgp.AppendInt64(b, int64(v))
	}
	return msgp.AppendUint64(b, uint64(v))
}
