package tokens

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/routerfleet/routerfleet/router/index"
)

// saltLabel begins what a salted chain's first prior digest is made of. SGLang's constant.
const saltLabel = "sglang-cache-salt-v1\x00"

// sglang is SGLang's page hash: digest(i) = SHA-256(digest(i-1) || page), absent before the first page of an unsalted
// chain; the key is the first eight bytes, big-endian. A short last page is hashed too.
type sglang struct {
	size   int
	bigram bool
	buf    []byte
}

// Append gives no keys to a request with an adapter: SGLang's event hashes do not say which one a block belongs to.
func (s *sglang) Append(dst []index.Key, tokens []uint32, c Context) ([]index.Key, error) {
	if c.LoRA != "" {
		return dst, ErrNoKeys
	}
	s.buf = s.buf[:0]
	if c.CacheSalt != "" {
		s.buf = append(append(s.buf, saltLabel...), c.CacheSalt...)
		prior := sha256.Sum256(s.buf)
		s.buf = append(s.buf[:0], prior[:]...)
	}
	n := units(tokens, s.bigram)
	for from := 0; from < n; from += s.size {
		s.buf = appendUnits(s.buf, tokens, from, min(from+s.size, n), s.bigram)
		digest := sha256.Sum256(s.buf)
		s.buf = append(s.buf[:0], digest[:]...)
		dst = append(dst, index.Key(binary.BigEndian.Uint64(digest[:])))
	}
	return dst, nil
}
