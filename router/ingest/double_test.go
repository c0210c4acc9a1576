package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
	"github.com/routerfleet/routerfleet/router/zmtp"
)

// quiet has a server send no heartbeats: a bubble's pipes have no buffer, and two sides that do at one moment wait for
// each other.
var quiet = zmtp.Options{HeartbeatInterval: -1}

// engineDouble publishes KV events over ZMTP in a bubble's network, and repeats them.
type engineDouble struct {
	t       *testing.T
	net     *wire.Network
	engine  Engine
	dialect wire.Dialect

	mu    sync.Mutex // guards what follows
	facts Facts
	err   error // of introspection
	asked int
	ring  [][]byte // payloads of this process
	first int64    // seq of the ring's first

	pub   *zmtp.Pub
	kill  context.CancelFunc
	tasks *sync.WaitGroup
}

func port(p int64) *int64 { return &p }

// newEngineDouble gives an SGLang-like engine that advertises its events. It is not up yet.
func newEngineDouble(t *testing.T, n *wire.Network, name string) *engineDouble {
	return &engineDouble{t: t, net: n, dialect: wire.SGLangMap,
		engine: Engine{ID: name, Name: "ns/" + name, URL: "http://" + name + ":8000", Host: name, Model: "m"},
		facts: Facts{Info: kvevents.ServerInfo{Events: &kvevents.Advertised{Publisher: "zmq", EndpointHost: "*",
			EndpointPort: port(5557), BlockSize: port(4), DPSize: port(1), ReplayPort: port(5600)}}},
	}
}

// boot starts a process.
func (e *engineDouble) boot(start string) {
	e.mu.Lock()
	e.facts.Start, e.ring, e.first = Start{Known: true, ID: start}, nil, 0
	events := e.facts.Info.Events
	e.mu.Unlock()
	ctx, cancel := context.WithCancel(e.t.Context())
	e.kill, e.tasks = cancel, &sync.WaitGroup{}
	e.pub = zmtp.NewPub(zmtp.PubOptions{Options: quiet})
	l := e.net.Listen(fmt.Sprintf("%s:%d", e.engine.Host, *events.EndpointPort))
	pub := e.pub
	e.tasks.Go(func() { _ = pub.Serve(ctx, l) })
	if events.ReplayPort != nil {
		rl := e.net.Listen(fmt.Sprintf("%s:%d", e.engine.Host, *events.ReplayPort))
		e.tasks.Go(func() { _ = zmtp.NewRouter(quiet, e.repeat).Serve(ctx, rl) })
	}
}

// die ends the process.
func (e *engineDouble) die() {
	e.kill()
	e.tasks.Wait()
}

// cutConnections ends all connections; the process lives on.
func (e *engineDouble) cutConnections() {
	e.mu.Lock()
	ring, first, start := e.ring, e.first, e.facts.Start.ID
	e.mu.Unlock()
	e.die()
	e.boot(start)
	e.mu.Lock()
	e.ring, e.first = ring, first
	e.mu.Unlock()
}

func (e *engineDouble) repeat(_ context.Context, q zmtp.Request) {
	from := int64(binary.BigEndian.Uint64(q.Parts[len(q.Parts)-1]))
	e.mu.Lock()
	ring, first := e.ring, e.first
	e.mu.Unlock()
	for i, p := range ring {
		if seq := first + int64(i); seq >= from {
			_ = q.Reply(nil, wire.SeqFrame(seq), p) // fails when the client has had enough
		}
	}
	_ = q.Reply(nil, wire.EndSeqFrame(), nil)
}

// say publishes one batch.
func (e *engineDouble) say(events ...wire.Event) {
	e.mu.Lock()
	seq := e.first + int64(len(e.ring))
	p := e.dialect.Encode(wire.Batch{TS: float64(time.Now().UnixNano()) / 1e9, Events: events})
	e.ring = append(e.ring, p)
	e.mu.Unlock()
	e.pub.Publish(nil, wire.SeqFrame(seq), p)
}

// Introspect answers for the engine.
func (e *engineDouble) Introspect() (Facts, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	return e.facts, e.err
}

// world is a pump and a feed beside engines, in a bubble.
type world struct {
	t       *testing.T
	net     *wire.Network
	pump    *pumpRig
	feed    *Feed
	doubles map[string]*engineDouble
	end     context.CancelFunc
	done    chan error

	mu      sync.Mutex // guards list and changed
	list    []Engine
	changed chan struct{}
}

var errDown = errors.New("connection refused")

// Introspect asks the double that answers to an engine's URL.
func (w *world) Introspect(_ context.Context, e Engine) (Facts, error) {
	for _, d := range w.doubles {
		if d.engine.URL == e.URL {
			return d.Introspect()
		}
	}
	return Facts{}, errDown
}

// Engines lists the engines.
func (w *world) Engines() []Engine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list
}

// Changed tells of another list.
func (w *world) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// show replaces the list.
func (w *world) show(list ...Engine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = list
	close(w.changed)
	w.changed = make(chan struct{})
}

// newWorld runs a router beside engines of these names, which are up and listed.
func newWorld(t *testing.T, change func(*FeedOptions), names ...string) *world {
	w := &world{t: t, net: wire.NewNetwork(), pump: newPumpRig(t, Options{}), doubles: map[string]*engineDouble{},
		done: make(chan error, 1), changed: make(chan struct{})}
	for _, n := range names {
		d := newEngineDouble(t, w.net, n)
		w.doubles[n] = d
		d.boot("p1")
		w.list = append(w.list, d.engine)
	}
	o := FeedOptions{Pump: w.pump.Pump, Engines: w, Introspector: w, Dial: w.net.Dial, Metrics: w.pump.reg}
	if change != nil {
		change(&o)
	}
	f, err := NewFeed(o)
	if err != nil {
		t.Fatal(err)
	}
	w.feed = f
	ctx, cancel := context.WithCancel(t.Context())
	w.end = cancel
	go func() { w.done <- f.Run(ctx) }()
	w.settle()
	return w
}

// settle lets introspection, dials and redials happen.
func (w *world) settle() {
	<-time.After(8 * time.Second) // by the bubble's clock
	synctest.Wait()
}

func (w *world) stop() {
	w.t.Helper()
	w.end()
	if err := <-w.done; err != nil {
		w.t.Errorf("the feed ended with %v", err)
	}
	w.pump.stop()
	for _, d := range w.doubles {
		d.die()
	}
	if used := w.pump.Inbox().Budget().Used(); used != 0 {
		w.t.Errorf("%d bytes of the budget are lost", used)
	}
}

// want checks depth and standing of an engine's only rank.
func (w *world) want(name string, depth int, blocks ...int) {
	w.t.Helper()
	synctest.Wait()
	if got := depthIn(w.t, w.pump.View(), index.Rank{Worker: name}, blocks...); got != depth {
		w.t.Errorf("depth of %v on %s is %d, want %d", blocks, name, got, depth)
	}
}

func (w *world) problems() (codes []string) {
	synctest.Wait()
	for _, p := range w.feed.Problems() {
		codes = append(codes, p.Worker+" "+p.Code)
	}
	return codes
}
