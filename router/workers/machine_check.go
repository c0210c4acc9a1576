package workers

import "github.com/routerfleet/routerfleet/internal/invariant"

// check walks the whole machine: for builds that check their invariants, after every step.
func (m *machine) check() {
	hosts := map[string]ID{}
	notClosed := int64(0)
	for id, e := range m.entries {
		e.check(id)
		if e.durable.breaker.state() != BreakerClosed {
			notClosed++
		}
		host := e.ep.url.Host
		if other, taken := hosts[host]; taken && e.ep.uid != "" {
			invariant.Check(!e.present && !m.entries[other].present, "%s and %s are both known at %s", id, other, host)
		}
		hosts[host] = id
	}
	// Leases end while the machine steps, so the census may move between the two readings; never below zero.
	census := m.notClosed.Load()
	invariant.Check(census >= 0 && census <= int64(len(m.entries)), "%d of %d breakers are not closed (%d counted)",
		census, len(m.entries), notClosed)
}

func (e *entry) check(id ID) {
	invariant.Check(e.ep.id == id && e.worker != nil && e.worker.id == id, "entry %s holds the worker of %s", id, e.ep.id)
	invariant.Check(e.worker.durable == e.durable, "worker %s has the counters of another", id)
	invariant.Check(e.present == (e.state != StateAbsent), "worker %s is present=%v in state %v", id, e.present, e.state)
	invariant.Check(e.present || !e.absentSince.IsZero(), "worker %s is absent since never", id)
	invariant.Check(e.present || (!e.asking && !e.probing), "absent worker %s has a question under way", id)
	invariant.Check(!e.fresh || e.facts != nil, "worker %s has fresh facts and no facts", id)
	usable := e.state == StateInRotation || e.state == StateLastResort
	invariant.Check(!usable || len(e.worker.models) > 0, "worker %s is %v and serves nothing", id, e.state)
	invariant.Check(!usable || e.ep.condition != conditionNotReady, "worker %s is %v and not ready", id, e.state)
	for dp, r := range e.worker.ranks {
		invariant.Check(r.dp == dp && r.worker == e.worker && r.load == e.durable.loads[dp], "rank %d of %s is misplaced", dp, id)
	}
}
