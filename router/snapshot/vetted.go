package snapshot

import (
	"context"
	"errors"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

// Body is a snapshot that is being read. One goroutine uses it.
type Body struct{ table *Table }

// Table gives what the peer said of all its ranks.
func (b *Body) Table() *Table { return b.table }

// Left tells which wanted ranks the body names and why it does not deliver them.
func (b *Body) Left() map[index.Rank]Reason { return nil }

// Progress gives what was read so far and, where the format says, the total; 0 otherwise.
func (b *Body) Progress() Progress { return Progress{} }

// Progress of a body.
type Progress struct {
	Bytes, TotalBytes int64
	Nodes, TotalNodes int64
}

// Next gives the next section of which something is wanted. io.EOF says that the whole body was valid; any other error
// ends it. What is unread of the section before is read over.
func (b *Body) Next(ctx context.Context) (*Vetted, error) { return nil, errors.ErrUnsupported }

// Close ends the fetch.
func (b *Body) Close() error { return nil }

// Vetted is one section of a body in the reader's terms: the only way from the wire into an index. It cannot be made
// elsewhere.
type Vetted struct {
	key   SectionKey
	ranks []VettedRank
}

// VettedRank is one of the reader's ranks with the cursor its blocks are as of.
type VettedRank struct {
	Rank index.Rank
	// Cursor is the peer's, its worker named as the reader does. Of format 1 it has no time, no start, and is unwitnessed.
	Cursor cursor.Cursor
	// WalkedTo: up to here events may be in the blocks and copies already (see the package doc). At least Cursor.Seq.
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
func (v *Vetted) Retain(keep func(index.Rank) bool) {}

// Covers tells whether any of the ranks is among the section's.
func (v *Vetted) Covers(ranks ...index.Rank) bool { return false }

// Next gives the next chunk. io.EOF says that the section is whole: its checksums, totals and signature held. Any other
// error means that all that came of it must be dropped.
func (v *Vetted) Next(ctx context.Context) (*Chunk, error) { return nil, errors.ErrUnsupported }

// Chunk is a part of a section. It is immutable and owns its memory; its methods cannot fail. A chunk has at most
// MaxChunkNodes nodes, and is nodes, hashes or orphans; nodes of scheme tokens bring their hashes along.
type Chunk struct{}

// MaxChunkNodes bounds the blocks, hashes or orphans of one chunk.
const MaxChunkNodes = 8192

// Runs gives the chunk's chains: keys[0] follows p, each other key the one before it, all with the same carriers. The
// numbers in who are places in Vetted.Ranks. The slices are valid during the call. Scheme tokens has runs of one key.
func (c *Chunk) Runs(f func(p index.Parent, keys []index.Key, who []index.Holding)) {}

// Nodes gives the same block by block.
func (c *Chunk) Nodes(f func(k index.Key, p index.Parent, who []index.Holding)) {}

// Hashes gives the engine hashes of ranks (scheme tokens), by place in Vetted.Ranks: of each block in the chunk, and of
// blocks that are not in the index.
func (c *Chunk) Hashes(f func(rank int, h HashRow)) {}

// Orphans gives the orphans of ranks (scheme tokens), oldest first.
func (c *Chunk) Orphans(f func(rank int, o OrphanRow)) {}

// Len counts the chunk's blocks, hashes without a block and orphans.
func (c *Chunk) Len() int { return 0 }
