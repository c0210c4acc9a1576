package snapshot

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

// bodyHead is the first frame.
type bodyHead struct {
	ready    bool
	since    time.Time
	sections int
	// nodes and bytes of the whole body, 0 if not known: for people only.
	nodes, bytes uint64
}

func (h *bodyHead) encode() []byte {
	b := appendBool(nil, h.ready)
	b = binary.AppendVarint(b, unixMillis(h.since))
	b = binary.AppendUvarint(b, uint64(h.sections))
	b = binary.AppendUvarint(b, h.nodes)
	b = appendU64(b, h.bytes)
	return oneFrame(frameBody, b)
}

func decodeBodyHead(payload []byte) (h bodyHead, ok bool) {
	r := reader{b: payload}
	h.ready = r.byte()&1 != 0
	h.since = fromMillis(r.varint())
	h.sections = r.count(maxSections)
	h.nodes = r.uvarint()
	h.bytes = r.u64()
	return h, !r.bad
}

func unixMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// sectionHead is what is said of a section before its rows.
type sectionHead struct {
	key   SectionKey
	maps  bool // engine hashes and orphans come with it
	rows  int
	nodes uint64 // 0 if not known
}

const (
	sectionBigram = 1 << iota
	sectionMaps
)

func (h *sectionHead) encode() []byte {
	b := appendText(nil, h.key.Model)
	b = appendText(b, string(h.key.Scheme))
	b = binary.AppendUvarint(b, uint64(h.key.BlockSize))
	var flags byte
	if h.key.Bigram {
		flags |= sectionBigram
	}
	if h.maps {
		flags |= sectionMaps
	}
	b = append(b, flags)
	b = appendU64(b, h.key.SeedID)
	b = binary.AppendUvarint(b, uint64(h.rows))
	b = binary.AppendUvarint(b, h.nodes)
	return oneFrame(frameSection, b)
}

func decodeSectionHead(payload []byte) (h sectionHead, ok bool) {
	r := reader{b: payload}
	h.key.Model = r.text()
	h.key.Scheme = index.Scheme(r.text())
	h.key.BlockSize = r.count(math.MaxInt32)
	flags := r.byte()
	h.key.Bigram, h.maps = flags&sectionBigram != 0, flags&sectionMaps != 0
	h.key.SeedID = r.u64()
	h.rows = r.count(maxRows)
	h.nodes = r.uvarint()
	return h, !r.bad
}

// wireRow is a row with what only the wire knows of it.
type wireRow struct {
	Row
	exported bool // its blocks are in the body
}

// The bits of wireRow.flags.
const (
	rowBegun = 1 << iota
	rowExported
	rowPartial
	rowStartKnown
	rowExportable
)

func (w *wireRow) flags() (f byte) {
	for bit, is := range []bool{
		w.begun(), w.exported, w.Cursor.Partial, w.Cursor.Incarnation.Start.Known, w.Exportable,
	} {
		if is {
			f |= 1 << bit
		}
	}
	return f
}

// appendRow writes a row behind its length, so that later versions may add to it.
func appendRow(b []byte, w *wireRow) []byte {
	c := &w.Cursor
	r := make([]byte, 0, 256)
	r = append(r, w.flags(), byte(c.Proof))
	r = appendText(r, w.Worker.PodUID)
	r = appendText(r, w.Worker.URL)
	r = binary.AppendVarint(r, int64(w.DP))
	r = appendText(r, c.Incarnation.Start.ID)
	r = binary.AppendVarint(r, c.Seq)
	r = appendU64(r, uint64(c.Time))
	r = appendU64(r, c.Hash)
	r = binary.AppendVarint(r, w.WalkedTo)
	r = appendText(r, w.SeededFrom)
	r = appendU64(r, w.Digest)
	r = binary.AppendVarint(r, int64(w.DigestVersion))
	r = binary.AppendVarint(r, w.Blocks)
	return append(binary.AppendUvarint(b, uint64(len(r))), r...)
}

func decodeRow(payload []byte) (w wireRow, ok bool) {
	r := reader{b: payload}
	flags, proof := r.byte(), cursor.Proof(r.byte())
	w.Worker.PodUID = r.text()
	w.Worker.URL = r.text()
	dp := r.varint()
	c := &w.Cursor
	c.Incarnation.Start.ID = r.text()
	c.Seq = r.varint()
	setInt(&c.Time, int64(r.u64()))
	c.Hash = r.u64()
	w.WalkedTo = r.varint()
	w.SeededFrom = r.text()
	w.Digest = r.u64()
	version := r.varint()
	w.Blocks = r.varint()
	if r.bad || dp < math.MinInt32 || dp > math.MaxInt32 || version < 0 || version > math.MaxInt32 {
		return wireRow{}, false
	}
	w.DP, w.DigestVersion = int32(dp), int(version)
	c.Incarnation.Worker = w.Worker.Name()
	c.Incarnation.Start.Known = flags&rowStartKnown != 0
	c.Partial = flags&rowPartial != 0
	w.exported, w.Exportable = flags&rowExported != 0, flags&rowExportable != 0
	if flags&rowBegun != 0 {
		c.Proof = proofAt(c.Seq, knownProof(proof))
	}
	return w, c.Incarnation.Start.Known || c.Incarnation.Start.ID == ""
}

// setInt sets an integer whose type belongs to another room.
func setInt[T ~int64](to *T, v int64) { *to = T(v) }

// knownProof gives a proof as this release knows it: one it does not know proves nothing.
func knownProof(p cursor.Proof) cursor.Proof {
	if p == cursor.ProofUnknown || p > cursor.Untrusted {
		return cursor.Untrusted
	}
	return p
}

// proofAt gives the proof of a cursor by its seq: behind the last seq there is no batch that could follow, so no stream ever
// came there, and nothing can be spliced to it.
func proofAt(seq int64, p cursor.Proof) cursor.Proof {
	if seq == math.MaxInt64 {
		return cursor.Untrusted
	}
	return p
}

// appendRows writes rows in as many frames as they need.
func appendRows(b []byte, rows []wireRow) []byte {
	for len(rows) > 0 {
		start := len(b)
		b = beginFrame(b, frameRows)
		for len(rows) > 0 && len(b)-start < frameBytes-maxRowBytes {
			b = appendRow(b, &rows[0])
			rows = rows[1:]
		}
		b = endFrame(b, start)
	}
	return b
}

// decodeRows reads the rows of one frame, at most limit.
func decodeRows(payload []byte, limit int) (rows []wireRow, ok bool) {
	r := reader{b: payload}
	for len(r.b) > 0 && !r.bad {
		w, ok := decodeRow(r.bytes(maxRowBytes))
		if !ok || len(rows) == limit {
			return nil, false
		}
		rows = append(rows, w)
	}
	return rows, !r.bad
}

// totals end a section, or the body.
type totals struct {
	nodes, holdings, hashes, orphans uint64
	sum                              uint64 // of all keys and names
}

func (t *totals) add(o totals) {
	t.nodes += o.nodes
	t.holdings += o.holdings
	t.hashes += o.hashes
	t.orphans += o.orphans
	t.sum += o.sum
}

func (t *totals) encode(f frameType) []byte {
	var b []byte
	for _, v := range []uint64{t.nodes, t.holdings, t.hashes, t.orphans, t.sum} {
		b = appendU64(b, v)
	}
	return oneFrame(f, b)
}

func decodeTotals(payload []byte) (t totals, ok bool) {
	r := reader{b: payload}
	for _, v := range []*uint64{&t.nodes, &t.holdings, &t.hashes, &t.orphans, &t.sum} {
		*v = r.u64()
	}
	return t, !r.bad
}
