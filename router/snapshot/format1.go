package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

// Format 1 is the open stack's JSON object, byte by byte as it writes it:
//
//	{"format":1,"block_size":B,"is_bigram":b,"producer_ready":b,
//	 "workers":[{"url":U,"dp_rank":R}...],"cursors":[[worker,seq]...],
//	 "nodes":[{"parent":null|earlier record,"block_hash":int64,"workers":[...],"tiers":[...]}...],
//	 "empty_ranks":[{"url":U,"dp_rank":R}...]}        left out when empty

// worker1 is a rank in format 1.
type worker1 struct {
	URL string `json:"url"`
	DP  int32  `json:"dp_rank"`
}

// head1 is what stands before the nodes.
type head1 struct {
	Format    int        `json:"format"`
	BlockSize uint32     `json:"block_size"`
	Bigram    bool       `json:"is_bigram"`
	Ready     bool       `json:"producer_ready"`
	Workers   []worker1  `json:"workers"`
	Cursors   [][2]int64 `json:"cursors"`
}

// build1 is a whole body of format 1. It is immutable.
type build1 struct{ parts [][]byte }

func (b *build1) write(w io.Writer) error {
	for _, p := range b.parts {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// errNotFormat1 is what a replica answers whose indexes format 1 cannot tell.
var errNotFormat1 = fmt.Errorf("snapshot: format 1 tells exactly one index of scheme %s", index.SchemeSGLang)

// only1 gives the one section that format 1 can tell.
func only1(sections []SourceSection) (*SourceSection, error) {
	var only *SourceSection
	for i := range sections {
		if sections[i].Key.Scheme != index.SchemeSGLang || only != nil {
			return nil, errNotFormat1
		}
		only = &sections[i]
	}
	if only == nil || only.Key.BlockSize > math.MaxUint32 {
		return nil, errNotFormat1
	}
	return only, nil
}

// produce1 builds a body of format 1.
func produce1(ctx context.Context, src Source) (*build1, error) {
	ready := src.Ready()
	section, err := only1(src.Sections())
	if err != nil {
		return nil, err
	}
	p := newSectionBuild(src, section, 0)
	p.choose(section.Rows)
	p.held = make([]uint64, len(p.ranks))
	p.walk = section.Index.Runs(p.ranks, index.RunOptions{Ordered: true})
	n := nodes1{records: newKeySlots(1024)}
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		more = p.walk.Next(walkAtOnce, func(r index.Run) {
			p.take1(r)
			n.add(r)
		})
	}
	p.check()
	n.flush()
	head, err := p.head1(ready && n.carried)
	if err != nil {
		return nil, err
	}
	b := &build1{parts: append([][]byte{head}, n.parts...)}
	b.parts = append(b.parts, tail1(section.Rows))
	return b, nil
}

// take1 books a run.
func (p *sectionBuild) take1(r index.Run) {
	for _, w := range r.Who {
		p.held[w.Rank] += uint64(len(r.Keys))
	}
}

// head1 gives the text up to the first node. All walked ranks are in the table, as the nodes name them by their place in
// it; one that was dropped meanwhile has no cursor, so that nobody takes it for covered.
func (p *sectionBuild) head1(ready bool) ([]byte, error) {
	h := newHead1(p.from.Key, ready)
	for i, at := range p.rows {
		w := &p.out.rows[at]
		h.Workers = append(h.Workers, worker1{w.Worker.URL, w.DP})
		if w.exported {
			h.Cursors = append(h.Cursors, [2]int64{int64(i), w.Cursor.Seq})
		}
	}
	return h.encode()
}

// newHead1 says that a replica that does not know its block size yet is no source, whatever it holds.
func newHead1(k SectionKey, ready bool) *head1 {
	return &head1{
		Format: format1, BlockSize: uint32(k.BlockSize), Bigram: k.Bigram, Ready: ready && k.BlockSize > 0,
		Workers: []worker1{}, Cursors: [][2]int64{},
	}
}

func (h *head1) encode() ([]byte, error) {
	b, err := marshal1(h)
	if err != nil {
		return nil, err
	}
	return append(b[:len(b)-1], `,"nodes":[`...), nil
}

// marshal1 writes JSON as the open stack does: it escapes no HTML.
func marshal1(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode a snapshot of format 1: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// tail1 gives the text behind the last node.
func tail1(rows []Row) []byte {
	var empty []worker1
	for _, r := range rows {
		if !r.begun() || r.Blocks == 0 {
			empty = append(empty, worker1{r.Worker.URL, r.DP})
		}
	}
	if len(empty) == 0 {
		return []byte("]}")
	}
	b, err := marshal1(empty)
	if err != nil { // texts and numbers: cannot fail
		return []byte("]}")
	}
	return append(append([]byte(`],"empty_ranks":`), b...), '}')
}

// nodes1 writes the records.
type nodes1 struct {
	parts   [][]byte
	buf     []byte
	n       uint32
	records *keySlots // of every block so far, for its children
	carried bool
}

func (n *nodes1) add(r index.Run) {
	n.carried = n.carried || len(r.Who) > 0
	parent := int64(-1)
	if at, ok := n.records.get(r.Parent.Key); ok && r.Parent.Known {
		parent = int64(at)
	}
	for _, k := range r.Keys {
		if n.n > 0 {
			n.buf = append(n.buf, ',')
		}
		n.record(parent, k, r.Who)
		n.records.put(k, n.n)
		parent = int64(n.n)
		n.n++
		if len(n.buf) >= frameBytes {
			n.flush()
		}
	}
}

func (n *nodes1) record(parent int64, k index.Key, who []index.Holding) {
	b := append(n.buf, `{"parent":`...)
	if parent < 0 {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, parent, 10)
	}
	b = strconv.AppendInt(append(b, `,"block_hash":`...), int64(k), 10)
	b = append(b, `,"workers":[`...)
	for i, w := range who {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(w.Rank), 10)
	}
	b = append(b, `],"tiers":[`...)
	for i, w := range who {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(w.Tiers), 10)
	}
	n.buf = append(b, "]}"...)
}

func (n *nodes1) flush() {
	if len(n.buf) > 0 {
		n.parts = append(n.parts, append([]byte(nil), n.buf...))
		n.buf = n.buf[:0]
	}
}

// cursors1 answers cursors_only in format 1: every rank with a cursor, no nodes.
func cursors1(section *SourceSection, ready bool) ([]byte, error) {
	h := newHead1(section.Key, ready)
	for _, r := range section.Rows {
		if r.Cursor.Proof != cursor.ProofUnknown {
			h.Cursors = append(h.Cursors, [2]int64{int64(len(h.Workers)), r.Cursor.Seq})
			h.Workers = append(h.Workers, worker1{r.Worker.URL, r.DP})
		}
	}
	b, err := h.encode()
	if err != nil {
		return nil, err
	}
	return append(b, tail1(section.Rows)...), nil
}
