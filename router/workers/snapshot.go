package workers

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// State is where a worker stands; the table is in the package documentation.
type State int

// States of a worker, also the values of the metric label state.
const (
	StateUnknown State = iota
	StateInRotation
	StateLastResort
	StateNotReady
	StateUnhealthy
	StateUnintrospected
	StateOtherModel
	StateUnselected
	StateAbsent

	stateEnd
)

var stateNames = [stateEnd]string{
	"unknown", "in_rotation", "last_resort", "not_ready", "unhealthy", "unintrospected", "other_model", "unselected", "absent",
}

// String returns the state's label value.
func (s State) String() string {
	if s < 0 || s >= stateEnd {
		s = StateUnknown
	}
	return stateNames[s]
}

// Counts counts workers by what a reader may want to know. Discovered = InRotation + LastResort + Withdrawn +
// Unintrospected.
type Counts struct {
	// Discovered counts workers that are present: usable or not, but not the absent ones.
	Discovered int
	// InRotation counts workers requests may go to (their breakers may still refuse).
	InRotation int
	// LastResort counts terminating workers that still serve.
	LastResort int
	// Withdrawn counts present workers out of rotation: not ready, unhealthy, serving another model, or selected by none.
	Withdrawn int
	// Unselected counts those of the withdrawn that the selector of no model takes.
	Unselected int
	// Unintrospected counts present, ready workers whose models are not known.
	Unintrospected int
	// Absent counts workers in no slice, remembered until they return or are forgotten.
	Absent int
}

// Usable counts workers a request could be sent to, were their breakers closed.
func (c Counts) Usable() int { return c.InRotation + c.LastResort }

// pool holds the ranks that serve one model, each list sorted by worker id and rank.
type pool struct {
	ready      []*Rank
	lastResort []*Rank
}

// Snapshot is one published state of the registry. It is immutable; only what Rank.Load and the breakers say
// moves between two snapshots.
type Snapshot struct {
	models    []Model
	pools     map[string]*pool
	only      *pool // of the model that needs no name: the one that is known, or the one that is configured
	workers   []Listed
	counts    Counts
	synced    bool
	slices    int // EndpointSlices that match the selector
	skips     []skip
	notClosed *atomic.Int64
	changed   chan struct{}
}

// Listed is a worker with its state, for status pages and metrics.
type Listed struct {
	Worker *Worker
	State  State
	// Reason says in a sentence why the worker is not in rotation; empty when it is. It may name its address, so it
	// is for logs and the admin listener, never for clients.
	Reason string
	// Failed says that the worker was asked and Reason is what became of it.
	Failed bool
}

// Models is the union of the models of present workers whose models are known, sorted by id. Where workers differ
// on created or owned_by, the worker with the lowest id is believed. The caller must not change it.
func (s *Snapshot) Models() []Model { return s.models }

// Workers lists every known worker, absent ones too, sorted by id. The caller must not change it.
func (s *Snapshot) Workers() []Listed { return s.workers }

// Counts returns the worker counts.
func (s *Snapshot) Counts() Counts { return s.counts }

// Synced says that every discovery source has delivered its first complete list.
func (s *Snapshot) Synced() bool { return s.synced }

// Pool returns the ranks a request for model may go to now: ranks in rotation whose breaker would admit it, or,
// when there is none, terminating ones that still serve. An empty model means the only one there is.
//
// known is false when the router knows what is served here and this is not among it: a 404. Known without ranks is
// a 503. A model is known while a worker that serves it is present or remembered, and always when it is the
// configured one; while no model is known at all (no workers yet, or none left) nothing can be said to be missing,
// so every model counts as known.
//
// The slice is shared and must not be changed. Pool allocates only while some breaker is not closed.
func (s *Snapshot) Pool(model string) (ranks []*Rank, known bool) {
	p := s.only
	if model != "" {
		p = s.pools[model]
	}
	if p == nil {
		return nil, len(s.pools) == 0
	}
	if ranks = s.admitted(p.ready); len(ranks) > 0 {
		return ranks, true
	}
	return s.admitted(p.lastResort), true
}

// admitted leaves out ranks whose breaker would refuse now.
func (s *Snapshot) admitted(ranks []*Rank) []*Rank {
	if s.notClosed.Load() == 0 {
		return ranks
	}
	refused := func(r *Rank) bool { return !r.worker.breaker.admits() }
	first := slices.IndexFunc(ranks, refused)
	if first < 0 {
		return ranks
	}
	kept := append(make([]*Rank, 0, len(ranks)-1), ranks[:first]...)
	for _, r := range ranks[first+1:] {
		if !refused(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// newSnapshot builds the indexes over workers, which must be sorted by id. A configured model has a pool even
// when nobody serves it.
func newSnapshot(workers []Listed, configured []string, synced bool, notClosed *atomic.Int64) *Snapshot {
	s := &Snapshot{
		pools: map[string]*pool{}, workers: workers, synced: synced, notClosed: notClosed,
		changed: make(chan struct{}),
	}
	for _, name := range configured {
		s.pools[name] = &pool{}
	}
	listed := map[string]bool{}
	for _, l := range workers {
		s.counts.add(l.State)
		s.addToPools(l, listed)
	}
	slices.SortFunc(s.models, func(a, b Model) int { return cmp.Compare(a.ID, b.ID) })
	switch {
	case len(configured) == 1: // adapters beside it have to be named
		s.only = s.pools[configured[0]]
	case len(s.pools) == 1:
		for _, p := range s.pools {
			s.only = p
		}
	}
	return s
}

// addToPools adds the worker to the pool of each model it serves. An absent worker makes its models known, but
// does not list them.
func (s *Snapshot) addToPools(l Listed, listed map[string]bool) {
	for _, m := range l.Worker.models {
		p := s.pools[m.ID]
		if p == nil {
			p = &pool{}
			s.pools[m.ID] = p
		}
		if l.State != StateAbsent && !listed[m.ID] {
			listed[m.ID] = true
			s.models = append(s.models, m)
		}
		switch l.State {
		case StateInRotation:
			p.ready = append(p.ready, l.Worker.ranks...)
		case StateLastResort:
			p.lastResort = append(p.lastResort, l.Worker.ranks...)
		}
	}
}

func (c *Counts) add(s State) {
	if s != StateAbsent {
		c.Discovered++
	}
	switch s {
	case StateInRotation:
		c.InRotation++
	case StateLastResort:
		c.LastResort++
	case StateUnintrospected:
		c.Unintrospected++
	case StateAbsent:
		c.Absent++
	case StateUnselected:
		c.Withdrawn++
		c.Unselected++
	default:
		c.Withdrawn++
	}
}
