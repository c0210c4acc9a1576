package workers

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// inboxSize bounds the answers waiting for the writer. A full inbox blocks the questions, which have deadlines of
// their own; nothing is dropped.
const inboxSize = 64

// Registry follows the workers and publishes snapshots of them. Run is its one writer; every other method may be
// called from any goroutine at any time.
type Registry struct {
	opts    Options
	machine *machine // Run's alone (New's before)
	asker   *asker
	slices  *sliceWatch // nil without discovery
	metrics *metrics
	inbox   chan message
	// pending are effects of steps made before Run, which performs them first.
	pending []effect

	current atomic.Pointer[Snapshot]
}

// New checks the options and returns a registry that already lists the static workers. Nothing is asked before
// Run.
func New(o Options) (*Registry, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("workers: %w", err)
	}
	return newRegistry(o.withDefaults())
}

func newRegistry(o Options) (*Registry, error) {
	r := &Registry{
		opts: o, machine: newMachine(o), asker: newAsker(o), inbox: make(chan message, inboxSize),
	}
	m, err := newMetrics(o.Metrics, r)
	if err != nil {
		return nil, fmt.Errorf("workers: register metrics: %w", err)
	}
	r.metrics = m
	if o.Slices != nil {
		if r.slices, err = newSliceWatch(o, m); err != nil {
			return nil, fmt.Errorf("workers: %w", err)
		}
	}
	r.pending = r.machine.step(o.Now(), tick{})
	r.publish()
	return r, nil
}

// Snapshot returns the latest published state. It never blocks and is never nil.
func (r *Registry) Snapshot() *Snapshot { return r.current.Load() }

// Changed returns a channel that is closed when a snapshot newer than the present one is published. To miss
// nothing, take the channel first, read the snapshot then, and wait last.
func (r *Registry) Changed() <-chan struct{} { return r.current.Load().changed }

// Run follows the workers until ctx ends and returns nil then, with every goroutine it started gone. Call it once.
func (r *Registry) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	q := &questions{ctx: ctx, asker: r.asker, inbox: r.inbox, slots: make(chan struct{}, maxQuestions)}
	defer q.wg.Wait()
	defer cancel()
	if r.slices != nil {
		q.wg.Go(func() { r.slices.slices.Run(ctx) })
	}
	r.perform(q, r.pending)
	r.pending = nil
	r.loop(ctx, q)
	if r.opts.Transport == nil { // the transport is ours: leave no connection behind
		r.asker.client.Transport.(*http.Transport).CloseIdleConnections()
	}
	return nil
}

func (r *Registry) loop(ctx context.Context, q *questions) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if at, ok := r.machine.next(); ok {
			timer.Reset(max(0, at.Sub(r.opts.Now())))
		} else {
			timer.Stop()
		}
		var msg message
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			msg = tick{}
		case msg = <-r.inbox:
			r.metrics.answered(msg)
		case <-r.slices.changes():
			msg = r.slices.latest()
		}
		r.perform(q, r.machine.step(r.opts.Now(), msg))
		r.publish()
	}
}

// perform carries out effects in order.
func (r *Registry) perform(q *questions, effects []effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case introspect:
			q.introspect(e)
		case probe:
			q.probe(e)
		case transition:
			r.metrics.transitions.WithLabelValues(e.to.String()).Inc()
			r.opts.Log.Info("worker changed", "worker", e.name, "from", e.from.String(), "to", e.to.String(), "why", e.reason)
		case complained:
			r.opts.Log.Warn("worker does not answer as it should", "worker", e.name, "state", e.state.String(), "why", e.why)
		case skipped:
			r.opts.Log.Warn("endpoints are no workers", "reason", e.reason, "count", e.count, "why", e.why)
		case unskipped:
			r.opts.Log.Info("endpoints are no longer left out", "reason", e.reason)
		case forgot:
			r.opts.Log.Info("worker forgotten", "worker", e.name, "why", e.why)
		}
	}
}

// publish makes the machine's state visible with one atomic store, when it changed.
func (r *Registry) publish() {
	last := r.current.Load()
	next := r.machine.snapshot(last)
	if next == nil {
		return
	}
	r.current.Store(next)
	if last != nil {
		close(last.changed)
	}
}

// questions runs introspections and probes, maxQuestions at a time, and sends the answers to the writer.
type questions struct {
	ctx   context.Context
	asker *asker
	inbox chan<- message
	slots chan struct{}
	wg    sync.WaitGroup
}

func (q *questions) introspect(e introspect) {
	q.ask(func() message {
		facts, err := q.asker.introspect(q.ctx, e.url)
		return introspected{id: e.id, epoch: e.epoch, facts: facts, err: err}
	})
}

func (q *questions) probe(e probe) {
	q.ask(func() message {
		return probed{id: e.id, epoch: e.epoch, err: q.asker.probe(q.ctx, e.url)}
	})
}

func (q *questions) ask(question func() message) {
	q.wg.Go(func() {
		select {
		case q.slots <- struct{}{}:
			defer func() { <-q.slots }()
		case <-q.ctx.Done():
			return
		}
		answer := question()
		select {
		case q.inbox <- answer:
		case <-q.ctx.Done():
		}
	})
}
