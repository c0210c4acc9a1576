package workers

import (
	"sync"
	"sync/atomic"
	"time"
)

// BreakerState is the state of a worker's breaker; its number is the value of routerfleet_worker_breaker_state.
type BreakerState int

// States of a breaker.
const (
	BreakerClosed BreakerState = iota
	BreakerHalfOpen
	BreakerOpen
)

// String returns the state in words, "unknown" outside the list.
func (s BreakerState) String() string {
	switch s {
	case BreakerClosed:
		return "closed"
	case BreakerHalfOpen:
		return "half_open"
	case BreakerOpen:
		return "open"
	}
	return "unknown"
}

// pass is what a breaker gives with a lease: an outcome counts only in the generation its pass was given in, so a
// stream that began before the breaker opened can neither close it nor open it again.
type pass struct {
	generation uint64
	// probe numbers the probes of a circuit from 1 on; 0 is no probe.
	probe uint64
}

// probeAlone is how long a probe keeps others out: the time in which an engine that lives begins to answer, the same
// that an active health probe gets. A request that is not streamed shows nothing until it is generated, which may take
// the whole request timeout; the next one may be a short one. Each probe that joins another doubles the time, so that
// an engine that hangs costs a handful of requests until the first of them times out.
const probeAlone = probeTimeout

// circuit is the breaker's plain state. Its methods are the whole table:
//
//	state      message                       next state and effect
//	closed     acquire                       closed; pass
//	closed     success                       closed; streak = 0
//	closed     client error                  closed; streak = 0: the engine read the request and answered it
//	closed     failure, streak+1 < limit     closed; streak + 1
//	closed     failure, streak+1 = limit     open until now + cool-down; new generation
//	open       acquire before the time       open; refused
//	open       acquire after it              half-open; new generation; pass is the probe
//	half-open  acquire, no probe out         half-open; pass is the probe, alone for probeAlone
//	half-open  acquire, probe alone          half-open; refused
//	half-open  acquire, probe alone no more  half-open; pass is a further probe, alone for twice as long
//	half-open  a probe's success or first output closed; streak = 0; new generation
//	half-open  a probe's failure             open until now + cool-down; new generation
//	half-open  last probe cancelled, client
//	           error or backpressure         half-open; the probe slot is free again
//	half-open  the same of an earlier probe  unchanged
//	any        outcome of an old generation  unchanged
//	closed     backpressure, cancelled       unchanged: neither counted nor a reset
//
// (There is no outcome of the open generation: open gives no pass.)
type circuit struct {
	state      BreakerState
	streak     int
	openUntil  time.Time
	generation uint64
	// probing is whether the last probe holds the slot; it does so alone until aloneUntil, which was given as alone.
	probing    bool
	probe      uint64
	alone      time.Duration
	aloneUntil time.Time
}

type circuitLimits struct {
	// threshold is the number of consecutive failures that open; <= 0 never opens.
	threshold int
	coolDown  time.Duration
}

// admits says whether acquire would succeed now; it changes nothing.
func (c *circuit) admits(now time.Time) bool {
	switch c.state {
	case BreakerClosed:
		return true
	case BreakerHalfOpen:
		return !c.probing || !now.Before(c.aloneUntil)
	default:
		return !now.Before(c.openUntil)
	}
}

func (c *circuit) acquire(now time.Time) (pass, bool) {
	if !c.admits(now) {
		return pass{}, false
	}
	if c.state == BreakerOpen {
		c.enter(BreakerHalfOpen)
	}
	if c.state != BreakerHalfOpen {
		return pass{generation: c.generation}, true
	}
	if c.probing {
		c.alone *= 2
	} else {
		c.alone = probeAlone
	}
	c.probing = true
	c.probe++
	c.aloneUntil = now.Add(c.alone)
	return pass{generation: c.generation, probe: c.probe}, true
}

func (c *circuit) done(p pass, o Outcome, now time.Time, lim circuitLimits) {
	if p.generation != c.generation {
		return
	}
	if c.state == BreakerHalfOpen {
		c.probeDone(p, o, now, lim)
		return
	}
	switch o {
	case Success, ClientError:
		c.streak = 0
	case Failure:
		c.streak++
		if lim.threshold > 0 && c.streak >= lim.threshold {
			c.open(now, lim)
		}
	}
}

func (c *circuit) probeDone(p pass, o Outcome, now time.Time, lim circuitLimits) {
	switch o {
	case Success:
		c.enter(BreakerClosed)
	case Failure:
		c.open(now, lim)
	default:
		if p.probe == c.probe {
			c.probing = false
		}
	}
}

// proved is the probe's first output. The returned pass belongs to the new generation, so that a later cut of the
// same stream still counts as one failure.
func (c *circuit) proved(p pass) pass {
	if p.generation != c.generation || c.state != BreakerHalfOpen {
		return p
	}
	c.enter(BreakerClosed)
	return pass{generation: c.generation}
}

func (c *circuit) open(now time.Time, lim circuitLimits) {
	c.enter(BreakerOpen)
	c.openUntil = now.Add(lim.coolDown)
}

func (c *circuit) enter(s BreakerState) {
	c.state, c.streak, c.probing = s, 0, false
	c.generation++
}

// breaker is a circuit with a lock, a clock and a census, one per worker.
type breaker struct {
	limits circuitLimits
	now    func() time.Time

	// phase mirrors c.state for readers that only want to know whether it is closed: Pool asks every breaker while
	// one is not, and locking them all would make an outage of one engine slow for all. Written under mu.
	phase atomic.Int32

	mu sync.Mutex // guards what follows; a leaf lock
	c  circuit
	// notClosed counts the breakers of the registry that are not closed, so that Pool may skip asking each.
	notClosed *atomic.Int64
	// changed reports a transition. It is called outside the lock and must not block.
	changed func(from, to BreakerState)
}

func (b *breaker) state() BreakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.c.state
}

func (b *breaker) admits() bool {
	if BreakerState(b.phase.Load()) == BreakerClosed {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.c.admits(b.now())
}

func (b *breaker) acquire() (p pass, ok bool) {
	b.change(func(c *circuit) {
		if c.state == BreakerClosed { // the common case reads no clock
			p, ok = pass{generation: c.generation}, true
			return
		}
		p, ok = c.acquire(b.now())
	})
	return p, ok
}

func (b *breaker) done(p pass, o Outcome) {
	var now time.Time
	if o == Failure { // only a failure starts a cool-down; every other request saves the clock
		now = b.now()
	}
	b.change(func(c *circuit) { c.done(p, o, now, b.limits) })
}

func (b *breaker) proved(p pass) (next pass) {
	b.change(func(c *circuit) { next = c.proved(p) })
	return next
}

// change runs f on the circuit and accounts for the transition it made, if any.
func (b *breaker) change(f func(*circuit)) {
	b.mu.Lock()
	from := b.c.state
	f(&b.c)
	to := b.c.state
	b.phase.Store(int32(to))
	if (from == BreakerClosed) != (to == BreakerClosed) {
		if to == BreakerClosed {
			b.notClosed.Add(-1)
		} else {
			b.notClosed.Add(1)
		}
	}
	changed := b.changed
	b.mu.Unlock()
	if from != to && changed != nil {
		changed(from, to)
	}
}

// retire takes the breaker out of the census when its worker is forgotten. Leases still out may end later; the
// census must not hear of them, so it is cut off.
func (b *breaker) retire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c.state != BreakerClosed {
		b.notClosed.Add(-1)
	}
	b.notClosed = new(atomic.Int64)
	b.changed = nil
}
