package workers

import (
	"slices"
	"time"
)

// health is what probes say about a worker that needs them.
type health int

const (
	healthUnknown health = iota
	healthy
	unhealthy
)

// probesToFail is how many probes in a row must fail before a healthy worker leaves rotation: one slow answer of
// a busy engine is no death, and its requests would trip the breaker anyway.
const probesToFail = 3

// unhealthyProbeInterval is the time between probes of a worker that does not answer, short so that it returns
// within about a second.
const unhealthyProbeInterval = time.Second

// firstRetry is how soon a worker is asked again after an introspection that gave nothing; the time doubles up to
// Options.RetryInterval. A worker turns ready a moment before its network policy or its listener does, and must not
// pay half a minute for it.
const firstRetry = time.Second

// entry is one known worker: its description, which changes, and its durable part, which does not.
type entry struct {
	ep      endpoint
	present bool
	// absentSince is when the worker left its last source; set while not present.
	absentSince time.Time
	// epoch grows whenever answers asked for earlier must not be believed any more (another URL, or it was away).
	epoch uint64

	// What the engine said of itself. facts is nil while unknown; fresh turns false when the engine may have
	// been replaced behind its identity, and the old facts serve until the new answer.
	facts    *facts
	fresh    bool
	asked    bool // at least one introspection has ended
	asking   bool
	askEpoch uint64
	askAt    time.Time
	askWait  time.Duration // until the next question, should this one give nothing
	askErr   error

	health   health
	failures int
	probing  bool
	probeAt  time.Time
	probeErr error

	durable *durable
	// Derived by settle.
	state  State
	reason string
	worker *Worker
	told   []string // complaints logged already, see complain
}

// withdraw notes that no source lists the worker any more.
func (e *entry) withdraw(now time.Time) {
	if !e.present {
		return
	}
	e.present, e.absentSince = false, now
	e.restartAsking()
}

// follow takes the description its source gives now.
func (e *entry) follow(ep endpoint, now time.Time) {
	returned := !e.present || (e.ep.condition == conditionNotReady && ep.condition != conditionNotReady)
	moved := e.ep.url == nil || e.ep.url.String() != ep.url.String()
	e.ep, e.present = ep, true
	if returned || moved {
		e.restartAsking()
		e.askAt, e.probeAt = now, now
	}
	if moved {
		e.health, e.failures = healthUnknown, 0
	}
}

// restartAsking makes every question under way stale and the facts due for a new answer.
func (e *entry) restartAsking() {
	e.epoch++
	e.asking, e.probing, e.fresh = false, false, false
	e.askWait = firstRetry
}

// eligible says that the worker could answer: present, not declared unready, and healthy where probed.
func (e *entry) eligible() bool {
	return e.present && e.ep.condition != conditionNotReady && (!e.ep.probed || e.health == healthy)
}

func (e *entry) nextAsk() (time.Time, bool) {
	return e.askAt, e.eligible() && !e.asking && !e.fresh
}

func (e *entry) nextProbe() (time.Time, bool) {
	return e.probeAt, e.present && e.ep.probed && !e.probing
}

// learn takes the end of an introspection. An error keeps the old facts and is tried again later.
func (e *entry) learn(r introspected, now time.Time, o *Options) {
	e.asking, e.asked, e.askErr = false, true, r.err
	e.askAt = now.Add(min(e.askWait, o.RetryInterval))
	e.askWait = min(2*e.askWait, o.RetryInterval)
	if r.err != nil {
		return
	}
	e.facts = &r.facts
	e.fresh = len(r.facts.models) > 0
}

// heard takes the answer of a probe. An engine that comes back from a failure may be another one: ask it again.
func (e *entry) heard(err error, now time.Time, o *Options) {
	e.probing, e.probeErr = false, err
	if err == nil {
		if e.health != healthy {
			e.fresh, e.askAt, e.askWait = false, now, firstRetry
		}
		e.health, e.failures, e.probeAt = healthy, 0, now.Add(o.ProbeInterval)
		return
	}
	e.failures++
	if e.health != healthy || e.failures >= probesToFail {
		e.health = unhealthy
	}
	e.probeAt = now.Add(unhealthyProbeInterval)
}

// settle derives state, reason and description; changed reports a new state.
func (e *entry) settle(o *Options) (t transition, changed bool) {
	models := e.facts.served()
	if o.Models != nil {
		models = e.divide(o.Models)
	}
	state, reason := e.judge(len(models) > 0, o.Models != nil)
	e.describe(models, o.APIKey)
	e.reason = reason
	if state == e.state {
		return transition{}, false
	}
	t = transition{name: e.ep.name, from: e.state, to: state, reason: reason}
	e.state = state
	return t, true
}

// judge is the state table of the package documentation, first line that holds.
func (e *entry) judge(known, divided bool) (State, string) {
	switch {
	case !e.present:
		return StateAbsent, "in no EndpointSlice"
	case e.ep.condition == conditionNotReady:
		return StateNotReady, "its endpoint is not ready"
	case e.ep.probed && e.health == healthUnknown:
		return StateUnhealthy, "its health probe has not answered yet"
	case e.ep.probed && e.health == unhealthy:
		return StateUnhealthy, e.complaint()
	case divided && len(e.ep.taken) == 0:
		return StateUnselected, "the selector of no model takes it"
	case !known && len(e.facts.served()) > 0:
		return StateOtherModel, e.otherModel()
	case !known && e.asked:
		return StateUnintrospected, e.complaint()
	case !known:
		return StateUnintrospected, "it has not been asked what it serves yet"
	case e.ep.condition == conditionServing:
		return StateLastResort, "it is terminating"
	default:
		return StateInRotation, ""
	}
}

// describe keeps the *Worker while nothing about it changed, so that readers may compare pointers within one
// snapshot and nothing is built for nothing.
func (e *entry) describe(models []Model, apiKey func() string) {
	size, events := 1, eventFacts{}
	if e.facts != nil {
		size, events = max(1, e.facts.dpSize), e.facts.events
	}
	if w := e.worker; w != nil && w.id == e.ep.id && w.name == e.ep.name && w.url.String() == e.ep.url.String() &&
		len(w.ranks) == size && slices.Equal(w.models, models) && w.events.equal(events) {
		return
	}
	for len(e.durable.loads) < size {
		e.durable.loads = append(e.durable.loads, newLoadCounters(e.durable.now))
	}
	w := &Worker{
		id: e.ep.id, name: e.ep.name, uid: e.ep.uid, url: e.ep.url, models: models,
		apiKey: apiKey, events: events, durable: e.durable,
	}
	for dp := range size {
		w.ranks = append(w.ranks, &Rank{worker: w, dp: dp, load: e.durable.loads[dp]})
	}
	e.worker = w
}
