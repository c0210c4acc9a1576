package kvevents

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/routerfleet/routerfleet/router/index"
)

// chunk turns the event's tokens into one chunk a block. Each pass holds the tokens of one block only.
func (d *Decoder) chunk(b *Batch, f *fields, s *Stored) error {
	n, tokens, err := arrayOf(f.tokens)
	if err != nil {
		return err
	}
	size := int(s.BlockSize)
	if size == 0 || (n+size-1)/size != len(s.Hashes) {
		return errShape // blocks and tokens do not belong together
	}
	keys, err := extraKeysOf(f, len(s.Hashes))
	if err != nil {
		return err
	}
	pairs := isArray(tokens)
	first := len(b.chunks)
	for i := range s.Hashes {
		if tokens, err = d.tokens(tokens, min(size, n-i*size), pairs); err != nil {
			return err
		}
		d.extra = d.extra[:0]
		if keys, err = d.extraOf(keys, f, s, i == 0); err != nil {
			return err
		}
		d.block = index.AppendSuffix(d.block, s.LoRA, d.extra)
		b.chunks = append(b.chunks, d.opt.Seed.Chunk(d.block))
	}
	s.Chunks = b.chunks[first:len(b.chunks):len(b.chunks)]
	return nil
}

// tokens puts the next n tokens into the block buffer. A pair, as SGLang gives for EAGLE's bigrams, counts as one and
// contributes both of its tokens.
func (d *Decoder) tokens(p []byte, n int, pairs bool) ([]byte, error) {
	d.block = d.block[:0]
	var err error
	width := 1
	if pairs {
		width = 2
	}
	for range n {
		if pairs {
			var w int
			if w, p, err = arrayOf(p); err != nil {
				return nil, err
			}
			if w != width {
				return nil, errShape
			}
		}
		for range width {
			var t uint32
			if t, p, err = tokenOf(p); err != nil {
				return nil, err
			}
			d.block = index.AppendToken(d.block, t)
		}
	}
	return p, nil
}

// extraKeysOf gives the entries of the event's extra keys, one a block; nil without any.
func extraKeysOf(f *fields, blocks int) ([]byte, error) {
	if len(f.extra) == 0 || msgp.IsNil(f.extra) {
		return nil, nil
	}
	n, entries, err := arrayOf(f.extra)
	if err != nil {
		return nil, err
	}
	switch n {
	case 0:
		return nil, nil
	case blocks:
		return entries, nil
	}
	return nil, errShape
}

// extraOf reads the next block's entry into d.extra. vLLM's entries are, in this order: the LoRA's name (its number in
// old versions), multi-modal inputs, in a chain's first block the cache salt, prompt embeddings. The LoRA is known
// already, and the salt becomes the event's: both have their place in the key. The salt is told by being the last text;
// old versions gave multi-modal inputs as texts too, of which the last is then taken for a salt. That only names the
// same difference otherwise.
func (d *Decoder) extraOf(p []byte, f *fields, s *Stored, first bool) ([]byte, error) {
	if p == nil {
		return nil, nil
	}
	if msgp.IsNil(p) {
		return p[1:], nil
	}
	n, p, err := arrayOf(p)
	if err != nil {
		return nil, err
	}
	if n > 0 && isLoRA(p, f) {
		n--
		if p, err = skip(p); err != nil {
			return nil, err
		}
	}
	salt := -1
	if first && !s.HasParent && s.CacheSalt == "" {
		if salt, err = lastText(p, n); err != nil {
			return nil, err
		}
	}
	for i := range n {
		if i == salt {
			var text []byte
			if text, p, err = textOf(p); err == nil {
				s.CacheSalt, err = d.names.name(text)
			}
		} else {
			p, err = d.canonical(p, maxExtraDepth)
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// isLoRA tells whether a block's first extra key is its LoRA.
func isLoRA(p []byte, f *fields) bool {
	if isText(p) {
		name, _, err := textOf(p)
		return err == nil && len(name) > 0 && string(name) == string(f.loraName)
	}
	id, _, err := bitsOf(p)
	return err == nil && f.have&hasLoRAID != 0 && int64(id) == f.loraID
}

// lastText gives the place of the last string among n values, -1 without one.
func lastText(p []byte, n int) (place int, err error) {
	place = -1
	for i := range n {
		if isText(p) {
			place = i
		}
		if p, err = skip(p); err != nil {
			return 0, err
		}
	}
	return place, nil
}

// canonical adds a value to d.extra in the form that is equal for equal values.
func (d *Decoder) canonical(p []byte, depth int) ([]byte, error) {
	if len(d.extra) > maxExtraBytes || depth == 0 {
		return nil, errTooLarge
	}
	switch {
	case len(p) == 0:
		return nil, errTorn
	case msgp.IsNil(p):
		d.extra = d.extra.Nil()
		return p[1:], nil
	case isArray(p):
		return d.canonicalList(p, depth)
	case isText(p):
		text, rest, err := textOf(p)
		if len(text) > maxExtraBytes {
			return nil, errTooLarge
		}
		d.extra = d.extra.TextBytes(text)
		return rest, err
	}
	if i, rest, err := bitsOf(p); err == nil {
		d.extra = d.extra.Int(int64(i))
		return rest, nil
	}
	if b, rest, err := msgp.ReadBytesZC(p); err == nil {
		if len(b) > maxExtraBytes {
			return nil, errTooLarge
		}
		d.extra = d.extra.Bytes(b)
		return rest, nil
	}
	rest, err := skip(p)
	if err != nil {
		return nil, err
	}
	wire := p[:len(p)-len(rest)]
	if len(wire) > maxExtraBytes {
		return nil, errTooLarge
	}
	d.extra = d.extra.Other(wire)
	return rest, nil
}

func (d *Decoder) canonicalList(p []byte, depth int) ([]byte, error) {
	n, p, err := arrayOf(p)
	if err != nil {
		return nil, err
	}
	d.extra = d.extra.List(n)
	for range n {
		if p, err = d.canonical(p, depth-1); err != nil {
			return nil, err
		}
	}
	return p, nil
}
