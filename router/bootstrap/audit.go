package bootstrap

import (
	"slices"
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// disputed is a rank whose digest differs from a sibling's at one cursor.
type disputed struct {
	at     cursor.Cursor
	digest uint64
}

// auditStep has one sibling asked now and then, chosen at random (B7).
func (m *machine) auditStep(now time.Time) {
	if now.Before(m.nextAudit) || !m.track.settled(now) || m.auditPeer != "" || len(m.ranks) == 0 {
		return
	}
	m.nextAudit = now.Add(m.jittered(auditEvery))
	for _, c := range m.candidates() {
		if !c.peer.Terminating {
			m.auditPeer = c.peer.ID
			return
		}
	}
}

// judgeAudit compares what the audited sibling says with what stands here.
func (m *machine) judgeAudit(now time.Time, s *survey) {
	t := s.tables[m.auditPeer]
	peer := m.peers[m.auditPeer]
	m.auditPeer = ""
	if t == nil || peer == nil {
		m.metrics.audited("unanswered")
		return
	}
	for i := range m.ranks {
		r := &m.ranks[i]
		row := t.row(r)
		if row == nil || !auditable(r) || !oneLife(row, r.Cursor) || row.Cursor.Proof == cursor.ProofUnknown {
			continue
		}
		m.lookBehind(now, r, row)
		if !comparable(r, row) {
			continue
		}
		switch {
		case r.Digest == row.Digest:
			m.agree(r)
		case row.Cursor.Proof > r.Cursor.Proof: // the other side is the weaker one, and finds out by itself
			m.metrics.audited("weaker_sibling")
		case row.Cursor.Proof < r.Cursor.Proof:
			m.metrics.audited("differs")
			m.do(doSuspect{r.Rank, r.Cursor, ingest.SuspectWeaker})
		default:
			m.metrics.audited("differs")
			if m.dispute == nil {
				m.dispute = map[index.Rank]disputed{}
			}
			m.dispute[r.Rank] = disputed{r.Cursor, r.Digest}
			m.log.Warn("rank differs from a sibling: asking the others", "worker", r.Name, "rank", r.Rank.DP,
				"peer", peer.peer.Name, "seq", r.Cursor.Seq)
		}
	}
}

// auditable tells whether a rank stands still enough to be compared at all.
func auditable(r *Rank) bool {
	return r.Following && r.Connected && r.begun() && r.Awaiting == nil && (r.Owed == nil || r.Owed.Kind == ingest.OwedHeal)
}

// comparable tells whether two digests of one rank speak of the same: equal seq and version, neither side doubtful or
// partial, and both cursors past what their snapshots may have walked into (H12).
func comparable(r *Rank, row *snapshot.TableRow) bool {
	return r.Cursor.Seq == row.Cursor.Seq && r.DigestVersion == row.DigestVersion && row.Exportable &&
		r.trusted() && row.Cursor.Proof != cursor.Untrusted && !r.Cursor.Partial && !row.Cursor.Partial &&
		r.Cursor.Seq >= r.WalkedTo && row.Cursor.Seq >= row.WalkedTo
}

func (m *machine) agree(r *Rank) {
	m.metrics.audited("equal")
	if r.Suspect {
		m.do(doEqual{r.Rank, r.Cursor})
	}
}

// lookBehind reports a sibling that is ahead. The pump takes the second time running, with a cursor that has not moved, for
// a gap without a batch (H9).
func (m *machine) lookBehind(now time.Time, r *Rank, row *snapshot.TableRow) {
	mem := m.mem[r.Rank]
	if row.Cursor.Seq <= r.Cursor.Seq {
		mem.behindAt = -1
		return
	}
	again := mem.behindAt == r.Cursor.Seq
	mem.behindAt = r.Cursor.Seq
	if again && !m.mayRepair(now) {
		return
	}
	if again {
		m.metrics.audited("behind")
	}
	m.do(doBehind{r.Rank, r.Cursor, row.Cursor})
}

// judgeDispute decides about ranks that differ from one sibling, once the others were asked: agreement with any of them
// clears; against all of two or more the rank is in the minority; with nobody else to compare, it is alone with its
// doubt (H10).
func (m *machine) judgeDispute(s *survey) {
	disputes := m.dispute
	m.dispute = nil
	for id, d := range disputes {
		r := m.byRank[id]
		if r == nil || !auditable(r) || r.Cursor.Seq != d.at.Seq || r.Digest != d.digest {
			continue // it moved on; the next audit sees
		}
		agreed, differs := 0, 0
		for _, t := range s.tables {
			row := t.row(r)
			if row == nil || !oneLife(row, r.Cursor) || !comparable(r, row) {
				continue
			}
			if row.Digest == r.Digest {
				agreed++
			} else {
				differs++
			}
		}
		switch {
		case agreed > 0:
			m.agree(r)
		case differs >= 2:
			m.do(doSuspect{r.Rank, d.at, ingest.SuspectMinority})
		case differs == 1:
			m.do(doSuspect{r.Rank, d.at, ingest.SuspectAlone})
		}
	}
}

// mayRepair spends one of the repairs that audits may begin a minute; those of suspicions the pump counts.
func (m *machine) mayRepair(now time.Time) bool {
	m.repairs = slices.DeleteFunc(m.repairs, func(at time.Time) bool { return !now.Before(at.Add(auditWindow)) })
	if len(m.repairs) >= maxAuditRepairs {
		return false
	}
	m.repairs = append(m.repairs, now)
	return true
}
