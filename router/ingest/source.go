package ingest

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// SourceOptions say what of a replica the pump does not know.
type SourceOptions struct {
	// Ready tells whether the replica's own bootstrap has settled; nil means always.
	Ready func() bool
	// SeedableSince is since when the content is held; nil means that it is not known.
	SeedableSince func() time.Time
}

// Source teaches siblings what the pump knows.
type Source struct {
	pump *Pump
	opt  SourceOptions
}

var _ snapshot.Source = (*Source)(nil)

// NewSource gives a source over a pump, which must run while it is used.
func NewSource(p *Pump, o SourceOptions) *Source { return &Source{p, o} }

// Ready tells whether there is anything to teach.
func (s *Source) Ready() bool {
	if s.opt.Ready != nil && !s.opt.Ready() {
		return false
	}
	for _, r := range s.pump.View().Ranks() {
		if st := r.Status(); st.Exportable && st.blocks() > 0 {
			return true
		}
	}
	return false
}

// SeedableSince is since when the content is held.
func (s *Source) SeedableSince() time.Time {
	if s.opt.SeedableSince == nil {
		return time.Time{}
	}
	return s.opt.SeedableSince()
}

// Sections lists the indexes and their ranks.
func (s *Source) Sections() []snapshot.SourceSection {
	v := s.pump.View()
	out := make([]snapshot.SourceSection, 0, len(v.Sections()))
	at := map[*Section]int{}
	for _, x := range v.Sections() {
		at[x] = len(out)
		out = append(out, snapshot.SourceSection{Key: s.pump.exportKey(x), Index: x.Index})
	}
	for _, r := range v.Ranks() {
		if i, ok := at[r.Section]; ok {
			out[i].Rows = append(out[i].Rows, r.row(r.Status()))
		}
	}
	return out
}

// row gives a rank as siblings are told of it.
func (r *Rank) row(st *Status) snapshot.Row {
	return snapshot.Row{
		Rank: r.Rank, Worker: r.Engine, DP: r.Rank.DP,
		Cursor: st.Cursor, Life: st.Life, WalkedTo: st.WalkedTo, SeededFrom: st.SeededFrom,
		Digest: st.Digest, DigestVersion: st.DigestVersion, Blocks: st.blocks(), Exportable: st.Exportable,
	}
}

// blocks counts blocks in all tiers; one in two counts twice.
func (st *Status) blocks() (n int64) {
	for _, b := range st.Blocks {
		n += b
	}
	return n
}

// Row gives a rank as it is now, not as it was published last: what the index holds is never ahead of it.
func (s *Source) Row(key snapshot.SectionKey, rank index.Rank) (row snapshot.Row, ok bool) {
	_, _ = s.pump.during(context.Background(), func(p *Pump) bool { // fails when the pump has stopped: not ok
		if r := p.find(key, rank); r != nil {
			row, ok = r.public.row(r.status()), true
		}
		return false
	})
	return row, ok
}

// Hashes gives a rank's names for blocks, then its orphans. A rank that is forgotten meanwhile ends it early.
func (s *Source) Hashes(ctx context.Context, key snapshot.SectionKey, rank index.Rank, emit func([]snapshot.HashRow, []snapshot.OrphanRow) error) error {
	var hashes []snapshot.HashRow
	for segment := range keySegments {
		_, err := s.pump.during(ctx, func(p *Pump) bool {
			hashes = hashes[:0]
			if r := p.find(key, rank); r != nil && r.ledger.keys != nil {
				hashes = r.ledger.keys.rows(segment, hashes)
			}
			return false
		})
		if err == nil && len(hashes) > 0 {
			err = emit(hashes, nil)
		}
		if err != nil {
			return err
		}
	}
	return s.orphans(ctx, key, rank, emit)
}

func (s *Source) orphans(ctx context.Context, key snapshot.SectionKey, rank index.Rank, emit func([]snapshot.HashRow, []snapshot.OrphanRow) error) error {
	var rows []snapshot.OrphanRow
	after := uint64(0)
	for {
		_, err := s.pump.during(ctx, func(p *Pump) bool {
			rows = rows[:0]
			if r := p.find(key, rank); r != nil && r.ledger.orphans != nil {
				rows, after = r.ledger.orphans.rows(after, feedAtOnce, rows)
			}
			return false
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := emit(nil, rows); err != nil {
			return err
		}
	}
}

// find gives a rank of a section, nil if there is none.
func (p *Pump) find(key snapshot.SectionKey, rank index.Rank) *pumped {
	r := p.ranks[rank]
	if r == nil || p.exportKey(r.ledger.section) != key {
		return nil
	}
	return r
}

// SnapshotKey names a section as siblings do.
func (p *Pump) SnapshotKey(s *Section) snapshot.SectionKey { return p.exportKey(s) }

func (p *Pump) exportKey(s *Section) snapshot.SectionKey {
	k := snapshot.SectionKey{Model: s.Key.Model, Scheme: s.Key.Scheme, BlockSize: s.Key.BlockSize, Bigram: s.Key.Bigram}
	if s.Key.Scheme == index.SchemeTokens {
		k.SeedID = s.seedID
	}
	return k
}

// seedID is the seed's name in sections.
func seedID(s index.Seed) uint64 {
	b, err := hex.DecodeString(s.ID())
	if err != nil || len(b) != 8 {
		return 0 // the name of a seed is 16 hex digits
	}
	return binary.BigEndian.Uint64(b)
}
