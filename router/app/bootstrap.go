package app

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routerfleet/routerfleet/router/bootstrap"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/peers"
	"github.com/routerfleet/routerfleet/router/snapshot"
	"github.com/routerfleet/routerfleet/router/workers"
)

// modelGrace is how long a boot waits for engines whose model is not known yet. Most tell within moments; one that loads its
// weights for minutes is no reason to wait.
const modelGrace = 5 * time.Second

// sharing is what replicas tell each other of their indexes: what this one teaches, and what it asks.
type sharing struct {
	teacher *snapshot.Handler
	// What follows is nil when nobody is asked.
	coordinator *bootstrap.Coordinator
	watches     []*peers.Watch
	transport   *http.Transport
	complete    completeness

	// lessons counts the snapshots being served.
	lessons atomic.Int64
	ranks   bootstrap.Pump
}

// makeSharing leaves a.sharing nil when there is no index.
func (a *App) makeSharing() error {
	if a.events == nil {
		return nil
	}
	s := &sharing{complete: completeness{app: a, now: time.Now}, ranks: bootstrap.OfPump(a.events.pump)}
	a.sharing = s
	if a.opts.asksPeers() {
		if err := a.makeCoordinator(s); err != nil {
			return err
		}
	}
	source := ingest.SourceOptions{}
	if s.coordinator != nil {
		source = ingest.SourceOptions{Ready: s.coordinator.Settled, SeedableSince: s.coordinator.SeedableSince}
	}
	o := snapshot.Options{Log: a.log}
	if a.tokens != nil {
		o.Keys, o.Bearers = a.tokens.Keys, a.tokens.Bearers
	}
	s.teacher = snapshot.NewHandler(ingest.NewSource(a.events.pump, source), o)
	return nil
}

func (a *App) makeCoordinator(s *sharing) error {
	registry, err := a.peerRegistry(s, a.opts.KVPeerSelector, "", a.opts.KVPeer)
	if err != nil {
		return err
	}
	if err := registry.Observe(a.registry); err != nil {
		return err
	}
	o := bootstrap.Options{
		Timeout: millis(a.opts.KVBootstrapTimeoutMS), FetchCap: millis(a.opts.KVBootstrapFetchTimeoutCapMS),
		SeedRequired: a.opts.KVBootstrapSeedRequired, PodUID: a.opts.PodUID,
		Pump: s.ranks, Peers: registry, Complete: s.complete.is, Log: a.log, Metrics: a.registry,
	}
	if a.opts.asksUpstream() {
		upstream, err := a.peerRegistry(s, a.opts.KVUpstreamPeerSelector, a.opts.KVUpstreamPeerPort, a.opts.KVUpstreamPeer)
		if err != nil {
			return err
		}
		o.Upstream, o.UpstreamPeers = true, upstream
	}
	s.transport = &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second, DisableCompression: true}
	client := snapshot.ClientOptions{Transport: s.transport}
	if a.tokens != nil {
		client.Keys = a.tokens.Keys
	}
	o.Client = bootstrap.OfClient(snapshot.NewClient(client))
	s.coordinator, err = bootstrap.New(o)
	return err
}

// peerRegistry gives the registry of some peers, and has them watched if a selector names them.
func (a *App) peerRegistry(s *sharing, selector, port string, named []string) (*peers.Registry, error) {
	var fixed []peers.Peer
	for _, raw := range named {
		p, err := peers.ParseStatic(raw)
		if err != nil {
			return nil, err
		}
		fixed = append(fixed, p)
	}
	registry := peers.NewRegistry(peers.Others(fixed, a.opts.self()), selector != "", a.log)
	if selector == "" {
		return registry, nil
	}
	client, err := workers.NewSliceClient(a.opts.Kubeconfig)
	if err != nil {
		return nil, err
	}
	w, err := peers.NewWatch(peers.WatchOptions{
		Client: client, Namespace: a.opts.peerNamespace(), Selector: selector, Port: port, Self: a.opts.self(), Log: a.log,
	}, registry)
	if err != nil {
		return nil, err
	}
	s.watches = append(s.watches, w)
	return registry, nil
}

// run coordinates and leaves no connection behind.
func (s *sharing) run(ctx context.Context) error {
	defer s.transport.CloseIdleConnections()
	return s.coordinator.Run(ctx)
}

// asks tells whether siblings are asked. It may be called of nil.
func (s *sharing) asks() bool { return s != nil && s.coordinator != nil }

// completeness tells whether every engine there is was asked for its events. It may be asked from any goroutine.
type completeness struct {
	app *App
	now func() time.Time

	mu     sync.Mutex
	synced time.Time // when the list of workers was first complete
}

func (c *completeness) is() bool {
	s := c.app.workers.Snapshot()
	if !s.Synced() {
		return false
	}
	c.mu.Lock()
	if c.synced.IsZero() {
		c.synced = c.now()
	}
	graceOver := c.now().Sub(c.synced) >= modelGrace
	c.mu.Unlock()
	for _, e := range (engines{c.app.workers, c.app.opts.configured()}).Engines() {
		if e.Model == "" && !graceOver || e.Model != "" && !c.app.events.feed.Looked(e.ID) {
			return false
		}
	}
	return true
}

// ServeHTTP teaches.
func (s *sharing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.lessons.Add(1)
	defer s.lessons.Add(-1)
	s.teacher.ServeHTTP(w, r)
}

// idle waits until no snapshot is being served, or ctx ends: a sibling that copies from a replica that leaves may be the
// last that can.
func (s *sharing) idle(ctx context.Context) {
	for ticker := time.Tick(50 * time.Millisecond); s.lessons.Load() > 0; {
		select {
		case <-ticker:
		case <-ctx.Done():
			return
		}
	}
}

// close ends what the teacher keeps. The listener has stopped by then.
func (s *sharing) close(context.Context) error {
	s.teacher.Close()
	return nil
}

// fill writes what is known of the index and of siblings into a status.
func (s *sharing) fill(into *status.Status) {
	into.SnapshotFormats = []int{2, 1}
	if s.coordinator == nil {
		return
	}
	s.coordinator.Fill(into)
	for _, p := range s.coordinator.Problems() {
		if len(into.Problems) < status.MaxProblems {
			p.Example = clip(p.Example)
			into.Problems = append(into.Problems, p)
		}
	}
	slices.SortFunc(into.Problems, func(a, b status.Problem) int { return strings.Compare(string(a.Code), string(b.Code)) })
}

// rows describes every rank.
func (s *sharing) rows() []status.RankRow { return bootstrap.Rows(s.ranks.Ranks()) }
