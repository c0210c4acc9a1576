package prober

import (
	"errors"
	"maps"
	"time"

	"github.com/routerfleet/routerfleet/controllers/rollout"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

// settle books the outcome of a read, plans the next, and wakes the owner if it matters to it.
func (p *Prober) settle(j job, s *status.Status, err error) {
	now := time.Now()
	p.mu.Lock()
	f := p.fleets[j.fleet]
	if f == nil || f.entries[j.target.Container] == nil {
		p.mu.Unlock()
		return // no longer tracked
	}
	e := f.entries[j.target.Container]
	before := e.answer
	e.asked = false
	wasScout := f.scout() == e
	matters := e.book(now, s, err)
	if wasScout && (matters || !e.settled()) {
		f.readAgain(now, e)
	}
	e.due = now.Add(spread(e.interval(now, e == f.scout())))
	if e.again {
		e.again, e.due = false, now
	}
	if errors.Is(err, errRefused) && now.Sub(f.refused) >= refusedInterval {
		f.refused, matters = now, true
	}
	after := e.answer
	p.mu.Unlock()

	p.logTransition(j, before, after, err)
	if matters {
		p.wake(j.fleet)
	}
}

// book writes an outcome into the answer and tells whether the owner should know.
func (e *entry) book(now time.Time, s *status.Status, err error) bool {
	if err != nil {
		if e.answer.SilentSince.IsZero() {
			e.answer.SilentSince = now
			return e.answer.Status == nil // never answered: the clock of silence starts for the planner
		}
		if e.told || now.Sub(e.answer.SilentSince) < Silence {
			return false
		}
		e.told = true
		return true
	}
	was := e.answer
	e.answer, e.told = rollout.Answer{Status: s, ReadAt: now}, false
	return was.Status == nil || !was.SilentSince.IsZero() || !same(was.Status, s)
}

// same tells whether two answers mean the same to planner and conditions.
func same(a, b *status.Status) bool {
	counts := func(s *status.Status) map[status.Code]int {
		out := map[status.Code]int{}
		for _, p := range s.Problems {
			out[p.Code] += p.Count
		}
		return out
	}
	return a.Boot == b.Boot && a.State == b.State && a.Verdict == b.Verdict && a.Revision == b.Revision &&
		a.Workers == b.Workers && a.Ranks == b.Ranks && a.SettledAt.Equal(b.SettledAt) && maps.Equal(counts(a), counts(b))
}

func (e *entry) settled() bool {
	return e.answer.Status != nil && e.answer.Status.State == status.StateSettled && e.answer.SilentSince.IsZero()
}

// scout is the settled entry with the lowest pod UID, or nil.
func (f *fleet) scout() *entry {
	var best *entry
	for _, e := range f.entries {
		if e.settled() && (best == nil || e.target.Container.Pod < best.target.Container.Pod) {
			best = e
		}
	}
	return best
}

// readAgain makes every other entry due: what changed for the scout may have changed for all, its silence too.
func (f *fleet) readAgain(now time.Time, scout *entry) {
	for _, e := range f.entries {
		switch {
		case e == scout:
		case e.asked:
			e.again = true
		default:
			e.due = now
		}
	}
}

func (e *entry) interval(now time.Time, scout bool) time.Duration {
	silentSince := e.answer.SilentSince
	switch {
	case scout, !silentSince.IsZero() && now.Sub(silentSince) >= weary:
		return scoutInterval
	case e.settled():
		return settledInterval
	default:
		return settlingInterval
	}
}

// logTransition writes a line when a router falls silent for good and when it answers again, not at every failed read.
func (p *Prober) logTransition(j job, before, after rollout.Answer, err error) {
	log := p.log.WithValues("fleet", j.fleet, "podUID", j.target.Container.Pod, "address", j.target.Address)
	switch {
	case before.SilentSince.IsZero() && !after.SilentSince.IsZero() && before.Status != nil:
		log.Info("router does not answer", "from", "answering", "to", "silent", "why", err.Error())
	case !before.SilentSince.IsZero() && after.SilentSince.IsZero() && before.Status != nil:
		log.Info("router answers again", "from", "silent", "to", "answering", "state", after.Status.State)
	}
}
