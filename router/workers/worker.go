package workers

import (
	"net/url"
	"time"

	"github.com/routerfleet/routerfleet/router/kvevents"
)

// ID identifies a worker across every change of its description: "<namespace>/<pod uid>" for a discovered pod,
// "<namespace>/<slice>/<host:port>" for an endpoint without a pod, the configured id for a static worker (which
// holds no slash).
type ID string

// Model is one model a worker serves, as the engine itself describes it.
type Model struct {
	ID string
	// Created is unix seconds; 0 when the engine did not say.
	Created int64
	// OwnedBy is empty when the engine did not say.
	OwnedBy string
	// Parent is the model that this one adapts (LoRA); empty for a model in its own right.
	Parent string
}

// Worker is the immutable description of one engine endpoint in one snapshot. A later snapshot may hold another
// *Worker of the same ID; compare workers by ID, not by pointer.
type Worker struct {
	id     ID
	name   string
	uid    string
	url    *url.URL
	models []Model
	ranks  []*Rank
	apiKey func() string
	events eventFacts
	*durable
}

// durable is what outlives a worker's description: it is made when the worker is first seen and dropped when the
// worker is forgotten.
type durable struct {
	breaker  *breaker
	now      func() time.Time
	outcomes outcomeCounts
	// loads has one entry per rank ever seen, in order; it only grows. Written by the machine alone, the entries
	// are shared with readers through Rank.
	loads []*loadCounters
}

// ID returns the worker's identity.
func (w *Worker) ID() ID { return w.id }

// Name is what people and metrics call the worker: "namespace/pod", or the static id. Never a URL.
func (w *Worker) Name() string { return w.name }

// UID is the pod UID, empty for workers that are no pods.
func (w *Worker) UID() string { return w.uid }

// URL is the base URL of the engine. The caller must not change it.
func (w *Worker) URL() *url.URL { return w.url }

// Models lists what the worker serves, sorted by id. The caller must not change it.
func (w *Worker) Models() []Model { return w.models }

// DPSize is the number of data-parallel ranks, at least 1.
func (w *Worker) DPSize() int { return len(w.ranks) }

// Ranks lists the worker's ranks in order. The caller must not change it.
func (w *Worker) Ranks() []*Rank { return w.ranks }

// APIKey is the bearer the engine expects, read anew at each call; empty when none is configured.
func (w *Worker) APIKey() string {
	if w.apiKey == nil {
		return ""
	}
	return w.apiKey()
}

// Events is what the engine says of its KV event stream, not yet judged (kvevents.Resolve does). The error tells that
// what it says cannot be read.
func (w *Worker) Events() (kvevents.ServerInfo, error) { return w.events.info, w.events.err }

// Breaker returns the present state of the worker's breaker.
func (w *Worker) Breaker() BreakerState { return w.breaker.state() }

// Rank is one (worker, data-parallel rank) pair: what a policy chooses and what holds blocks.
type Rank struct {
	worker *Worker
	dp     int
	load   *loadCounters
}

// Worker returns the worker this rank belongs to.
func (r *Rank) Worker() *Worker { return r.worker }

// DP is the data-parallel rank inside the worker, 0 for an engine without data parallelism.
func (r *Rank) DP() int { return r.dp }

// Load reads the rank's counters. Each is exact; the three are not read at one instant.
func (r *Rank) Load() Load { return r.load.read() }

// LoadAt is Load with an estimate of what the engine has computed meanwhile of the prompts that queue.
func (r *Rank) LoadAt(now time.Time) Load {
	l := r.load.read()
	l.PrefilledTokens = min(l.QueuedPrefillTokens, r.load.prefill.done(now))
	return l
}

// Acquire takes a lease for one request of promptTokens (an estimate is fine; negative counts as 0). It returns
// false when the worker's breaker is open or its half-open probe is taken: choose another rank. The caller must
// end every lease with Done.
func (r *Rank) Acquire(promptTokens int) (*Lease, bool) { return r.AcquireCached(promptTokens, 0) }

// AcquireCached is Acquire for a prompt of which cachedTokens are counted on as cached: they do not queue, but count
// as decoding after the first byte like the others. Out of range they are cut.
func (r *Rank) AcquireCached(promptTokens, cachedTokens int) (*Lease, bool) {
	pass, ok := r.worker.breaker.acquire()
	if !ok {
		return nil, false
	}
	return newLease(r.worker.durable, r.load, pass, promptTokens, cachedTokens), true
}
