package tokens

import (
	"errors"
	"fmt"

	"github.com/routerfleet/routerfleet/router/index"
)

// Those of package index, for rooms that make keys and ask no index.
type (
	// Key is a block's.
	Key = index.Key
	// Seed is the fleet's secret of the tokens scheme.
	Seed = index.Seed
	// Scheme is how an index's keys come about.
	Scheme = index.Scheme
	// Chunk is what of a block is its own, apart from its parent.
	Chunk = index.Chunk
)

// SchemeSGLang is SGLang's own chain.
const SchemeSGLang = index.SchemeSGLang

// Context is what of a request beside its tokens goes into block keys.
type Context struct {
	CacheSalt string
	// LoRA names the adapter, empty without one.
	LoRA string
}

// Keyer computes block keys. It is not for use by several goroutines.
type Keyer interface {
	// Append adds the keys of the request's blocks to dst, first block first. The error is ErrNoKeys if the scheme cannot
	// know them.
	Append(dst []index.Key, tokens []uint32, c Context) ([]index.Key, error)
}

// ErrNoKeys says that the engine's hash of this request contains something the scheme does not: it scores no cache.
var ErrNoKeys = errors.New("tokens: the request's block keys cannot be known")

// Options say how the engines of an index hash.
type Options struct {
	Scheme    index.Scheme
	BlockSize int  // tokens a block, or pairs of tokens with Bigram
	Bigram    bool // EAGLE's pairs; schemes sglang and tokens

	HashSeed string     // vLLM's PYTHONHASHSEED; scheme vllm-sha256-cbor
	Model    string     // scheme tokens
	Seed     index.Seed // scheme tokens
}

// NewKeyer gives the keyer of a scheme.
func NewKeyer(o Options) (Keyer, error) {
	if o.BlockSize < 1 || o.BlockSize > maxBlockSize {
		return nil, fmt.Errorf("tokens: a block size of %d: it must be within 1..%d", o.BlockSize, maxBlockSize)
	}
	switch o.Scheme {
	case index.SchemeSGLang:
		return &sglang{size: o.BlockSize, bigram: o.Bigram}, nil
	case index.SchemeVLLM:
		if o.Bigram {
			return nil, errors.New("tokens: scheme vllm-sha256-cbor has no bigrams")
		}
		return newVLLM(o.BlockSize, o.HashSeed), nil
	case index.SchemeTokens:
		return &chunked{size: o.BlockSize, bigram: o.Bigram, model: o.Model, seed: o.Seed}, nil
	}
	return nil, fmt.Errorf("tokens: hash scheme %q is none of sglang, vllm-sha256-cbor, tokens", o.Scheme)
}

// maxBlockSize bounds the tokens of a block, and with it a keyer's buffer.
const maxBlockSize = 65_536

// units is how many units of a block tokens are: tokens, or pairs of neighbours.
func units(tokens []uint32, bigram bool) int {
	if bigram {
		return max(0, len(tokens)-1)
	}
	return len(tokens)
}

// appendUnits adds the units [from, to) of tokens as LE32: each token, or each with its successor.
func appendUnits(b []byte, tokens []uint32, from, to int, bigram bool) []byte {
	for j := from; j < to; j++ {
		b = index.AppendToken(b, tokens[j])
		if bigram {
			b = index.AppendToken(b, tokens[j+1])
		}
	}
	return b
}
