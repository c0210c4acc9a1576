package snapshot

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

// Body is a snapshot that is being read. One goroutine uses it; Progress is for any.
type Body struct {
	table   *Table
	left    map[index.Rank]Reason
	format  bodyFormat
	ctx     context.Context // of the fetch
	cancel  context.CancelCauseFunc
	current *Vetted
	err     error // what ended it

	nodes, totalNodes atomic.Int64
	read              *atomic.Int64
	totalBytes        int64
	closed            func() error
}

// bodyFormat reads the sections of a body.
type bodyFormat interface {
	// section gives the next section something is wanted of; io.EOF when the whole body was valid.
	section() (*Vetted, error)
	// chunk gives the next chunk of the section given last; io.EOF when it was valid.
	chunk() (*Chunk, error)
}

// Table gives what the peer said of all its ranks.
func (b *Body) Table() *Table { return b.table }

// Left tells which wanted ranks the body names and why it does not deliver them.
func (b *Body) Left() map[index.Rank]Reason { return b.left }

// Progress of a body.
type Progress struct {
	Bytes, TotalBytes int64 // on the wire; the total is 0 if the peer does not say
	Nodes, TotalNodes int64 // of the wanted sections; likewise
}

// Progress gives what was read so far.
func (b *Body) Progress() Progress {
	return Progress{b.read.Load(), b.totalBytes, b.nodes.Load(), b.totalNodes.Load()}
}

// Next gives the next section of which something is wanted. io.EOF says that the whole body was valid; any other error
// ends it. What is unread of the section before is read over.
func (b *Body) Next(ctx context.Context) (*Vetted, error) {
	for b.current != nil && b.err == nil {
		if _, err := b.current.Next(ctx); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	if b.err != nil {
		return nil, b.err
	}
	var v *Vetted
	err := b.guard(ctx, func() (err error) {
		v, err = b.format.section()
		return err
	})
	if err != nil {
		b.err = err
		return nil, err
	}
	v.body, b.current = b, v
	return v, nil
}

// guard does one read under a context: when that ends, so does the fetch. The first error stays.
func (b *Body) guard(ctx context.Context, f func() error) error {
	stop := context.AfterFunc(ctx, func() { b.cancel(context.Cause(ctx)) })
	defer stop()
	if err := ctx.Err(); err != nil {
		b.err = err
		return err
	}
	err := f()
	if err != nil {
		if cause := context.Cause(b.ctx); cause != nil && ReasonOf(err) == "" && !errors.Is(err, io.EOF) {
			err = cause
		}
	}
	return err
}

// Close ends the fetch.
func (b *Body) Close() error {
	if b.err == nil {
		b.err = errors.New("snapshot: the body is closed")
	}
	b.cancel(nil)
	return b.closed()
}

// Vetted is one section of a body in the reader's terms: the only way from the wire into an index. It cannot be made
// elsewhere.
type Vetted struct {
	key    SectionKey
	ranks  []VettedRank
	places []int // by row of the peer's table
	body   *Body
	begun  bool
	err    error // io.EOF once it was valid
}

// VettedRank is one of the reader's ranks with the cursor its blocks are as of.
type VettedRank struct {
	Rank index.Rank
	// Cursor is the peer's, its worker named as the reader does. Of format 1 it has no time, no start, and is unwitnessed.
	Cursor cursor.Cursor
	// WalkedTo: up to here events may be in the blocks and copies already (see the package doc). At least Cursor.Seq; of
	// format 1, which does not tell, it is Cursor.Seq.
	WalkedTo int64
	// SeededFrom names the replica this one is seeded from by taking the rank.
	SeededFrom string
	// PeerSeededFrom is whom the peer was seeded from itself.
	PeerSeededFrom string
	Digest         uint64 // as of Cursor; 0 if not known (format 1)
	DigestVersion  int
	Blocks         int64 // as of Cursor; 0 if not known
}

// Key is the reader's key of the section.
func (v *Vetted) Key() SectionKey { return v.key }

// Ranks lists the ranks the section's chunks speak of, by number. The caller must not change it.
func (v *Vetted) Ranks() []VettedRank { return v.ranks }

// Retain drops every rank that keep refuses. It must be called before the first Next, and numbers the ranks anew.
func (v *Vetted) Retain(keep func(index.Rank) bool) {
	if v.begun {
		panic("snapshot: Retain after Next: chunks with the old numbers are out")
	}
	kept := make([]VettedRank, 0, len(v.ranks))
	to := make([]int, len(v.ranks))
	for i, r := range v.ranks {
		to[i] = -1
		if keep(r.Rank) {
			to[i] = len(kept)
			kept = append(kept, r)
		}
	}
	v.ranks = kept
	for row, place := range v.places {
		if place >= 0 {
			v.places[row] = to[place]
		}
	}
}

// Covers tells whether any of the ranks is among the section's.
func (v *Vetted) Covers(ranks ...index.Rank) bool {
	for _, have := range v.ranks {
		for _, r := range ranks {
			if have.Rank == r {
				return true
			}
		}
	}
	return false
}

// Next gives the next chunk, which is never empty. io.EOF says that the section is whole: its checksums, totals and
// signature held. Any other error means that all that came of it must be dropped.
func (v *Vetted) Next(ctx context.Context) (*Chunk, error) {
	v.begun = true
	for v.err == nil && v.body.err == nil {
		var c *Chunk
		err := v.body.guard(ctx, func() (err error) {
			c, err = v.body.format.chunk()
			return err
		})
		switch {
		case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			v.err = io.EOF
			v.body.current = nil
		case err != nil:
			v.err, v.body.err = err, err
		case c.Len() > 0:
			v.body.nodes.Add(int64(len(c.keys)))
			return c, nil
		}
	}
	if v.err == nil {
		v.err = v.body.err
	}
	return nil, v.err
}
