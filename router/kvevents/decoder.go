package kvevents

import (
	"errors"

	"github.com/tinylib/msgp/msgp"
	"github.com/zeebo/xxh3"

	"github.com/routerfleet/routerfleet/router/index"
)

// DecoderOptions say what becomes of tokens.
type DecoderOptions struct {
	// Scheme is the hash scheme of the index the events are for. Only index.SchemeTokens looks at tokens.
	Scheme index.Scheme
	// Seed makes the chunks of the tokens scheme.
	Seed index.Seed
}

// Decoder turns payloads into batches. It keeps buffers and is not for use by several goroutines.
type Decoder struct {
	opt   DecoderOptions
	names interner
	f     fields
	block []byte      // tokens of one block
	extra index.Extra // extra keys of one block
}

// NewDecoder gives a decoder.
func NewDecoder(o DecoderOptions) *Decoder { return &Decoder{opt: o} }

// Decode decodes a payload into a batch of its own, which the caller releases. There is no error: what cannot be decoded
// is counted in the batch's Skips. The payload may be reused.
func (d *Decoder) Decode(seq int64, payload []byte) *Batch {
	b := batches.Get().(*Batch)
	b.reset() // a new one has no rank yet
	d.decode(b, seq, payload)
	return b
}

func (d *Decoder) decode(b *Batch, seq int64, payload []byte) {
	b.Seq, b.Hash = seq, xxh3.Hash(payload)
	var err error
	if isMap(payload) {
		err = d.mapBatch(b, payload)
	} else {
		err = d.arrayBatch(b, payload)
	}
	if err != nil {
		b.Skips[SkipTorn]++
	}
}

// arrayBatch reads [ts, events, rank?, ...].
func (d *Decoder) arrayBatch(b *Batch, p []byte) error {
	n, p, err := arrayOf(p)
	if err != nil {
		return err
	}
	if n < 2 {
		return errShape
	}
	if p, err = d.time(b, p); err != nil {
		return err
	}
	if p, err = d.events(b, p); err != nil {
		return err
	}
	if n == 2 {
		return nil
	}
	_, err = d.rank(b, p)
	return err // elements beyond the rank are none of ours
}

// mapBatch reads {"ts", "events", "data_parallel_rank" or "attn_dp_rank"}, in any order, other keys skipped.
func (d *Decoder) mapBatch(b *Batch, p []byte) error {
	n, p, err := mapOf(p)
	if err != nil {
		return err
	}
	complete := 0
	for range n {
		var key []byte
		if key, p, err = textOf(p); err != nil {
			return err
		}
		switch string(key) {
		case "ts":
			complete |= 1
			p, err = d.time(b, p)
		case "events":
			complete |= 2
			p, err = d.events(b, p)
		case "data_parallel_rank", "attn_dp_rank":
			p, err = d.rank(b, p)
		default:
			p, err = skip(p)
		}
		if err != nil {
			return err
		}
	}
	if complete != 3 {
		return errShape
	}
	return nil
}

// time reads the batch's time. One that is no time leaves it unknown, and the batch untrusted.
func (d *Decoder) time(b *Batch, p []byte) ([]byte, error) {
	t, rest, err := stampOf(p)
	if errors.Is(err, errShape) {
		b.Skips[SkipUndecodable]++
		return skip(p)
	}
	b.Time = t
	return rest, err
}

// rank reads the rank the batch names. Something else than a rank reads as one that no socket has.
func (d *Decoder) rank(b *Batch, p []byte) ([]byte, error) {
	if msgp.IsNil(p) {
		return p[1:], nil
	}
	r, rest, err := integerOf(p, 0, 1<<20)
	if errors.Is(err, errShape) {
		b.Rank = 1 << 20
		return skip(p)
	}
	b.Rank = int32(r)
	return rest, err
}

// events reads the list of events. An event that makes no sense is skipped; a payload that is torn is an error, and what
// was read before it stands.
func (d *Decoder) events(b *Batch, p []byte) ([]byte, error) {
	n, p, err := arrayOf(p)
	if err != nil {
		return nil, err
	}
	for i := range n {
		if i == maxBatchEvents {
			b.Skips[SkipTooMany] += int32(n - i)
			return skipValues(p, n-i)
		}
		before := p
		mark := len(b.hashes)
		if p, err = d.event(b, p); err == nil {
			continue
		}
		b.hashes = b.hashes[:mark]
		if p, err = d.refuse(b, before, err); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// refuse counts the event at p as skipped for a reason, and passes over it.
func (d *Decoder) refuse(b *Batch, p []byte, why error) ([]byte, error) {
	rest, err := skip(p)
	if err != nil {
		return nil, err
	}
	switch {
	case errors.Is(why, errUnknown):
		b.Skips[SkipUnknownEvent]++
	case errors.Is(why, errTooLarge):
		b.Skips[SkipTooLarge]++
	default:
		b.Skips[SkipUndecodable]++
	}
	return rest, nil
}

func skipValues(p []byte, n int) ([]byte, error) {
	var err error
	for range n {
		if p, err = skip(p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// event reads one event and adds it to the batch, or joins it to the one before.
func (d *Decoder) event(b *Batch, p []byte) (rest []byte, err error) {
	f := &d.f
	f.reset(b)
	switch {
	case isMap(p):
		rest, err = f.readMap(p)
	case isArray(p):
		rest, err = f.readArray(p)
	default:
		return nil, errShape
	}
	if err != nil {
		return nil, err
	}
	switch f.tag {
	case tagStored:
		err = d.addStored(b, f)
	case tagRemoved:
		err = d.addRemoved(b, f)
	case tagCleared:
		b.Events = append(b.Events, cleared)
	default:
		err = errUnknown
	}
	return rest, err
}

func (d *Decoder) addStored(b *Batch, f *fields) error {
	hashes := b.hashes[f.first:len(b.hashes):len(b.hashes)]
	if f.have&(hasHashes|hasBlockSize) != hasHashes|hasBlockSize {
		return errShape
	}
	if f.parentForm != NoForm && f.form != NoForm && f.parentForm != f.form {
		return errShape // a chain in two key spaces
	}
	if len(hashes) == 0 {
		return nil
	}
	s := Stored{
		Hashes: hashes, Parent: f.parent, HasParent: f.parentForm != NoForm, Form: f.form,
		BlockSize: int32(f.blockSize), Group: f.group, GroupKind: f.kind, Window: f.window, Medium: f.mediumOrPlace(), Joined: 1,
	}
	var err error
	if s.LoRA, err = d.lora(f); err != nil {
		return err
	}
	if s.CacheSalt, err = d.names.name(f.salt); err != nil {
		return err
	}
	mark := len(b.chunks)
	if s.Tokens, err = f.tokenCount(); err == nil && d.opt.Scheme == index.SchemeTokens && s.Tokens > 0 {
		err = d.chunk(b, f, &s)
	}
	if err != nil {
		b.chunks = b.chunks[:mark]
		return err
	}
	b.addStored(s)
	return nil
}

func (d *Decoder) addRemoved(b *Batch, f *fields) error {
	hashes := b.hashes[f.first:len(b.hashes):len(b.hashes)]
	if f.have&hasHashes == 0 {
		return errShape
	}
	if len(hashes) > 0 {
		b.addRemoved(Removed{Hashes: hashes, Form: f.form, Group: f.group, Medium: f.mediumOrPlace(), Joined: 1})
	}
	return nil
}

// lora names the adapter: by name, or by number where the engine gives no name.
func (d *Decoder) lora(f *fields) (string, error) {
	if len(f.loraName) > 0 || f.have&hasLoRAID == 0 {
		return d.names.name(f.loraName)
	}
	return d.names.number(f.loraID), nil
}
