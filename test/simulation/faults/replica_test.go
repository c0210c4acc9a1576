package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/bootstrap"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/peers"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

var peerKey = signed.NewKey([]byte("a token of the fleet of this test"))

func peerKeys() []signed.Key { return []signed.Key{peerKey} }

// replica is one router as far as its index goes. A container restart makes another one of the same name.
type replica struct {
	w           *world
	name        string
	uid         string
	pump        *ingest.Pump
	coordinator *bootstrap.Coordinator
	registry    *peers.Registry
	handler     *snapshot.Handler
	server      *http.Server
	transport   *http.Transport
	subs        []*subscriber
	stop        context.CancelFunc
	tasks       sync.WaitGroup
	began       time.Time
}

// run starts a replica.
func (w *world) run(name string) *replica {
	r := &replica{w: w, name: name, uid: name, began: time.Now()}
	ctx, cancel := context.WithCancel(w.ctx)
	r.stop = cancel
	log := slog.New(slog.NewTextHandler(w.log(name), nil))
	pump, err := ingest.New(ingest.Options{Bootstrap: true, Seed: fleetSeed, MaxBlocks: w.mix.maxBlocks, Log: log})
	if err != nil {
		w.t.Fatal(err)
	}
	r.pump = pump
	r.registry = peers.NewRegistry(nil, true, nil)
	r.transport = &http.Transport{DialContext: r.dial, DisableKeepAlives: true, DisableCompression: true}
	client := snapshot.NewClient(snapshot.ClientOptions{Keys: peerKeys, Transport: r.transport, IdleTimeout: 10 * time.Second})
	r.coordinator, err = bootstrap.New(bootstrap.Options{PodUID: r.uid, Pump: pumpOf{r}, Client: bootstrap.OfClient(client), Peers: r.registry,
		Complete: func() bool { return true }, Log: log})
	if err != nil {
		w.t.Fatal(err)
	}
	source := ingest.NewSource(pump, ingest.SourceOptions{Ready: r.coordinator.Settled, SeedableSince: r.coordinator.SeedableSince})
	r.handler = snapshot.NewHandler(slow{source, w}, snapshot.Options{Keys: peerKeys})
	r.server = &http.Server{Handler: r.handler, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	listener := w.net.Listen(name + ":9400")
	r.tasks.Go(func() { _ = r.server.Serve(listener) }) // ends with Close
	r.tasks.Go(func() { w.must(pump.Run(ctx)) })
	for _, e := range w.engines {
		for _, rk := range e.ranks {
			r.subs = append(r.subs, &subscriber{replica: r, rank: rk, id: index.Rank{Worker: e.name, DP: rk.dp}})
		}
	}
	r.tasks.Go(func() { r.boot(ctx) })
	return r
}

// boot registers the ranks, subscribes and begins to look for siblings.
func (r *replica) boot(ctx context.Context) {
	for _, s := range r.subs {
		err := r.pump.Register(ctx, ingest.Registration{Rank: s.id, Identity: s.id.Worker, URL: "http://" + s.id.Worker, Worker: "ns/" + s.id.Worker,
			Section: ingest.SectionKey{Model: "m", Scheme: r.w.mix.scheme, BlockSize: blockSize},
			Start:   s.rank.e.start(), Replays: r.w.mix.replays, Link: s})
		if err != nil {
			if ctx.Err() == nil {
				r.w.t.Errorf("register: %v", err)
			}
			return
		}
		s.lane = r.pump.Inbox().Lane(s.id)
	}
	for _, s := range r.subs {
		r.tasks.Go(func() { s.run(ctx) })
	}
	r.tasks.Go(func() { r.watch(ctx) })
	r.w.must(r.coordinator.Run(ctx))
}

// watch tells the registry who the siblings are, a moment late.
func (r *replica) watch(ctx context.Context) {
	for sleep(ctx, r.w.latency(time.Second)) {
		var list []peers.Peer
		for _, name := range r.w.present() {
			if name != r.name {
				list = append(list, peers.Peer{ID: name, UID: name, Name: name, URL: "http://" + name + ":9400"})
			}
		}
		r.registry.Replace(list)
	}
}

// die ends a replica: nothing of it is left.
func (r *replica) die() {
	r.stop()
	_ = r.server.Close() // what it served breaks off
	r.handler.Close()
	r.transport.CloseIdleConnections()
	r.tasks.Wait()
	for _, s := range r.subs {
		if s.lane != nil {
			s.lane.Close()
		}
	}
	if used := r.pump.Inbox().Budget().Used(); used != 0 {
		r.w.bad("%s: %d bytes of the budget are lost", r.name, used)
	}
}

var errPartition = errors.New("no route")

// dial reaches siblings, unless a partition lies between.
func (r *replica) dial(ctx context.Context, network, address string) (net.Conn, error) {
	to, _, _ := strings.Cut(address, ":")
	if !sleep(ctx, r.w.latency(60*time.Millisecond)) {
		return nil, context.Cause(ctx)
	}
	if r.w.parted(r.name, to) {
		return nil, errPartition
	}
	return r.w.net.Dial(ctx, network, address)
}

// subscriber follows one rank of an engine, and is the pump's link to it.
type subscriber struct {
	*replica
	rank *rank
	id   index.Rank
	lane *kvevents.Lane

	mu    sync.Mutex // guards what follows
	epoch uint64
	conn  *conn
}

func (s *subscriber) run(ctx context.Context) {
	for sleep(ctx, 50*time.Millisecond+s.w.latency(750*time.Millisecond)) {
		if s.w.parted(s.name, s.id.Worker) {
			continue
		}
		c := s.rank.connect()
		if c == nil {
			continue
		}
		s.mu.Lock()
		s.epoch++
		epoch := s.epoch
		s.conn = c
		s.mu.Unlock()
		s.deliver(ctx, kvevents.Delivery{Epoch: epoch, Kind: kvevents.Opened})
		s.follow(ctx, c, epoch)
		s.rank.leave(c)
	}
}

// follow delivers what a connection brings until it breaks. What was under way then may still come, late.
func (s *subscriber) follow(ctx context.Context, c *conn, epoch uint64) {
	decoder := kvevents.NewDecoder(kvevents.DecoderOptions{Scheme: s.w.mix.scheme, Seed: fleetSeed})
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.broken:
			s.late(ctx, c, epoch)
			s.deliver(ctx, kvevents.Delivery{Epoch: epoch, Kind: kvevents.Closed, Err: io.EOF})
			return
		case m := <-c.queue:
			if !sleep(ctx, c.stalledFor()) || !sleep(ctx, s.w.latency(60*time.Millisecond)) {
				return
			}
			s.bring(ctx, decoder, epoch, m)
			if s.w.chance(0.02) && !s.w.calm() {
				d := s.w.latency(2 * time.Second)
				s.tasks.Go(func() {
					if sleep(ctx, d) {
						s.bring(ctx, kvevents.NewDecoder(kvevents.DecoderOptions{Scheme: s.w.mix.scheme, Seed: fleetSeed}), epoch, m)
					}
				})
			}
		}
	}
}

// late lets a broken connection go unnoticed for a while, in which it still delivers.
func (s *subscriber) late(ctx context.Context, c *conn, epoch uint64) {
	if s.w.chance(0.5) {
		return
	}
	decoder := kvevents.NewDecoder(kvevents.DecoderOptions{Scheme: s.w.mix.scheme, Seed: fleetSeed})
	rest := func() {
		for {
			select {
			case m := <-c.queue:
				if !sleep(ctx, s.w.latency(300*time.Millisecond)) {
					return
				}
				s.bring(ctx, decoder, epoch, m)
			default:
				return
			}
		}
	}
	if s.w.chance(0.5) {
		s.tasks.Go(rest) // beside the next connection
		return
	}
	rest()
	sleep(ctx, s.w.latency(2*time.Second))
}

func (s *subscriber) bring(ctx context.Context, d *kvevents.Decoder, epoch uint64, m message) {
	b := d.Decode(m.seq, m.payload)
	if s.w.corrupts(s, b) {
		s.w.say("%s lost a removal of %v in %d", s.name, s.id, m.seq)
	}
	s.deliver(ctx, kvevents.Delivery{Epoch: epoch, Kind: kvevents.Arrived, Batch: b})
}

func (s *subscriber) deliver(ctx context.Context, d kvevents.Delivery) {
	if err := s.lane.Deliver(ctx, d); err != nil && d.Batch != nil {
		d.Batch.Release()
	}
}

// Redial closes a connection.
func (s *subscriber) Redial(epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == epoch && s.conn != nil {
		s.conn.breakOff()
	}
}

// Replay asks the engine, whatever process that is now.
func (s *subscriber) Replay(ctx context.Context, from int64) *kvevents.ReplayResult {
	if s.w.parted(s.name, s.id.Worker) {
		sleep(ctx, 2*time.Second)
		return &kvevents.ReplayResult{Start: from, Ending: kvevents.TimedOut}
	}
	return s.rank.repeat(ctx, from)
}

// Start asks the engine, whatever process that is now.
func (s *subscriber) Start(ctx context.Context) ingest.Start {
	if s.w.parted(s.name, s.id.Worker) || !sleep(ctx, s.w.latency(300*time.Millisecond)) {
		return ingest.Start{}
	}
	start := s.rank.e.start()
	sleep(ctx, s.w.latency(300*time.Millisecond))
	return start
}

// pumpOf is the pump as the coordinator sees it.
type pumpOf struct{ *replica }

func (p pumpOf) Changed() <-chan struct{} { return p.pump.Changed() }

func (p pumpOf) Ranks() []bootstrap.Rank { return bootstrap.OfPump(p.pump).Ranks() }

func (p pumpOf) Graft(ctx context.Context, s bootstrap.Section, owed []ingest.RankEpoch) ([]ingest.GraftResult, error) {
	out, err := bootstrap.OfPump(p.pump).Graft(ctx, s, owed)
	for _, g := range out {
		p.w.count("graft " + g.Verdict.String() + " " + g.Reason.String())
		p.w.say("%s graft of %v: %v %v at %d", p.name, g.Rank, g.Verdict, g.Reason, g.Cursor.Seq)
	}
	return out, err
}

func (p pumpOf) Keep(ctx context.Context, o []ingest.RankEpoch) error { return p.pump.Keep(ctx, o) }

func (p pumpOf) Abandon(ctx context.Context, o []ingest.RankEpoch, why ingest.AbandonWhy) error {
	p.w.count("abandon " + why.String())
	return p.pump.Abandon(ctx, o, why)
}

func (p pumpOf) Witness(ctx context.Context, o ingest.RankEpoch, at ingest.Cursor, word ingest.Testimony) error {
	p.w.count(fmt.Sprint("witness ", word))
	return p.pump.Witness(ctx, o, at, word)
}

func (p pumpOf) Suspect(ctx context.Context, r index.Rank, at ingest.Cursor, how ingest.Suspicion) error {
	p.w.count("suspect " + how.String())
	return p.pump.Suspect(ctx, r, at, how)
}

func (p pumpOf) Equal(ctx context.Context, r index.Rank, at ingest.Cursor) error {
	return p.pump.Equal(ctx, r, at)
}

func (p pumpOf) Behind(ctx context.Context, r index.Rank, at, sibling ingest.Cursor) error {
	p.w.count("behind")
	return p.pump.Behind(ctx, r, at, sibling)
}
