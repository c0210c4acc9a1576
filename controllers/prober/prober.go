package prober

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/routerfleet/routerfleet/controllers/rollout"
	"github.com/routerfleet/routerfleet/internal/signed"
)

// Target is one container to ask.
type Target struct {
	Container rollout.Container
	// Address is host:port of the admin listener.
	Address string
}

// Options of a Prober. Zero values are the real thing.
type Options struct {
	// Wake is told which fleet's answers changed. It must not block for long.
	Wake func(types.NamespacedName)
	// Transport carries the signed requests; nil dials, without proxy.
	Transport http.RoundTripper
	// Logger gets one line when a router falls silent and one when it answers again.
	Logger logr.Logger
}

// Prober asks routers and remembers their answers. Use New.
type Prober struct {
	wake func(types.NamespacedName)
	base http.RoundTripper
	log  logr.Logger
	kick chan struct{} // something became due earlier; capacity 1

	mu     sync.Mutex // guards what follows; no call leaves the package under it
	fleets map[types.NamespacedName]*fleet
	busy   int
}

// fleet is what is tracked for one RouterFleet.
type fleet struct {
	keys    []signed.Key
	entries map[rollout.Container]*entry
	refused time.Time // when the owner was last woken because a token was refused
}

// entry is one container's schedule and answer.
type entry struct {
	target Target
	answer rollout.Answer
	due    time.Time
	asked  bool // a read is under way
	told   bool // the owner knows of the silence
	again  bool // became due while a read was under way
}

// New gives a prober that asks nobody until Run.
func New(o Options) *Prober {
	if o.Transport == nil {
		o.Transport = &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10}
	}
	if o.Wake == nil {
		o.Wake = func(types.NamespacedName) {}
	}
	return &Prober{wake: o.Wake, base: o.Transport, log: o.Logger, kick: make(chan struct{}, 1), fleets: map[types.NamespacedName]*fleet{}}
}

// Track replaces what is asked for a fleet, and the keys that sign. Containers that stay keep their answers.
func (p *Prober) Track(name types.NamespacedName, keys []signed.Key, targets []Target) {
	now := time.Now()
	p.mu.Lock()
	f := p.fleets[name]
	if f == nil {
		f = &fleet{}
		p.fleets[name] = f
	}
	changedKeys := !slices.EqualFunc(f.keys, keys, func(a, b signed.Key) bool { return a.ID == b.ID })
	f.keys = slices.Clone(keys)
	old, oldScout := f.entries, f.scout()
	f.entries = make(map[rollout.Container]*entry, len(targets))
	fresh := changedKeys
	for _, t := range targets {
		e := old[t.Container]
		if e == nil {
			e, fresh = &entry{due: now}, true
		}
		e.target = t
		if changedKeys && e.answer.Status == nil {
			e.due = now
		}
		f.entries[t.Container] = e
	}
	if scout := f.scout(); scout != nil && scout != oldScout {
		// It was due in minutes, as one of many; now the fleet hears of changes by it alone.
		scout.due, fresh = now, true
	}
	p.mu.Unlock()
	if fresh {
		p.nudge()
	}
}

// Forget stops asking for a fleet.
func (p *Prober) Forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.fleets, name)
}

// Answers are the answers of the containers tracked for a fleet. A container that was never read is missing.
func (p *Prober) Answers(name types.NamespacedName) map[rollout.Container]rollout.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fleets[name]
	if f == nil {
		return nil
	}
	out := make(map[rollout.Container]rollout.Answer, len(f.entries))
	for c, e := range f.entries {
		if e.answer.Status != nil || !e.answer.SilentSince.IsZero() {
			out[c] = e.answer
		}
	}
	return out
}

// Run asks until ctx ends, and returns when the last read has.
func (p *Prober) Run(ctx context.Context) error {
	var reads sync.WaitGroup
	defer reads.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := p.launch(ctx, &reads)
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-p.kick:
		}
	}
}

// Start is Run under the name the manager calls; it runs on the leader only.
func (p *Prober) Start(ctx context.Context) error { return p.Run(ctx) }

func (p *Prober) nudge() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// job is one read to make.
type job struct {
	fleet  types.NamespacedName
	target Target
	keys   []signed.Key
}

// launch starts the reads that are due and gives the time until the next is.
func (p *Prober) launch(ctx context.Context, reads *sync.WaitGroup) time.Duration {
	due, next := p.take(time.Now())
	for _, j := range due {
		reads.Go(func() {
			s, err := p.read(ctx, j)
			if ctx.Err() == nil {
				p.settle(j, s, err)
			}
			p.done()
		})
	}
	return next
}

// take picks due entries, most overdue first, within the limit of concurrent reads.
func (p *Prober) take(now time.Time) ([]job, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := settledInterval
	type candidate struct {
		job
		e *entry
	}
	var due []candidate
	for name, f := range p.fleets {
		for _, e := range f.entries {
			if e.asked {
				continue
			}
			if wait := e.due.Sub(now); wait > 0 {
				next = min(next, wait)
				continue
			}
			due = append(due, candidate{job{name, e.target, f.keys}, e})
		}
	}
	slices.SortFunc(due, func(a, b candidate) int {
		if c := a.e.due.Compare(b.e.due); c != 0 {
			return c
		}
		return strings.Compare(string(a.target.Container.Pod), string(b.target.Container.Pod))
	})
	// What does not fit waits: the end of a read wakes the loop.
	due = due[:min(len(due), maxConcurrent-p.busy)]
	jobs := make([]job, 0, len(due))
	for _, c := range due {
		c.e.asked = true
		p.busy++
		jobs = append(jobs, c.job)
	}
	return jobs, next
}

func (p *Prober) done() {
	p.mu.Lock()
	p.busy--
	p.mu.Unlock()
	p.nudge()
}

func spread(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()*2-1)*jitter*float64(d))
}
