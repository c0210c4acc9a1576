package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/workers"
	"github.com/routerfleet/routerfleet/test/data/traces"
	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/publish"
)

// FleetSetup describes a run through several routers before the same engines. Requests go to them in turn.
type FleetSetup struct {
	// Setup is that of each router; its Wire is not used: each router has a Pump of its own.
	Setup
	// Routers is how many there are. Default: 3.
	Routers int
	// Mode is how depth is counted. Default: index.Deepest.
	Mode index.Mode
	// Restarts are the times at which the routers are replaced, one after the other.
	Restarts []time.Duration
	// Warm has a router copy what its siblings know before it takes another's place, by the coordinator, snapshots and
	// client of a real one; the old router serves until then. Otherwise it takes the place at once and knows nothing.
	Warm bool
	// From and To bound the window, by the requests' times in the trace.
	From, To time.Duration
}

// FleetResult is what a run of several routers came to.
type FleetResult struct {
	Requests int // answered
	// Blocks and Cached count the prompts' blocks of the window's requests, and those of them that engines had cached.
	Window, Blocks, Cached int
	// Verdicts are what the boots of the routers that were replaced had won, in their order.
	Verdicts []status.Verdict
}

// HitRatio is the share of the window's blocks that were found cached.
func (r FleetResult) HitRatio() float64 { return float64(r.Cached) / float64(max(1, r.Blocks)) }

// hub is what all routers hear of one engine.
type hub struct {
	publisher *publish.Publisher
	mu        sync.Mutex // guards lines, a slice that is replaced and never written
	lines     []*line
}

var _ publish.Sink = (*hub)(nil)

// Publish hands a batch to all who listen, each of whom decodes it for itself.
func (h *hub) Publish(rank int, m publish.Message) {
	h.mu.Lock()
	lines := h.lines
	h.mu.Unlock()
	for _, l := range lines {
		l.Publish(rank, m)
	}
}

// Restarted is not heard of: nobody restarts the engines of a run.
func (h *hub) Restarted(rank int, _ bool) { panic(fmt.Sprintf("rank %d restarted", rank)) }

func (h *hub) change(edit func(lines []*line) []*line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = edit(slices.Clone(h.lines))
}

// fleet is a run of several routers in progress.
type fleet struct {
	setup   FleetSetup
	engines map[workers.ID]*enginesim.Engine
	hubs    map[string]*hub
	network *network
	running sync.WaitGroup
	booting sync.WaitGroup

	mu      sync.Mutex // guards all below
	routers []*replica
	retired []*replica
	result  FleetResult
	failed  error
}

// replica is one life of a router.
type replica struct {
	*run
	wire *Pump
	boot *boot // nil without Warm
	stop context.CancelFunc
}

// ReplayFleet sends each request at its time through the router whose turn it is. Call it in a synctest bubble.
func ReplayFleet(ctx context.Context, requests []traces.Request, s FleetSetup) (FleetResult, error) {
	s.Wire = nil
	s.Setup = s.withDefaults()
	s.Routers = cmp.Or(s.Routers, 3)
	ctx, stop := context.WithCancel(ctx)
	f := &fleet{setup: s, engines: map[workers.ID]*enginesim.Engine{}, hubs: map[string]*hub{}, network: newNetwork()}
	defer func() { stop(); f.running.Wait() }()
	if err := f.start(ctx); err != nil {
		return FleetResult{}, err
	}
	faults := []error{f.replay(ctx, requests)}
	f.booting.Wait()
	for _, r := range append(f.retired, f.routers...) {
		r.open.Wait()
		faults = append(faults, r.faults...)
	}
	synctest.Wait()
	return f.result, errors.Join(append(faults, f.failed)...)
}

// start makes the engines and the routers that are there from the beginning.
func (f *fleet) start(ctx context.Context) error {
	for _, id := range f.setup.names() {
		h := &hub{}
		var err error
		if h.publisher, err = publisherOf(publish.SGLangMap, id, h); err != nil {
			return err
		}
		if f.engines[workers.ID(id)], err = f.setup.engine(ctx, h.publisher, &f.running); err != nil {
			return err
		}
		f.hubs[id] = h
	}
	for range f.setup.Routers {
		r, err := f.open(ctx)
		if err != nil {
			return err
		}
		f.routers = append(f.routers, r)
	}
	return nil
}

// open makes a router, subscribes it, and returns when it may serve.
func (f *fleet) open(ctx context.Context) (*replica, error) {
	ctx, stop := context.WithCancel(ctx)
	r := &replica{
		run:  &run{ties: f.setup.Ties, engines: f.engines, heard: f.heard, result: Result{Reasons: map[policy.Reason]int{}}},
		wire: NewPump(model, traces.BlockSize, publish.SGLangMap), stop: stop,
	}
	r.wire.mode, r.wire.bootstrap = f.setup.Mode, f.setup.Warm
	if err := r.wire.Start(ctx, &f.running); err != nil {
		return r, err
	}
	if f.setup.Warm {
		var err error
		if r.boot, err = f.network.join(ctx, r.wire.pump, &f.running); err != nil {
			return r, err
		}
	}
	for _, id := range f.setup.names() {
		l := r.wire.line(id)
		if err := r.wire.open(l, id); err != nil {
			return r, err
		}
		f.hubs[id].change(func(lines []*line) []*line { return append(lines, l) })
	}
	if err := r.choose(f.setup.Setup, r.wire); err != nil {
		return r, err
	}
	return r, r.boot.wait(ctx)
}

// replay sends the requests, and has routers replaced when it is time.
func (f *fleet) replay(ctx context.Context, requests []traces.Request) error {
	begin := time.Now()
	for n, at := range f.setup.Restarts {
		f.booting.Go(func() {
			<-time.After(time.Until(begin.Add(at)))
			f.fail(f.replace(ctx, n%f.setup.Routers))
		})
	}
	for i, request := range requests {
		<-time.After(time.Until(begin.Add(request.At)))
		if err := f.turn(i).send(ctx, request); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

func (f *fleet) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = errors.Join(f.failed, err)
}

// turn gives the router that takes the i-th request.
func (f *fleet) turn(i int) *replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.routers[i%len(f.routers)]
}

// replace puts a new router in the place of the n-th. Answers that the old one relays go on.
func (f *fleet) replace(ctx context.Context, n int) error {
	next, err := f.open(ctx)
	if err != nil {
		return fmt.Errorf("boot router %d: %w", n, err)
	}
	f.mu.Lock()
	old := f.routers[n]
	f.routers[n] = next
	f.retired = append(f.retired, old)
	if next.boot != nil {
		f.result.Verdicts = append(f.result.Verdicts, next.boot.verdict())
	}
	f.mu.Unlock()
	f.network.leave(old.boot)
	for _, h := range f.hubs {
		h.change(func(lines []*line) []*line {
			return slices.DeleteFunc(lines, func(l *line) bool { return l.ctx == old.wire.ctx })
		})
	}
	old.stop()
	return nil
}

func (f *fleet) heard(request traces.Request, cached int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.result.Requests++
	if request.At >= f.setup.From && request.At < f.setup.To {
		f.result.Window++
		f.result.Blocks += len(request.Blocks)
		f.result.Cached += cached / traces.BlockSize
	}
}
