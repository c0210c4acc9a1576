package cache

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key names a block by its own tokens and all before it: the SHA-256 chain that
// SGLang computes, digest(i) = SHA256(digest(i-1) || page tokens as LE32), where
// the first block has no prior digest.
type Key [sha256.Size]byte

// saltLabel separates salted chains from plain ones; the constant is SGLang's.
const saltLabel = "sglang-cache-salt-v1\x00"

// Int64 is the form SGLang puts on the wire: the first eight bytes, big-endian.
func (k Key) Int64() int64 { return int64(binary.BigEndian.Uint64(k[:8])) }

// Root returns the digest a salted chain starts from. An empty salt has none:
// salt "" and no salt are the same chain.
func Root(salt string) *Key {
	if salt == "" {
		return nil
	}
	k := Key(sha256.Sum256([]byte(saltLabel + salt)))
	return &k
}

// Next returns the key of the block that holds page behind parent; nil parent is
// the chain's start.
func Next(parent *Key, page []uint32) Key {
	buf := make([]byte, 0, sha256.Size+4*len(page))
	if parent != nil {
		buf = append(buf, parent[:]...)
	}
	for _, token := range page {
		buf = binary.LittleEndian.AppendUint32(buf, token)
	}
	return sha256.Sum256(buf)
}

// Chain returns the keys of the full pages of tokens. A short last page has no
// key: engines cache whole pages only.
func Chain(tokens []uint32, pageSize int, salt string) []Key {
	keys := make([]Key, 0, len(tokens)/pageSize)
	parent := Root(salt)
	for len(tokens) >= pageSize {
		keys = append(keys, Next(parent, tokens[:pageSize]))
		parent = &keys[len(keys)-1]
		tokens = tokens[pageSize:]
	}
	return keys
}

// BigramChain is Chain over pairs of neighbouring tokens: unit j of a page is
// token j and the one after it, so the last token begins no unit, and a page is
// hashed as twice its size of tokens. SGLang names pages so with EAGLE's
// speculative decoding.
func BigramChain(tokens []uint32, pageSize int, salt string) []Key {
	pairs := make([]uint32, 0, 2*len(tokens))
	for j := 1; j < len(tokens); j++ {
		pairs = append(pairs, tokens[j-1], tokens[j])
	}
	return Chain(pairs, 2*pageSize, salt)
}
