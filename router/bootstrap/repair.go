package bootstrap

import (
	"slices"
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// repairStep looks after ranks with a gap: batches are held, so it is a matter of seconds. The engine was asked first, by
// the pump.
func (m *machine) repairStep(now time.Time) {
	var ready []*Rank
	for i := range m.ranks {
		r := &m.ranks[i]
		if !r.owes(ingest.OwedRepair) || r.Owed.Since.IsZero() {
			continue
		}
		mem := m.mem[r.Rank]
		if mem.repairEpoch != r.Owed.Epoch {
			mem.repairEpoch, mem.repairAt, mem.repairSurveys = r.Owed.Epoch, now, 0
		}
		if len(m.set.Peers) == 0 {
			m.abandon(ingest.AbandonNoPeers, r)
		}
		if !m.over(r) {
			ready = append(ready, r)
		}
	}
	m.fetchRepair(now, ready, m.repairOffers)
}

// repairDue tells whether siblings are to be asked about a rank's gap.
func (m *machine) repairDue(now time.Time, r *Rank, mem *rankMemory) bool {
	return r.owes(ingest.OwedRepair) && mem.repairEpoch == r.Owed.Epoch && !m.over(r) && !m.underWay(r) && !now.Before(mem.repairAt)
}

// underWay tells whether a fetch for the rank runs.
func (m *machine) underWay(r *Rank) bool {
	for _, f := range m.slots {
		if f != nil {
			if _, ok := f.asked[r.Rank]; ok {
				return true
			}
		}
	}
	return false
}

// fetchRepair begins a fetch for ranks whose sources are known.
func (m *machine) fetchRepair(now time.Time, ready []*Rank, of func([]*memory, *Rank, time.Time) []offer) {
	if m.slots[slotRepair] != nil || len(ready) == 0 {
		return
	}
	candidates := m.candidates()
	offered := make(map[index.Rank][]offer, len(ready))
	for _, r := range ready {
		offered[r.Rank] = of(candidates, r, now)
	}
	if p, ok := choose(ready, offered); ok {
		m.fetch(now, slotRepair, p, nil)
	}
}

// repairOffers are the siblings that stand beyond a rank's gap in its own life, with a state that is origin or proven.
func (m *machine) repairOffers(candidates []*memory, r *Rank, now time.Time) []offer {
	reach := max(r.Owed.FirstHeld-1, r.Owed.Goal)
	return slices.DeleteFunc(offers(candidates, r, now), func(o offer) bool {
		row := o.peer.table.row(r)
		return o.peer.table.askedAt.Before(r.Owed.Since) || !oneLife(row, r.Owed.Cursor) || !solid(row) ||
			row.Cursor.Partial && !r.Cursor.Partial || o.seq < reach
	})
}

// solid tells whether a state may replace another one.
func solid(row *snapshot.TableRow) bool {
	return row.Cursor.Proof == cursor.Origin || row.Cursor.Proof == cursor.Proven
}

// judgeRepairs gives up the repairs that nobody can make; what is held must not wait for ever.
func (m *machine) judgeRepairs(now time.Time) {
	candidates := m.candidates()
	for i := range m.ranks {
		r := &m.ranks[i]
		mem := m.mem[r.Rank]
		if !m.repairDue(now, r, mem) {
			continue
		}
		mem.repairSurveys++
		mem.repairAt = now.Add(repairEvery)
		if mem.repairSurveys >= repairSurveys && len(m.repairOffers(candidates, r, now)) == 0 {
			m.abandon(ingest.AbandonNothingToRecover, r)
		}
	}
}

// afterRepair has ranks that were not repaired or healed asked for again, in a moment or later.
func (m *machine) afterRepair(now time.Time, was *fetching, answered map[index.Rank]bool) {
	if was.slot != slotRepair {
		return
	}
	for id := range was.asked {
		r := m.byRank[id]
		if r == nil {
			continue
		}
		if was.heals {
			m.healed(now, r, answered[id])
			continue
		}
		m.mem[id].repairAt = now
	}
}
