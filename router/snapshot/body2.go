package snapshot

import (
	"errors"
	"io"

	"github.com/routerfleet/routerfleet/router/index"
)

// body2 reads the sections of a body of format 2.
type body2 struct {
	frames   *frameReader
	sections []wireSection
	vetted   []*Vetted // by section, nil where nothing is wanted
	at       int       // the section that is read
	dec      *chunkDecoder
	all      totals
}

// openBody2 reads and vets the table.
func openBody2(f *frameReader, w Want, peer string) (*Body, error) {
	head, sections, err := f.table()
	if err != nil {
		return nil, err
	}
	b := &body2{frames: f, sections: sections, at: -1}
	body := &Body{table: &Table{Format: format2, Ready: head.ready, SeedableSince: head.since, Complete: true}, format: b}
	body.totalBytes = int64(min(head.bytes, maxBodyBytes))
	v := &vetting{ready: head.ready, peer: peer, locals: newLocals(w), left: map[index.Rank]Reason{}}
	body.left = v.left
	taken := false
	for i := range sections {
		s := &sections[i]
		body.table.fill(s.key, s.rows)
		part, err := v.section(s)
		if err != nil {
			return body, err
		}
		b.vetted = append(b.vetted, part)
		if part != nil {
			taken = true
			body.totalNodes.Add(int64(min(s.nodes, maxBodyBytes)))
			for _, r := range part.ranks {
				delete(v.left, r.Rank) // another section of the peer may have it under another key
			}
		}
	}
	if !taken {
		return body, v.verdict()
	}
	return body, nil
}

func (b *body2) section() (*Vetted, error) {
	for b.at++; b.at < len(b.sections); b.at++ {
		if !b.sections[b.at].exports() {
			continue
		}
		v := b.vetted[b.at]
		if v != nil && len(v.ranks) > 0 {
			b.dec = &chunkDecoder{places: v.places, names: b.sections[b.at].maps}
			return v, nil
		}
		b.dec = nil
		if err := b.pass(); err != nil {
			return nil, err
		}
	}
	return nil, b.last()
}

// pass reads over a section of which nothing is wanted.
func (b *body2) pass() error {
	for {
		if _, err := b.chunk(); errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// chunk reads a chunk, or over it if nothing of the section is wanted.
func (b *body2) chunk() (*Chunk, error) {
	t, payload, err := b.frames.next()
	if err != nil {
		return nil, err
	}
	if t == frameEnd {
		return nil, b.end(payload)
	}
	r := &reader{b: payload}
	if section := r.uvarint(); r.bad || section != uint64(b.at) {
		return nil, reject(Malformed, "a frame of type %#x is of section %d, not %d", uint8(t), section, b.at)
	}
	if b.dec == nil {
		if t < frameNodes || t > frameOrphans {
			return nil, reject(Malformed, "a frame of type %#x stands among chunks", uint8(t))
		}
		return &Chunk{}, nil
	}
	c, ok := b.dec.chunk(t, r)
	if !ok {
		return nil, reject(Malformed, "a chunk of section %s cannot be read", b.sections[b.at].key)
	}
	return c, nil
}

// end checks a section's totals and signature, and gives io.EOF if they hold.
func (b *body2) end(payload []byte) error {
	t, ok := decodeTotals(payload)
	if !ok || b.dec != nil && t != b.dec.totals {
		return reject(Malformed, "the totals of section %s are not those of its chunks", b.sections[b.at].key)
	}
	b.all.add(t)
	if err := b.frames.signed(); err != nil {
		return err
	}
	return io.EOF
}

// last checks the end of the body.
func (b *body2) last() error {
	payload, err := b.frames.want(frameLast)
	if err != nil {
		return err
	}
	if t, ok := decodeTotals(payload); !ok || t != b.all {
		return reject(Malformed, "the totals of the body are not those of its sections")
	}
	if err := b.frames.signed(); err != nil {
		return err
	}
	if err := b.frames.end(); err != nil {
		return err
	}
	return io.EOF
}
