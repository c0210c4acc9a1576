package snapshot

import (
	"encoding/binary"

	"github.com/routerfleet/routerfleet/router/index"
)

// rowEncoder packs what a rank has beside its blocks: hashes that belong to no block in the body, and orphans. A chunk is
// the section's number, the row's, and its entries.
type rowEncoder struct {
	section int
	emit    func(frame []byte) error
	totals  *totals

	buf  []byte
	kind frameType
	row  int
	n    int
	err  error
}

// entryBytes is the most an entry takes.
const entryBytes = 3*8 + binary.MaxVarintLen16

func (e *rowEncoder) hash(row int, h HashRow) {
	e.open(frameHashes, row)
	e.buf = appendU64(appendU64(e.buf, h.Hash), uint64(h.Key))
	e.buf = binary.AppendUvarint(e.buf, uint64(h.Copies))
	e.totals.hashes++
	e.totals.sum += h.Hash
}

func (e *rowEncoder) orphan(row int, o OrphanRow) {
	e.open(frameOrphans, row)
	e.buf = appendU64(appendU64(appendU64(e.buf, o.Hash), o.Parent), uint64(o.Chunk))
	e.buf = binary.AppendUvarint(e.buf, uint64(o.Copies))
	e.totals.orphans++
	e.totals.sum += o.Hash
}

// open has room for one more entry of a kind and row.
func (e *rowEncoder) open(kind frameType, row int) {
	if e.n > 0 && (e.kind != kind || e.row != row || e.n == MaxChunkNodes || len(e.buf)+entryBytes+frameTail > frameBytes) {
		e.flush()
	}
	if e.n == 0 {
		e.kind, e.row = kind, row
		e.buf = beginFrame(e.buf[:0], kind)
		e.buf = binary.AppendUvarint(binary.AppendUvarint(e.buf, uint64(e.section)), uint64(row))
	}
	e.n++
}

func (e *rowEncoder) flush() {
	if e.n > 0 && e.err == nil {
		e.buf = endFrame(e.buf, 0)
		e.err = e.emit(e.buf)
	}
	e.n = 0
}

// hashes and orphans read the other chunks of a section; see nodes.
func (d *chunkDecoder) hashes(r *reader) (*Chunk, bool) {
	place, ok := d.row(r)
	c := &Chunk{}
	for n := 0; ok && len(r.b) > 0; n++ {
		h := HashRow{Hash: r.u64(), Key: index.Key(r.u64()), Copies: Copies(r.count(1<<16 - 1))}
		ok = !r.bad && n < MaxChunkNodes
		d.totals.hashes++
		d.totals.sum += h.Hash
		if ok && place >= 0 && h.Copies != 0 {
			c.hashes = append(c.hashes, rankHash{place, h})
		}
	}
	return c, ok
}

func (d *chunkDecoder) orphans(r *reader) (*Chunk, bool) {
	place, ok := d.row(r)
	c := &Chunk{}
	for n := 0; ok && len(r.b) > 0; n++ {
		o := OrphanRow{r.u64(), r.u64(), index.Chunk(r.u64()), Copies(r.count(1<<16 - 1))}
		ok = !r.bad && n < MaxChunkNodes
		d.totals.orphans++
		d.totals.sum += o.Hash
		if ok && place >= 0 && o.Copies != 0 {
			c.orphans = append(c.orphans, rankOrphan{place, o})
		}
	}
	return c, ok
}

func (d *chunkDecoder) row(r *reader) (place int, ok bool) {
	if len(d.places) == 0 {
		return -1, false
	}
	row := r.count(len(d.places) - 1)
	return d.places[row], !r.bad
}

// chunk reads a chunk of any kind, its section already read.
func (d *chunkDecoder) chunk(t frameType, r *reader) (*Chunk, bool) {
	switch t {
	case frameNodes:
		return d.nodes(r)
	case frameHashes:
		return d.hashes(r)
	case frameOrphans:
		return d.orphans(r)
	default:
		return nil, false
	}
}
