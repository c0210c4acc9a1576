package publish

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// HashScheme is how a vLLM engine names blocks. SGLang has one way only.
type HashScheme string

// The schemes.
const (
	// Opaque hashes mean nothing to anybody: other ones on every engine and in
	// every incarnation, as vLLM's are without a fixed PYTHONHASHSEED.
	Opaque HashScheme = "opaque"
	// SHA256CBOR is vLLM's --prefix-caching-hash-algo sha256_cbor with the hash
	// seed as PYTHONHASHSEED.
	SHA256CBOR HashScheme = "sha256_cbor"
)

// namer gives the hashes of a rank's blocks. vLLM's follow from parent and
// tokens, so it remembers those of the blocks that are cached.
type namer struct {
	scheme HashScheme // "" for SGLang: the cache's own keys
	seed   string
	life   int // incarnation, for Opaque
	known  map[cache.Key]hash
}

func newNamer(scheme HashScheme, seed string) *namer {
	return &namer{scheme: scheme, seed: seed, known: map[cache.Key]hash{}}
}

// begin forgets all blocks for a new incarnation.
func (n *namer) begin() {
	n.life++
	clear(n.known)
}

// store names a block and remembers it. parent is nil at the chain's start.
func (n *namer) store(key cache.Key, parent *hash, tokens []uint32, extra []string) hash {
	switch n.scheme {
	case SHA256CBOR:
		h := cborHash(n.seed, parent, tokens, extra)
		n.known[key] = h
		return h
	case Opaque:
		return n.opaque(key)
	default:
		return hash(key)
	}
}

// of names a cached block.
func (n *namer) of(key cache.Key) hash {
	switch n.scheme {
	case SHA256CBOR:
		return n.known[key]
	case Opaque:
		return n.opaque(key)
	default:
		return hash(key)
	}
}

// remove names a block for the last time.
func (n *namer) remove(key cache.Key) hash {
	h := n.of(key)
	delete(n.known, key)
	return h
}

func (n *namer) opaque(key cache.Key) hash {
	return sha256.Sum256(append([]byte("opaque\x00"+n.seed+"\x00"+strconv.Itoa(n.life)+"\x00"), key[:]...))
}

// cborHash is vLLM's hash_block_tokens: SHA-256 over the canonical CBOR of
// (parent hash, tokens, extra keys or null). A chain's first block has the hash
// of the seed for its parent, as init_none_hash makes it.
func cborHash(seed string, parent *hash, tokens []uint32, extra []string) hash {
	if parent == nil {
		none := hash(sha256.Sum256(appendCBORText(nil, seed)))
		parent = &none
	}
	b := make([]byte, 0, 64+5*len(tokens))
	b = append(b, 0x83, 0x58, 0x20)
	b = append(b, parent[:]...)
	b = appendCBORHead(b, 4, uint64(len(tokens)))
	for _, t := range tokens {
		b = appendCBORHead(b, 0, uint64(t))
	}
	if len(extra) == 0 {
		b = append(b, 0xf6)
	} else {
		b = appendCBORHead(b, 4, uint64(len(extra)))
		for _, e := range extra {
			b = appendCBORText(b, e)
		}
	}
	return sha256.Sum256(b)
}

func appendCBORText(b []byte, s string) []byte {
	return append(appendCBORHead(b, 3, uint64(len(s))), s...)
}

// appendCBORHead appends a major type with its argument in the shortest form.
func appendCBORHead(b []byte, major byte, n uint64) []byte {
	major <<= 5
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n < 1<<8:
		return append(b, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	default:
		return binary.BigEndian.AppendUint64(append(b, major|27), n)
	}
}
