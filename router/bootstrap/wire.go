package bootstrap

import (
	"cmp"
	"context"

	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/peers"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// OfPump gives the pump as the coordinator needs it.
func OfPump(p *ingest.Pump) Pump { return pump{p} }

// pump is the pump itself but for its view, and for a section being one of the client's.
type pump struct{ *ingest.Pump }

// Ranks implements Pump.
func (p pump) Ranks() []Rank {
	list := p.View().Ranks()
	out := make([]Rank, 0, len(list))
	for _, r := range list {
		out = append(out, rankOf(r, p.SnapshotKey(r.Section)))
	}
	return out
}

func rankOf(r *ingest.Rank, key snapshot.SectionKey) Rank {
	s := r.Status()
	out := Rank{
		Rank: r.Rank, Name: r.Worker, Worker: r.Engine, Section: key,
		Following: s.State == ingest.Following, Proving: s.State == ingest.Proving,
		Repairing: s.State == ingest.Repairing, Cold: s.State == ingest.Cold, Connected: s.Connected,
		Cursor: s.Cursor, Life: s.Life, Digest: s.Digest, DigestVersion: s.DigestVersion, WalkedTo: s.WalkedTo,
		Suspect: s.Trust.Suspect, SeededFrom: s.SeededFrom, Owed: s.Owed, Awaiting: s.Awaiting, Outcome: s.Outcome,
	}
	for _, n := range s.Blocks {
		out.Blocks += n
	}
	return out
}

// Graft implements Pump.
func (p pump) Graft(ctx context.Context, s Section, owed []ingest.RankEpoch) ([]ingest.GraftResult, error) {
	return p.Pump.Graft(ctx, s.(*snapshot.Vetted), owed)
}

// OfClient gives the client as the coordinator needs it.
func OfClient(c *snapshot.Client) Client { return client{c} }

type client struct{ *snapshot.Client }

func peerOf(p peers.Peer, upstream bool) snapshot.Peer {
	return snapshot.Peer{Name: cmp.Or(p.UID, p.Name), URL: p.URL, Upstream: upstream}
}

// Cursors implements Client.
func (c client) Cursors(ctx context.Context, p peers.Peer) (*snapshot.Table, error) {
	return c.Client.Cursors(ctx, peerOf(p, false))
}

// Fetch implements Client.
func (c client) Fetch(ctx context.Context, p peers.Peer, upstream bool, w snapshot.Want) (Body, error) {
	b, err := c.Client.Fetch(ctx, peerOf(p, upstream), w)
	if b == nil {
		return nil, err
	}
	return body{b}, err
}

type body struct{ *snapshot.Body }

// Next implements Body.
func (b body) Next(ctx context.Context) (Section, error) {
	v, err := b.Body.Next(ctx)
	if err != nil {
		return nil, err
	}
	return v, nil
}
