package workers

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/routerfleet/routerfleet/internal/invariant"
)

// machine is the registry's plain state. It has no goroutine, clock or socket: the writer hands it one message at
// a time with the present time, performs the effects it returns and publishes its snapshot.
type machine struct {
	opts      Options // defaults applied
	static    []endpoint
	sliced    []endpoint
	slices    int
	skips     []skip
	synced    bool
	entries   map[ID]*entry
	notClosed *atomic.Int64
	effects   []effect
}

// message is what the machine steps on: a closed set.
type message interface {
	apply(m *machine, now time.Time)
}

// listed is the complete set of workers the slices want, never a partial one, with what else they hold.
type listed struct {
	set    []endpoint
	slices int    // how many slices there are
	skips  []skip // endpoints that are no workers, by reason
}

// introspected is the end of one introspection (all its attempts).
type introspected struct {
	id    ID
	epoch uint64
	facts facts
	err   error
}

// probed is the answer of one health probe.
type probed struct {
	id    ID
	epoch uint64
	err   error
}

// tick says that a deadline the machine named has come.
type tick struct{}

// effect is what the writer does for the machine: a closed set.
type effect interface{ effect() }

// introspect asks a worker what it serves; the answer comes back as introspected with the same epoch.
type introspect struct {
	id    ID
	epoch uint64
	url   string
}

// probe asks a worker whether it is healthy; the answer comes back as probed with the same epoch.
type probe struct {
	id    ID
	epoch uint64
	url   string
}

// transition reports that a worker changed its state.
type transition struct {
	name     string
	from, to State
	reason   string
}

// forgot reports that a worker's entry is gone.
type forgot struct{ name, why string }

func (introspect) effect() {}
func (probe) effect()      {}
func (transition) effect() {}
func (forgot) effect()     {}

func newMachine(o Options) *machine {
	m := &machine{
		opts: o, synced: o.Slices == nil, entries: map[ID]*entry{}, notClosed: new(atomic.Int64),
	}
	for _, w := range o.Static {
		m.static = append(m.static, endpoint{
			id: w.ID, name: string(w.ID), url: w.URL, probed: true, taken: o.Models.Take(w.Labels),
		})
	}
	return m
}

// step applies one message. The effects are to be performed in order.
func (m *machine) step(now time.Time, msg message) []effect {
	m.effects = nil
	msg.apply(m, now)
	m.forget(now)
	m.schedule(now)
	for _, id := range slices.Sorted(maps.Keys(m.entries)) {
		e := m.entries[id]
		t, changed := e.settle(&m.opts)
		if changed {
			m.effects = append(m.effects, t)
		}
		if c, news := e.complain(changed && t.reason == e.complaint()); news {
			m.effects = append(m.effects, c)
		}
	}
	if invariant.Enabled {
		m.check()
	}
	return m.effects
}

func (l listed) apply(m *machine, now time.Time) {
	m.effects = append(m.effects, newsOf(m.skips, l.skips)...)
	for i := range l.set {
		l.set[i].taken = m.opts.Models.Take(l.set[i].labels...)
	}
	m.sliced, m.slices, m.skips, m.synced = l.set, l.slices, l.skips, true
	m.reconcile(now)
}

func (tick) apply(m *machine, now time.Time) {
	if len(m.entries) == 0 { // the first step of a registry with static workers only
		m.reconcile(now)
	}
}

func (r introspected) apply(m *machine, now time.Time) {
	if e := m.entries[r.id]; e != nil && e.asking && e.askEpoch == r.epoch {
		e.learn(r, now, &m.opts)
	}
}

func (r probed) apply(m *machine, now time.Time) {
	if e := m.entries[r.id]; e != nil && e.probing && e.epoch == r.epoch {
		e.heard(r.err, now, &m.opts)
	}
}

// reconcile makes the entries follow the wanted set: new ones appear, known ones keep what they are and follow
// their description, missing ones become absent.
func (m *machine) reconcile(now time.Time) {
	wanted := m.wanted()
	for id, e := range m.entries {
		if _, ok := wanted[id]; !ok {
			e.withdraw(now)
		}
	}
	for id, ep := range wanted {
		e := m.entries[id]
		if e == nil {
			e = &entry{durable: m.newDurable(ep.name)}
			m.entries[id] = e
		}
		e.follow(ep, now)
	}
}

// wanted is the union of the sources. A static worker at the address of a discovered one is the same engine under
// two names; the discovered one knows more about it.
func (m *machine) wanted() map[ID]endpoint {
	set := make(map[ID]endpoint, len(m.static)+len(m.sliced))
	hosts := make(map[string]bool, len(m.sliced))
	for _, ep := range m.sliced {
		set[ep.id], hosts[ep.url.Host] = ep, true
	}
	for _, ep := range m.static {
		if !hosts[ep.url.Host] {
			set[ep.id] = ep
		}
	}
	return set
}

func (m *machine) newDurable(name string) *durable {
	b := &breaker{
		limits:    circuitLimits{threshold: m.opts.BreakerThreshold, coolDown: m.opts.BreakerCoolDown},
		now:       m.opts.Now,
		notClosed: m.notClosed,
	}
	log := m.opts.Log
	b.changed = func(from, to BreakerState) {
		log.Info("breaker changed", "worker", name, "from", from.String(), "to", to.String())
	}
	return &durable{breaker: b, now: m.opts.Now}
}

// forget drops entries that have been absent for long enough, or whose address another worker owns now.
func (m *machine) forget(now time.Time) {
	owned := map[string]bool{}
	for _, e := range m.entries {
		if e.present {
			owned[e.ep.url.Host] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.entries)) {
		e := m.entries[id]
		var why string
		switch {
		case e.present:
			continue
		case owned[e.ep.url.Host]:
			why = "another worker owns its address"
		case !now.Before(e.absentSince.Add(m.opts.ForgetAfter)):
			why = "absent from every slice for " + m.opts.ForgetAfter.String()
		default:
			continue
		}
		e.durable.breaker.retire()
		delete(m.entries, id)
		m.effects = append(m.effects, forgot{name: e.ep.name, why: why})
	}
}

// schedule starts the introspections and probes that are due.
func (m *machine) schedule(now time.Time) {
	for _, id := range slices.Sorted(maps.Keys(m.entries)) {
		e := m.entries[id]
		if at, ok := e.nextProbe(); ok && !now.Before(at) {
			e.probing = true
			m.effects = append(m.effects, probe{id: id, epoch: e.epoch, url: e.ep.url.String()})
		}
		if at, ok := e.nextAsk(); ok && !now.Before(at) {
			e.asking, e.askEpoch = true, e.epoch
			m.effects = append(m.effects, introspect{id: id, epoch: e.epoch, url: e.ep.url.String()})
		}
	}
}

// next is the time of the earliest deadline; ok is false when nothing is waiting for time to pass.
func (m *machine) next() (at time.Time, ok bool) {
	consider := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	for _, e := range m.entries {
		if !e.present {
			consider(e.absentSince.Add(m.opts.ForgetAfter))
		}
		if t, due := e.nextProbe(); due {
			consider(t)
		}
		if t, due := e.nextAsk(); due {
			consider(t)
		}
	}
	return at, ok
}

// snapshot renders the state for readers, or returns nil when it equals what last shows.
func (m *machine) snapshot(last *Snapshot) *Snapshot {
	all := make([]Listed, 0, len(m.entries))
	for _, e := range m.entries {
		all = append(all, Listed{
			Worker: e.worker, State: e.state, Reason: e.reason, Failed: e.reason != "" && e.reason == e.complaint(),
		})
	}
	slices.SortFunc(all, func(a, b Listed) int { return strings.Compare(string(a.Worker.id), string(b.Worker.id)) })
	if last != nil && last.synced == m.synced && last.slices == m.slices && slices.Equal(last.skips, m.skips) &&
		slices.Equal(last.workers, all) {
		return nil
	}
	s := newSnapshot(all, m.opts.Models.Serving(), m.synced, m.notClosed)
	s.slices, s.skips = m.slices, m.skips
	return s
}
