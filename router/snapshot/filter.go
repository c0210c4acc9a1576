package snapshot

import (
	"io"
)

// writeSome writes the body with the blocks of some rows only: wanted tells which. The table stays whole, and says of all
// others that their blocks are left out. It holds one chunk at a time.
func (b *build) writeSome(w io.Writer, sign signer, wanted func(Worker, int32) bool) error {
	some := &build{head: b.head}
	some.head.nodes, some.head.bytes = 0, 0 // not known
	for i := range b.sections {
		s := &b.sections[i]
		part := builtSection{wireSection: wireSection{s.sectionHead, make([]wireRow, len(s.rows))}}
		part.sectionHead.nodes = 0
		for j, row := range s.rows {
			row.exported = row.exported && wanted(row.Worker, row.DP)
			part.rows[j] = row
		}
		some.sections = append(some.sections, part)
	}
	out := newBodyWriter(w, sign)
	if err := out.write(some.encodeTable(nil)); err != nil {
		return err
	}
	if err := out.signature(); err != nil {
		return err
	}
	var all totals
	for i := range b.sections {
		if err := some.sections[i].copyFrom(&b.sections[i], i, out); err != nil {
			return err
		}
		all.add(some.sections[i].totals)
	}
	if err := out.write(all.encode(frameLast)); err != nil {
		return err
	}
	return out.signature()
}

// copyFrom writes what is left of another section's chunks.
func (s *builtSection) copyFrom(o *builtSection, number int, out *bodyWriter) error {
	if !s.exports() {
		return nil
	}
	d := &chunkDecoder{names: s.maps, places: make([]int, len(s.rows))}
	all := make([]int, len(s.rows))
	for i := range s.rows {
		all[i], d.places[i] = i, -1
		if s.rows[i].exported {
			d.places[i] = i
		}
	}
	nodes := &nodeEncoder{section: number, rows: all, names: s.maps, emit: out.write}
	rows := &rowEncoder{section: number, emit: out.write, totals: &s.totals}
	for _, f := range o.frames {
		if err := copyChunk(d, f, nodes, rows); err != nil {
			return err
		}
	}
	s.totals.add(nodes.totals)
	if err := out.write(s.totals.encode(frameEnd)); err != nil {
		return err
	}
	return out.signature()
}

// copyChunk writes what is left of a chunk.
func copyChunk(d *chunkDecoder, frame []byte, nodes *nodeEncoder, rows *rowEncoder) error {
	r := &reader{b: frame[frameHead : len(frame)-frameTail]}
	r.uvarint() // the section
	c, ok := d.chunk(frameType(frame[0]), r)
	if !ok {
		return reject(Malformed, "a chunk of our own cannot be read")
	}
	var names []name
	hashes := c.hashes
	for _, run := range c.runs {
		who := c.sets[run.set]
		if d.names {
			n := len(who) * (run.to - run.from)
			names = names[:0]
			for _, h := range hashes[:n] {
				names = append(names, name{h.Hash, h.Copies})
			}
			hashes = hashes[n:]
		}
		nodes.run(run.parent, c.keys[run.from:run.to], uint32(run.set), who, names)
	}
	nodes.flush()
	if len(c.runs) == 0 {
		for _, h := range hashes {
			rows.hash(h.rank, h.HashRow)
		}
	}
	for _, o := range c.orphans {
		rows.orphan(o.rank, o.OrphanRow)
	}
	rows.flush()
	if nodes.err != nil {
		return nodes.err
	}
	return rows.err
}
