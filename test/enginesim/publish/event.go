package publish

import "encoding/binary"

// hash names a block; a dialect writes all or part of it.
type hash [32]byte

// kind is what an event says; it is the tag on the wire.
type kind string

const (
	blockStored      kind = "BlockStored"
	blockRemoved     kind = "BlockRemoved"
	allBlocksCleared kind = "AllBlocksCleared"
	blockDreamt      kind = "BlockDreamt" // nobody knows it
)

// mediumGPU is where the double's blocks are.
const mediumGPU = "GPU"

// event is one event before it is written. Zero fields have the engine's default.
type event struct {
	kind      kind
	hashes    []hash
	parent    *hash
	tokens    []uint32
	pairs     bool // tokens[i] and tokens[i+1] are written as one pair
	blockSize int
	loraID    *int64
	lora      string
	medium    string
	extra     [][]string // one entry a block, nil for a block without
	group     *group
	odd       bool // has a field nobody knows
}

// group is a KV cache group of a hybrid model.
type group struct {
	index  int
	kind   string
	window int // tokens; 0 without
}

// batch is what one message says.
type batch struct {
	seconds float64 // engine time since the Unix epoch
	events  []event
	rank    int // or noRank
}

// noRank writes nil for the rank.
const noRank = -1

// encode writes a batch as the dialect does.
func (d shape) encode(b batch) []byte {
	size := 64
	for i := range b.events {
		size += 128 + 34*len(b.events[i].hashes) + 5*len(b.events[i].tokens)
	}
	w := make([]byte, 0, size)
	if d.mapBatch {
		w = appendText(appendMap(w, 3), "ts")
	} else {
		w = appendArray(w, 3)
	}
	w = appendFloat(w, b.seconds)
	if d.mapBatch {
		w = appendText(w, "events")
	}
	w = appendArray(w, len(b.events))
	for i := range b.events {
		w = d.appendEvent(w, &b.events[i])
	}
	if d.mapBatch {
		w = appendText(w, "data_parallel_rank")
	}
	if b.rank == noRank {
		return appendNil(w)
	}
	return appendInt(w, int64(b.rank))
}

// field is one member of an event. An absent one is left out of a map, and out of
// an array's tail.
type field struct {
	name   string
	absent bool
	write  func([]byte) []byte
}

func (d shape) appendEvent(w []byte, e *event) []byte {
	fields := d.fields(e)
	if d.mapEvents {
		present := 0
		for _, f := range fields {
			if !f.absent {
				present++
			}
		}
		w = appendText(appendText(appendMap(w, 1+present), "type"), string(e.kind))
		for _, f := range fields {
			if !f.absent {
				w = f.write(appendText(w, f.name))
			}
		}
		return w
	}
	for len(fields) > 0 && fields[len(fields)-1].absent {
		fields = fields[:len(fields)-1]
	}
	w = appendText(appendArray(w, 1+len(fields)), string(e.kind))
	for _, f := range fields {
		w = f.write(w)
	}
	return w
}

// fields are an event's members in the engine's order.
func (d shape) fields(e *event) []field {
	medium := field{"medium", e.medium == "" && !d.vllm, func(w []byte) []byte { return appendOptionalText(w, e.medium) }}
	hashes := field{"block_hashes", false, func(w []byte) []byte { return d.appendHashes(w, e.hashes) }}
	groupIndex := field{"group_idx", e.group == nil, e.appendGroupIndex}
	odd := field{"metadata", !e.odd, func(w []byte) []byte {
		return appendArray(appendText(appendText(appendText(appendMap(w, 2), "origin"), "nobody knows"), "list"), 0)
	}}
	switch e.kind {
	case allBlocksCleared:
		return nil
	case blockDreamt:
		return []field{hashes, medium}
	case blockRemoved:
		if d.mapEvents {
			return []field{hashes, medium, groupIndex, odd}
		}
		return []field{hashes, medium, groupIndex}
	}
	stored := []field{
		hashes,
		{"parent_block_hash", false, func(w []byte) []byte {
			if e.parent == nil {
				return appendNil(w)
			}
			return d.appendHash(w, *e.parent)
		}},
		{"token_ids", false, e.appendTokens},
		{"block_size", false, func(w []byte) []byte { return appendInt(w, int64(e.blockSize)) }},
		{"lora_id", false, func(w []byte) []byte {
			if e.loraID == nil {
				return appendNil(w)
			}
			return appendInt(w, *e.loraID)
		}},
		medium,
	}
	if e.odd && !d.mapEvents {
		return append(stored, odd) // some SGLang revisions had metadata of their own in this place
	}
	return append(stored,
		field{"lora_name", e.lora == "" && !d.vllm, func(w []byte) []byte { return appendOptionalText(w, e.lora) }},
		field{"extra_keys", e.extra == nil, e.appendExtra},
		groupIndex,
		field{"kv_cache_spec_kind", e.group == nil, e.appendGroupKind},
		field{"kv_cache_spec_sliding_window", e.group == nil || e.group.window == 0, e.appendGroupWindow},
		odd)
}

func appendOptionalText(w []byte, s string) []byte {
	if s == "" {
		return appendNil(w)
	}
	return appendText(w, s)
}

func (d shape) appendHashes(w []byte, hashes []hash) []byte {
	w = appendArray(w, len(hashes))
	for i := range hashes {
		w = d.appendHash(w, hashes[i])
	}
	return w
}

func (d shape) appendHash(w []byte, h hash) []byte {
	switch d.hashes {
	case leadingInt64:
		return appendInt(w, int64(binary.BigEndian.Uint64(h[:8])))
	case trailingUint:
		return appendUint(w, binary.BigEndian.Uint64(h[24:]))
	default:
		return appendBytes(w, h[:])
	}
}

func (e *event) appendTokens(w []byte) []byte {
	if !e.pairs {
		w = appendArray(w, len(e.tokens))
		for _, t := range e.tokens {
			w = appendUint(w, uint64(t))
		}
		return w
	}
	pairs := max(0, len(e.tokens)-1)
	w = appendArray(w, pairs)
	for i := range pairs {
		w = appendUint(appendUint(appendArray(w, 2), uint64(e.tokens[i])), uint64(e.tokens[i+1]))
	}
	return w
}

func (e *event) appendExtra(w []byte) []byte {
	if e.extra == nil {
		return appendNil(w)
	}
	w = appendArray(w, len(e.extra))
	for _, keys := range e.extra {
		if len(keys) == 0 {
			w = appendNil(w)
			continue
		}
		w = appendArray(w, len(keys))
		for _, key := range keys {
			w = appendText(w, key)
		}
	}
	return w
}

func (e *event) appendGroupIndex(w []byte) []byte {
	if e.group == nil {
		return appendNil(w)
	}
	return appendInt(w, int64(e.group.index))
}

func (e *event) appendGroupKind(w []byte) []byte {
	if e.group == nil {
		return appendNil(w)
	}
	return appendText(w, e.group.kind)
}

func (e *event) appendGroupWindow(w []byte) []byte {
	if e.group == nil || e.group.window == 0 {
		return appendNil(w)
	}
	return appendInt(w, int64(e.group.window))
}
