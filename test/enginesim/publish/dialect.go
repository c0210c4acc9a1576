package publish

import (
	"fmt"
	"slices"
	"strings"
)

// Dialect is how an engine writes its events.
type Dialect string

// The dialects. Names say engine, shape of events, and hashes where a choice is.
const (
	SGLangArray  Dialect = "sglang-array"   // events as arrays, hashes as int64
	SGLangMap    Dialect = "sglang-map"     // events as maps, hashes as int64
	VLLMArray    Dialect = "vllm-array"     // events as arrays, hashes of 32 bytes
	VLLMMap      Dialect = "vllm-map"       // events as maps, hashes of 32 bytes
	VLLMMapBatch Dialect = "vllm-map-batch" // the batch a map as well, as one revision of vLLM wrote it
	VLLMInt      Dialect = "vllm-int"       // events as arrays, hashes as uint64 (VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES)
	VLLMIntMap   Dialect = "vllm-int-map"   // events as maps, hashes as uint64
)

// hashForm is how a block hash is written.
type hashForm int

const (
	leadingInt64 hashForm = iota // SGLang: the first eight bytes, signed
	allBytes                     // vLLM: all 32
	trailingUint                 // vLLM on demand: the low 64 bits, unsigned
)

// shape is a dialect taken apart.
type shape struct {
	vllm      bool
	mapBatch  bool
	mapEvents bool
	hashes    hashForm
}

var shapes = map[Dialect]shape{
	SGLangArray:  {hashes: leadingInt64},
	SGLangMap:    {mapEvents: true, hashes: leadingInt64},
	VLLMArray:    {vllm: true, hashes: allBytes},
	VLLMMap:      {vllm: true, mapEvents: true, hashes: allBytes},
	VLLMMapBatch: {vllm: true, mapBatch: true, mapEvents: true, hashes: allBytes},
	VLLMInt:      {vllm: true, hashes: trailingUint},
	VLLMIntMap:   {vllm: true, mapEvents: true, hashes: trailingUint},
}

// Dialects lists all of them, sorted.
func Dialects() []Dialect {
	all := make([]Dialect, 0, len(shapes))
	for d := range shapes {
		all = append(all, d)
	}
	slices.Sort(all)
	return all
}

// IsVLLM tells whose dialect it is.
func (d Dialect) IsVLLM() bool { return shapes[d].vllm }

func (d Dialect) check() error {
	if _, known := shapes[d]; known {
		return nil
	}
	names := make([]string, 0, len(shapes))
	for _, known := range Dialects() {
		names = append(names, string(known))
	}
	return fmt.Errorf("Dialect: %q; the dialects are: %s", d, strings.Join(names, ", "))
}
