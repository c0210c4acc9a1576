package tokens

import "github.com/routerfleet/routerfleet/router/index"

// chunked is the scheme tokens, as package index defines it. A short last block has a key, as in the event decoder: where
// the engine caches full blocks only, nothing will ever be stored under it.
type chunked struct {
	size   int
	bigram bool
	model  string
	seed   index.Seed
	buf    []byte
}

func (k *chunked) Append(dst []index.Key, tokens []uint32, c Context) ([]index.Key, error) {
	key := k.seed.RootKey(k.model, c.CacheSalt)
	n := units(tokens, k.bigram)
	for from := 0; from < n; from += k.size {
		k.buf = appendUnits(k.buf[:0], tokens, from, min(from+k.size, n), k.bigram)
		k.buf = index.AppendSuffix(k.buf, c.LoRA, nil)
		key = key.Next(k.seed.Chunk(k.buf))
		dst = append(dst, key)
	}
	return dst, nil
}
