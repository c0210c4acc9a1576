package workers

import (
	"net/url"
	"slices"
	"sync"
)

// FixedWorker describes a worker of a Fixed registry completely: nothing is asked or probed.
type FixedWorker struct {
	ID  ID
	URL *url.URL
	// Models are the ids the worker serves; none leaves it unintrospected.
	Models []string
	// DPSize is the number of ranks; 0 means 1.
	DPSize int
	// Labels are for the selectors of models.
	Labels map[string]string
	// NotReady and Terminating withdraw the worker as an EndpointSlice would: not ready, or last resort.
	NotReady, Terminating bool
}

// Fixed is a registry whose workers are set by hand instead of discovered: for tests of what stands above it. Load
// counters, breakers and snapshots are the real ones.
type Fixed struct {
	*Registry
	mu sync.Mutex // makes Set the one writer
}

// NewFixed returns a registry of the given workers. Of the options Static, Slices and the probe settings are
// ignored.
func NewFixed(o Options, ws ...FixedWorker) (*Fixed, error) {
	o.Static, o.Slices = nil, nil
	r, err := newRegistry(o.withDefaults())
	if err != nil {
		return nil, err
	}
	f := &Fixed{Registry: r}
	f.Set(ws...)
	return f, nil
}

// Set replaces the workers. A worker whose id stays keeps counters and breaker; one that is missing becomes
// absent, as in discovery.
func (f *Fixed) Set(ws ...FixedWorker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set := make([]endpoint, 0, len(ws))
	for _, w := range ws {
		e := endpoint{id: w.ID, name: string(w.ID), url: w.URL, labels: []map[string]string{w.Labels}}
		switch {
		case w.Terminating:
			e.condition = conditionServing
		case w.NotReady:
			e.condition = conditionNotReady
		}
		set = append(set, e)
	}
	now := f.opts.Now()
	f.machine.step(now, listed{set: set})
	for _, w := range ws {
		models := make([]Model, 0, len(w.Models))
		for _, id := range slices.Sorted(slices.Values(w.Models)) {
			models = append(models, Model{ID: id})
		}
		e := f.machine.entries[w.ID]
		e.facts, e.fresh, e.asked = &facts{models: models, dpSize: w.DPSize}, true, true
	}
	f.machine.step(now, tick{})
	f.publish()
}
