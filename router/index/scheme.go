package index

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"
)

// Scheme names how block keys come about. An index holds keys of one scheme only.
type Scheme string

// The schemes.
const (
	// SchemeSGLang takes SGLang's own 64-bit page hashes as keys.
	SchemeSGLang Scheme = "sglang"
	// SchemeVLLM takes the low 64 bits of vLLM's sha256_cbor hashes as keys.
	SchemeVLLM Scheme = "vllm-sha256-cbor"
	// SchemeTokens chains keys of our own over the tokens of each block, whatever the engine's hashes are.
	SchemeTokens Scheme = "tokens"
)

// The functions below are the tokens scheme:
//
//	root  = XXH3-64(seed, length of model as LE32, model, cache salt)
//	chunk = XXH3-64(seed, tokens as LE32, suffix)
//	key   = XXH3-64(parent key as LE64, chunk as LE64)
//
// where the first block's parent key is root. The suffix is empty for a block without LoRA and extra keys, otherwise
// the LoRA name, preceded by its length as LE32, and the block's Extra. Blocks of one index have equally many tokens
// (but the last of a chain), so the bytes hashed tell where the tokens end.

// Seed is the fleet's 64 secret bits. Without it nobody can make prompts whose chunks collide.
type Seed uint64

// ID identifies the seed without telling it. Snapshots carry it: keys under two seeds do not compare.
func (s Seed) ID() string {
	b := binary.LittleEndian.AppendUint64([]byte("routerfleet hash seed\x00"), uint64(s))
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%x", sum[:8])
}

// Chunk is what a block contributes to its key, without what comes before it.
type Chunk uint64

// Chunk hashes one block, given as AppendToken and AppendSuffix have put it together.
func (s Seed) Chunk(block []byte) Chunk { return Chunk(xxh3.HashSeed(block, uint64(s))) }

// RootKey gives the key that the first block of every chain of a model follows. It is no block: in the index that block
// is stored under Root.
func (s Seed) RootKey(model, cacheSalt string) Key {
	b := make([]byte, 0, 64)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(model)))
	b = append(b, model...)
	b = append(b, cacheSalt...)
	return Key(xxh3.HashSeed(b, uint64(s)))
}

// Next gives the key of the block with chunk c behind the block with key k.
func (k Key) Next(c Chunk) Key {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], uint64(k))
	binary.LittleEndian.PutUint64(b[8:], uint64(c))
	return Key(xxh3.Hash(b[:]))
}

// AppendToken adds a token to the bytes of a block.
func AppendToken(block []byte, token uint32) []byte {
	return binary.LittleEndian.AppendUint32(block, token)
}

// AppendSuffix ends the bytes of a block: what beside its tokens the engine tells it apart by.
func AppendSuffix(block []byte, lora string, extra Extra) []byte {
	if lora == "" && len(extra) == 0 {
		return block
	}
	block = binary.LittleEndian.AppendUint32(block, uint32(len(lora)))
	block = append(block, lora...)
	return append(block, extra...)
}

// Extra are the extra keys of a block in a form that is equal for equal keys: each value with its type and length. The
// LoRA name and the cache salt are no part of it, they have places of their own.
type Extra []byte

// Type marks of Extra.
const (
	extraText  = 's'
	extraBytes = 'b'
	extraInt   = 'i'
	extraNil   = 'n'
	extraList  = '('
	extraOther = 'x'
)

// Text adds a string.
func (e Extra) Text(s string) Extra { return append(e.head(extraText, len(s)), s...) }

// TextBytes adds a string that is given as its bytes.
func (e Extra) TextBytes(s []byte) Extra { return append(e.head(extraText, len(s)), s...) }

// Bytes adds a byte string.
func (e Extra) Bytes(b []byte) Extra { return append(e.head(extraBytes, len(b)), b...) }

// Int adds an integer. Unsigned ones beyond int64 go by their bits.
func (e Extra) Int(i int64) Extra {
	return binary.LittleEndian.AppendUint64(append(e, extraInt), uint64(i))
}

// Nil adds the absence of a value.
func (e Extra) Nil() Extra { return append(e, extraNil) }

// List begins a list of n values, which are added next.
func (e Extra) List(n int) Extra { return e.head(extraList, n) }

// Other adds a value of a type that has no form of its own, by its bytes on the wire.
func (e Extra) Other(wire []byte) Extra { return append(e.head(extraOther, len(wire)), wire...) }

func (e Extra) head(mark byte, n int) Extra {
	return binary.LittleEndian.AppendUint32(append(e, mark), uint32(n))
}
