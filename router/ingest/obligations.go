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

// Keep has the pump keep what ranks that are owed a Heal apply from now on, so that a section that is exported from now on
// can be spliced to it (H11): Owed.Since says since when. It ends with the graft, with Abandon, or without room.
func (p *Pump) Keep(ctx context.Context, owed []RankEpoch) error {
	return p.instruct(ctx, owed, func(o RankEpoch) message { return keep{o.Epoch} })
}

// Abandon says that nobody looks any more for what ranks are owed. A pending rank asks its engine for everything if that
// repeats, and otherwise follows its stream from what is held on; one in a gap goes on over it and is not trusted.
func (p *Pump) Abandon(ctx context.Context, owed []RankEpoch, why AbandonWhy) error {
	return p.instruct(ctx, owed, func(o RankEpoch) message { return abandoned{o.Epoch, why} })
}

// Witness brings what siblings said of a graft that awaits the proof of its seam.
func (p *Pump) Witness(ctx context.Context, o RankEpoch, watermark Cursor, word Testimony) error {
	return p.instruct(ctx, []RankEpoch{o}, func(o RankEpoch) message { return witnessed{o.Epoch, watermark, word} })
}

// Suspect brings that a rank differs from siblings at a cursor. It changes nothing if the rank stands elsewhere now.
func (p *Pump) Suspect(ctx context.Context, rank index.Rank, at Cursor, why Suspicion) error {
	_, err := p.during(ctx, func(p *Pump) bool {
		if r := p.ranks[rank]; r != nil {
			before := r.state.owed.Epoch
			p.step(r, suspected{at, why, p.mayRepair()})
			if o := r.state.owed; o.Kind == OwedRepair && o.Epoch != before {
				p.audits = append(p.audits, p.opt.Now())
			}
		}
		return false
	})
	return err
}

// mayRepair tells whether an audit may begin a repair now (B7).
func (p *Pump) mayRepair() bool {
	now := p.opt.Now()
	for len(p.audits) > 0 && now.Sub(p.audits[0]) >= auditWindow {
		p.audits = p.audits[1:]
	}
	return len(p.audits) < auditRepairs
}

// Equal brings that a rank equals a sibling at a cursor: a suspicion that an audit raised is over.
func (p *Pump) Equal(ctx context.Context, rank index.Rank, at Cursor) error {
	return p.instruct(ctx, []RankEpoch{{Rank: rank}}, func(RankEpoch) message { return equalled{at} })
}

// Behind brings that a sibling of the same life is ahead of a rank's cursor. The second time running that the cursor has
// not moved it is taken for a gap without a batch (H9).
func (p *Pump) Behind(ctx context.Context, rank index.Rank, at, sibling Cursor) error {
	return p.instruct(ctx, []RankEpoch{{Rank: rank}}, func(RankEpoch) message { return outrun{at, sibling} })
}

// instruct has ranks take a message each and returns when they have. Ranks that are forgotten are passed over.
func (p *Pump) instruct(ctx context.Context, to []RankEpoch, m func(RankEpoch) message) error {
	_, err := p.during(ctx, func(p *Pump) bool {
		for _, o := range to {
			if r := p.ranks[o.Rank]; r != nil {
				p.step(r, m(o))
			}
		}
		return false
	})
	return err
}
