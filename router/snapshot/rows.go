package snapshot

import (
	"context"
	"fmt"
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

// Path is where a replica serves its snapshots.
const Path = "/internal/kv_snapshot"

// Worker is an engine as replicas know it of each other (peer-bootstrap B6).
type Worker struct {
	PodUID string // empty where the worker is no pod
	URL    string // as upstream routers spell it: http://addr:port
}

// Same tells whether two names mean one worker: by pod UID where both have one, by URL otherwise. Two different UIDs never
// match, whatever their URLs.
func (w Worker) Same(o Worker) bool {
	if w.PodUID != "" && o.PodUID != "" {
		return w.PodUID == o.PodUID
	}
	return w.URL != "" && w.URL == o.URL
}

// Name is the worker's name in rank lists: the pod UID if there is one.
func (w Worker) Name() string {
	if w.PodUID != "" {
		return w.PodUID
	}
	return w.URL
}

// SectionKey says what an index is about. Keys compare within one section only.
type SectionKey struct {
	Model     string
	Scheme    index.Scheme
	BlockSize int    // tokens a block
	Bigram    bool   // scheme sglang: keys are over pairs of tokens
	SeedID    uint64 // scheme tokens: which seed (not the seed itself); 0 otherwise
}

// String names the section for logs.
func (k SectionKey) String() string {
	s := fmt.Sprintf("%s/%s/%d", k.Model, k.Scheme, k.BlockSize)
	if k.Bigram {
		s += "/bigram"
	}
	return s
}

// Row is one rank of a section as its producer knows it: everything but Worker is of one moment, at the end of one batch.
type Row struct {
	Rank   index.Rank
	Worker Worker
	DP     int32
	// Cursor has an unknown proof while nothing of the rank's stream was applied.
	Cursor cursor.Cursor
	// Life is index.RankView.State as of Cursor; 0 while the rank never held anything.
	Life uint64
	// WalkedTo is that of the snapshot the rank began with, 0 without: above it every block is as of Cursor (H12).
	WalkedTo int64
	// SeededFrom is the pod UID of the replica whose snapshot the rank began with; empty if none.
	SeededFrom    string
	Digest        uint64
	DigestVersion int
	Blocks        int64 // in any tier; a block in two tiers counts twice
	// Exportable: not proving, not in a gap, not awaiting its splice proof, its start bound (H2, H14). The cursor of any
	// other rank is listed, its blocks are not.
	Exportable bool
}

// begun tells whether the row has a cursor.
func (r *Row) begun() bool { return r.Cursor.Proof != cursor.ProofUnknown }

// Copies counts the announced copies of a block by tier, saturating: bits 0-7 device, 8-11 host, 12-13 disk, 14-15
// external.
type Copies uint16

// copyBits are the bits of Copies by tier.
var copyBits = [...]Copies{0xff, 0xf << 8, 3 << 12, 3 << 14}

// Tiers gives the tiers that hold a copy.
func (c Copies) Tiers() (t index.Tier) {
	for i, mask := range copyBits {
		if c&mask != 0 {
			t |= 1 << i
		}
	}
	return t
}

// HashRow is a rank's name for a block (scheme tokens): the engine's hash, the key it has, and its announced copies. The
// block may have left the index, or may never have been in it: children and removals still find its key by it.
type HashRow struct {
	Hash   uint64
	Key    index.Key
	Copies Copies
}

// OrphanRow is a block whose parent is not known (scheme tokens).
type OrphanRow struct {
	Hash, Parent uint64
	Chunk        index.Chunk
	Copies       Copies
}

// Source is what a producer serves. Any goroutine may call it, several at once.
type Source interface {
	// Ready tells whether the replica is a source at all: its own bootstrap has settled and it holds something.
	Ready() bool
	// SeedableSince is since when the content is held, the zero time if nothing is.
	SeedableSince() time.Time
	// Sections lists the indexes and the ranks subscribed in each, begun or not.
	Sections() []SourceSection
	// Row gives a rank of a section as of now; ok is false once it is forgotten.
	Row(key SectionKey, rank index.Rank) (row Row, ok bool)
	// Hashes gives a rank's engine hashes and orphans (oldest first) in bounded slices: each slice is of one moment and is
	// copied out of the pump before emit is called, on the caller's goroutine; the slices are valid during the call. An
	// error of emit, or of ctx, ends it.
	Hashes(ctx context.Context, key SectionKey, rank index.Rank, emit func([]HashRow, []OrphanRow) error) error
}

// SourceSection is one index with its ranks.
type SourceSection struct {
	Key   SectionKey
	Index *index.Index
	Rows  []Row
}
