package workers

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/routerfleet/routerfleet/internal/invariant"
)

// Load is what this replica itself has in flight on one rank.
type Load struct {
	// Active counts requests between Acquire and Done.
	Active int64
	// QueuedPrefillTokens sums the prompt tokens of requests that have not produced their first byte, without those
	// counted on as cached.
	QueuedPrefillTokens int64
	// PrefilledTokens estimates how many of them the engine has computed by now; 0 from Rank.Load.
	PrefilledTokens int64
	// DecodeTokens sums prompt and produced tokens of requests past their first byte.
	DecodeTokens int64
}

type loadCounters struct {
	active, queued, decode atomic.Int64
	prefill                prefill
}

func newLoadCounters(now func() time.Time) *loadCounters {
	return &loadCounters{prefill: prefill{now: now, base: now()}}
}

func (c *loadCounters) read() Load {
	return Load{Active: c.active.Load(), QueuedPrefillTokens: c.queued.Load(), DecodeTokens: c.decode.Load()}
}

// Lease is one request on one rank. Its methods may be called from several goroutines; after Done they do
// nothing, so a late producer cannot leave load behind.
type Lease struct {
	worker *durable
	load   *loadCounters

	// mu guards what follows; it is never held while the breaker's is taken by another path, and the breaker
	// never calls back.
	mu       sync.Mutex
	pass     pass
	prompt   int64
	waiting  waiting // for the first byte; guarded by the rank's prefill
	produced int64
	first    bool
	done     bool
}

func newLease(w *durable, load *loadCounters, p pass, promptTokens, cachedTokens int) *Lease {
	l := &Lease{worker: w, load: load, pass: p, prompt: max(0, int64(promptTokens))}
	l.waiting.tokens = l.prompt - min(l.prompt, max(0, int64(cachedTokens)))
	load.active.Add(1)
	load.queued.Add(l.waiting.tokens)
	load.prefill.enter(l)
	return l
}

// FirstByte says that the engine's answer began: the prompt is no longer queued. Further calls do nothing.
func (l *Lease) FirstByte() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done || l.first {
		return
	}
	l.firstByteLocked()
}

func (l *Lease) firstByteLocked() {
	l.first = true
	l.load.prefill.leave(l, true)
	l.load.queued.Add(-l.waiting.tokens)
	l.load.decode.Add(l.prompt)
}

// Produced adds n tokens of output (n <= 0 does nothing). It implies FirstByte. An engine that produces output
// works, so the first call also passes the half-open probe when this lease is one: a probe that streams for ten
// minutes must not keep its worker out for ten minutes.
func (l *Lease) Produced(n int) {
	if n <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return
	}
	if !l.first {
		l.firstByteLocked()
	}
	if l.produced == 0 {
		l.load.prefill.learn(l.waiting)
		if l.pass.probe != 0 {
			l.pass = l.worker.breaker.proved(l.pass)
		}
	}
	l.produced += int64(n)
	l.load.decode.Add(int64(n))
}

// Done ends the lease with its outcome and gives its load back. Only the first call counts.
func (l *Lease) Done(o Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return
	}
	l.done = true
	l.load.active.Add(-1)
	if l.first {
		l.load.decode.Add(-l.prompt - l.produced)
	} else {
		l.load.prefill.leave(l, false)
		l.load.queued.Add(-l.waiting.tokens)
	}
	if invariant.Enabled {
		now := l.load.read()
		invariant.Check(now.Active >= 0, "a rank has %d active requests", now.Active)
	}
	l.worker.outcomes.add(o)
	l.worker.breaker.done(l.pass, o)
}
