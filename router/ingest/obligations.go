package ingest

import (
	"context"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// offer is one vetted section of a sibling's snapshot: a *snapshot.Vetted.
type offer interface {
	Key() snapshot.SectionKey
	Ranks() []snapshot.VettedRank
	Retain(keep func(index.Rank) bool)
	next(ctx context.Context) (chunk, error)
}

// chunk is a bounded piece of a section. Ranks are numbered as in offer.Ranks.
type chunk interface {
	Runs(f func(p index.Parent, keys []index.Key, who []index.Holding))
	Hashes(f func(rank int, h snapshot.HashRow))
	Orphans(f func(rank int, o snapshot.OrphanRow))
}

// vetted is the only offer there is but for tests.
type vetted struct{ *snapshot.Vetted }

func (v vetted) next(ctx context.Context) (chunk, error) { return v.Next(ctx) }

// Changed has a value after the obligation, the unproven graft or the outcome of some rank changed: scan the View then.
func (p *Pump) Changed() <-chan struct{} { return p.changed }

// Graft offers a section for what ranks are owed. It pulls the section's chunks in the caller's goroutine and has the pump
// restore them bit by bit, unseen; once the section is whole, what was held beyond its cursors is applied to it and all
// of it becomes the ranks' state at once. An error is one of the section or of the context: nothing has changed then.
func (p *Pump) Graft(_ context.Context, _ *snapshot.Vetted, owed []RankEpoch) ([]GraftResult, error) {
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
