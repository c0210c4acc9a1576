package bootstrap

import (
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/ingest"
)

// probeStep sets when the seam of a graft is asked about. Silence of an engine is no evidence that nothing came: the
// bounded wait ends in a question to the siblings.
func (m *machine) probeStep() {
	for i := range m.ranks {
		r := &m.ranks[i]
		if r.Awaiting == nil {
			continue
		}
		if mem := m.mem[r.Rank]; mem.probeEpoch != r.Awaiting.Epoch || mem.probeAt.IsZero() {
			mem.probeEpoch = r.Awaiting.Epoch
			mem.probeAt = r.Awaiting.Since.Add(firstProbe)
		}
	}
}

// judgeProbes brings what the siblings of a survey say of every graft that awaits its proof. That nobody could say is
// brought only of those whose time it was.
func (m *machine) judgeProbes(now time.Time, s *survey) {
	for i := range m.ranks {
		r := &m.ranks[i]
		if r.Awaiting == nil || r.Awaiting.Since.After(s.started) {
			continue
		}
		mem := m.mem[r.Rank]
		was := !now.Before(mem.probeAt)
		testimony := m.testimony(r, s)
		if testimony == ingest.TestimonyUnknown && !was {
			continue
		}
		mem.probeAt = now.Add(probeEvery)
		m.metrics.probed(testimony)
		m.do(doWitness{ingest.RankEpoch{Rank: r.Rank, Epoch: r.Awaiting.Epoch}, r.Awaiting.Watermark, testimony})
	}
}

// testimony sums up what the peers of a survey know of a watermark: one that is beyond it decides; else one that stands at
// it and follows the stream by itself. A sibling below it, or one that does not name the rank, is no witness.
func (m *machine) testimony(r *Rank, s *survey) ingest.Testimony {
	out := ingest.TestimonyUnknown
	for _, t := range s.tables {
		row := t.row(r)
		if row == nil || t.Format < 2 || row.Cursor.Proof == cursor.ProofUnknown || !oneLife(row, r.Awaiting.Watermark) {
			continue
		}
		switch watermark := r.Awaiting.Watermark.Seq; {
		case row.Cursor.Seq > watermark:
			return ingest.Advanced
		case row.Cursor.Seq == watermark && row.Exportable && !m.descends(row.SeededFrom):
			out = ingest.NoAdvance
		}
	}
	return out
}

// descends tells whether a state that was seeded from somebody may have come from us: then it knows no more than we do. A
// replica that is no pod does not know what others call it, and takes every name that is no present peer's for its own.
func (m *machine) descends(seededFrom string) bool {
	switch {
	case seededFrom == "":
		return false
	case m.opt.PodUID != "":
		return seededFrom == m.opt.PodUID
	}
	for _, p := range m.set.Peers {
		if p.UID == seededFrom || p.Name == seededFrom || p.URL == seededFrom {
			return false
		}
	}
	return true
}
