package ingest

import (
	"context"

	"github.com/routerfleet/routerfleet/router/index"
)

// VettedRank is a rank of a section, as the section has it.
type VettedRank struct {
	Rank   index.Rank // ours
	Cursor Cursor
	// WalkedTo is the seq up to which the section may hold effects beyond its cursor (H12).
	WalkedTo   int64
	SeededFrom string
}

// HashRow is the engine's name for a block of a rank (scheme tokens), with its announced copies.
type HashRow struct {
	Name   uint64
	Key    index.Key
	Copies uint16
}

// OrphanRow is a block of a rank whose parent was not known (scheme tokens).
type OrphanRow struct {
	Name, Parent uint64
	Chunk        index.Chunk
	Copies       uint16
}

// Vetted is one vetted section of a sibling's snapshot.
type Vetted interface {
	Ranks() []VettedRank
	// Next gives the next chunk; io.EOF only after a section that is whole. After any other error nothing of it may be used.
	Next(ctx context.Context) (Chunk, error)
}

// Chunk is a bounded piece of a section. Ranks are numbered as in Vetted.Ranks.
type Chunk interface {
	Nodes(f func(k index.Key, p index.Parent, who []index.Holding))
	Hashes(f func(rank int, r HashRow))
	Orphans(f func(rank int, r OrphanRow))
}

// Changed has a value after the obligation, the unproven graft or the outcome of some rank changed: scan the View then.
func (p *Pump) Changed() <-chan struct{} { return p.changed }

// Graft offers a section for what ranks are owed. It pulls the section's chunks in the caller's goroutine and has the pump
// restore them bit by bit, unseen; once the section is whole, what was held beyond its cursors is applied to it and all
// of it becomes the ranks' state at once. An error is one of the section or of the context: nothing has changed then.
func (p *Pump) Graft(_ context.Context, _ Vetted, owed []RankEpoch) ([]GraftResult, error) {
	out := make([]GraftResult, 0, len(owed))
	for _, o := range owed {
		out = append(out, GraftResult{RankEpoch: o, Verdict: GraftStale})
	}
	return out, nil
}

// Keep has the pump keep what ranks that are owed a Heal apply from now on, so that a section that is exported from now on
// can be spliced to it (H11). It ends with the graft, with Abandon, or when there is no more room.
func (p *Pump) Keep(context.Context, []RankEpoch) error { return nil }

// Abandon says that nobody looks any more for what ranks are owed. A pending rank asks its engine for everything if that
// repeats, and otherwise follows its stream from what is held on; one in a gap goes on over it and is not trusted.
func (p *Pump) Abandon(context.Context, []RankEpoch, AbandonWhy) error { return nil }

// Witness brings what siblings said of a graft that awaits the proof of its seam.
func (p *Pump) Witness(context.Context, RankEpoch, Cursor, Testimony) error { return nil }

// Suspect brings that a rank differs from siblings at a cursor. It changes nothing if the rank stands elsewhere now.
func (p *Pump) Suspect(context.Context, index.Rank, Cursor, Suspicion) error { return nil }

// Equal brings that a rank equals a sibling at a cursor: a suspicion that an audit raised is over.
func (p *Pump) Equal(context.Context, index.Rank, Cursor) error { return nil }

// Behind brings that a sibling of the same life is ahead of a rank's cursor. The second time running that the cursor has
// not moved it is taken for a gap without a batch (H9).
func (p *Pump) Behind(ctx context.Context, rank index.Rank, at, sibling Cursor) error { return nil }
