package bootstrap

import (
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// upstreamGone tells that no upstream router will be asked any more: there are none, or the one attempt is over.
func (m *machine) upstreamGone() bool {
	tried := m.sweep != nil && m.sweep.foreign && m.slots[slotBoot] == nil
	return !m.opt.Upstream || tried || m.upstream.Alone()
}

// foreignMayWait is how long the one attempt waits for ranks whose connection does not stand yet.
const foreignMayWait = 5 * time.Second

// fetchForeign makes the one attempt at an upstream router, with all the time that is left: for ranks that no sibling has
// (migration mode).
func (m *machine) fetchForeign(now time.Time, sweepable []*Rank, asking bool) {
	if asking || m.sweep.foreign || len(sweepable) == 0 || len(m.upstream.Peers) == 0 {
		return
	}
	all := m.complete && len(sweepable) == len(m.booting())
	if !all && now.Before(m.sweep.started.Add(foreignMayWait)) {
		return
	}
	m.sweep.foreign = true
	candidates := m.upstream.Candidates(m.rand.Shuffle)
	f := doFetch{slot: slotBoot, peer: candidates[0], foreign: true, asked: map[index.Rank]uint64{}, late: map[index.Rank]bool{}}
	floor := time.Time{}
	for _, r := range sweepable {
		f.asked[r.Rank] = r.Owed.Epoch
		if r.Owed.Since.After(floor) {
			floor = r.Owed.Since
		}
	}
	f.timeout = max(time.Millisecond, m.latest(sweepable).Sub(now))
	f.want = snapshot.Want{Local: sections(sweepable), MaxAge: max(0, now.Sub(floor))}
	m.begin(now, f, nil)
}
