package bootstrap

import (
	"slices"
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// healStep looks after ranks that serve, but could be better (B16, H13): they are asked for again after 30 s, 60 s .. 10 min.
// Before a fetch the pump is told to keep what it applies from then on, or the section could not be spliced.
func (m *machine) healStep(now time.Time) {
	var kept []*Rank
	for i := range m.ranks {
		r := &m.ranks[i]
		if !r.owes(ingest.OwedHeal) {
			continue
		}
		mem := m.mem[r.Rank]
		if mem.healAt.IsZero() {
			mem.healPause = firstHeal
			mem.healAt = now.Add(m.jittered(firstHeal))
		}
		if !r.Owed.Since.IsZero() && !m.underWay(r) && !m.over(r) {
			kept = append(kept, r)
		}
	}
	if len(kept) == 0 || m.slots[slotRepair] != nil {
		return
	}
	m.fetchRepair(now, kept, m.betterOffers)
	if m.slots[slotRepair] == nil { // the sources are gone
		for _, r := range kept {
			m.healed(now, r, false)
		}
	}
}

// healDue tells whether siblings are to be asked for a better state of a rank.
func (m *machine) healDue(now time.Time, r *Rank, mem *rankMemory) bool {
	return r.owes(ingest.OwedHeal) && r.Owed.Since.IsZero() && !mem.healAt.IsZero() && !now.Before(mem.healAt) && len(m.set.Peers) > 0
}

// judgeHeals has the pump keep what ranks apply for which somebody has better, and has the others wait longer.
func (m *machine) judgeHeals(now time.Time) {
	candidates := m.candidates()
	var keep []ingest.RankEpoch
	for i := range m.ranks {
		r := &m.ranks[i]
		mem := m.mem[r.Rank]
		if !m.healDue(now, r, mem) {
			continue
		}
		m.backOff(now, mem)
		if len(m.betterOffers(candidates, r, now)) > 0 {
			keep = append(keep, r.at())
		} else {
			m.metrics.healed("nothing_better")
		}
	}
	if len(keep) > 0 {
		m.do(doKeep{keep})
		m.log.Info("ranks swept again", "ranks", len(keep))
	}
}

func (m *machine) backOff(now time.Time, mem *rankMemory) {
	mem.healPause = min(max(2*mem.healPause, firstHeal), maxHeal)
	mem.healAt = now.Add(m.jittered(mem.healPause))
}

// healed ends an attempt. One that failed ends what the pump keeps for it.
func (m *machine) healed(now time.Time, r *Rank, grafted bool) {
	if grafted {
		m.metrics.healed("grafted")
		return
	}
	m.metrics.healed("failed")
	if r.owes(ingest.OwedHeal) {
		m.abandon(ingest.AbandonUncovered, r)
		m.backOff(now, m.mem[r.Rank])
	}
}

func (m *machine) allHeal(asked map[index.Rank]uint64) bool {
	for id := range asked {
		if r := m.byRank[id]; r == nil || !r.owes(ingest.OwedHeal) {
			return false
		}
	}
	return true
}

// betterOffers are the siblings that hold a better state of a rank than it has itself.
func (m *machine) betterOffers(candidates []*memory, r *Rank, now time.Time) []offer {
	return slices.DeleteFunc(offers(candidates, r, now), func(o offer) bool {
		return !m.better(o.peer.table, o.peer.table.row(r), r)
	})
}

// better tells whether a row is worth a heal: a solid state of the same life that is complete, or as partial as ours and
// older. What descends from us is not better.
func (m *machine) better(t *table, row *snapshot.TableRow, r *Rank) bool {
	switch {
	case !solid(row) || !oneLife(row, r.Cursor):
		return false
	case !r.begun():
		return true
	case !row.Cursor.Partial:
		return r.Cursor.Partial || !r.trusted() || r.Cursor.Proof == cursor.Unwitnessed || !r.recovered()
	case !r.Cursor.Partial || r.grafted() || m.descends(row.SeededFrom):
		return false
	default:
		return m.older(t.SeedableSince, r)
	}
}

// older tells whether a peer's content is older than a rank's by more than chance.
func (m *machine) older(since time.Time, r *Rank) bool {
	ours := m.mem[r.Rank].since
	return !since.IsZero() && (ours.IsZero() || since.Add(ageMargin).Before(ours))
}
