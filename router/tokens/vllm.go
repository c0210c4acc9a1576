package tokens

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/routerfleet/routerfleet/router/index"
)

// vllm is vLLM's sha256_cbor: hash = SHA-256(CBOR([parent hash, [tokens...], extra keys or null])), canonical CBOR; the
// first block's parent is SHA-256(CBOR(seed)) with the text of PYTHONHASHSEED. The key is the low 64 bits. Only full blocks
// have a hash.
type vllm struct {
	size int
	none [sha256.Size]byte
	buf  []byte
}

func newVLLM(size int, seed string) *vllm {
	return &vllm{size: size, none: sha256.Sum256(cborText(nil, seed))}
}

// Append follows vLLM's extra keys of a text request: the adapter's name in every block, the salt in the first.
func (v *vllm) Append(dst []index.Key, tokens []uint32, c Context) ([]index.Key, error) {
	parent := v.none
	for from := 0; from+v.size <= len(tokens); from += v.size {
		b := append(v.buf[:0], cborArray|3)
		b = append(cborHead(b, cborBytes, sha256.Size), parent[:]...)
		b = cborHead(b, cborArray, uint64(v.size))
		for _, t := range tokens[from : from+v.size] {
			b = cborHead(b, cborUint, uint64(t))
		}
		b = cborExtra(b, c, from == 0)
		v.buf = b
		parent = sha256.Sum256(b)
		dst = append(dst, index.Key(binary.BigEndian.Uint64(parent[sha256.Size-8:])))
	}
	return dst, nil
}

// The major types of CBOR (RFC 8949) that are needed, and null.
const (
	cborUint   = 0 << 5
	cborBytes  = 2 << 5
	cborString = 3 << 5
	cborArray  = 4 << 5
	cborNull   = 0xf6
)

func cborExtra(b []byte, c Context, first bool) []byte {
	salted := first && c.CacheSalt != ""
	switch {
	case c.LoRA != "" && salted:
		return cborText(cborText(append(b, cborArray|2), c.LoRA), c.CacheSalt)
	case c.LoRA != "":
		return cborText(append(b, cborArray|1), c.LoRA)
	case salted:
		return cborText(append(b, cborArray|1), c.CacheSalt)
	}
	return append(b, cborNull)
}

func cborText(b []byte, s string) []byte {
	return append(cborHead(b, cborString, uint64(len(s))), s...)
}

// cborHead writes a major type with its argument in the shortest form, as canonical CBOR wants.
func cborHead(b []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n < 1<<8:
		return append(b, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), n)
}
