package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/routerfleet/routerfleet/router/zmtp"
	"github.com/routerfleet/routerfleet/test/enginesim"
)

// ServerOptions configure a Server. Options.Sink is the server's own; Ports.Events
// is required.
type ServerOptions struct {
	Options

	Host string // default 0.0.0.0
	// QueueSize is how many steps may wait for a rank's publishing goroutine;
	// further ones are lost and counted. Default DefaultQueueSize.
	QueueSize int
	// HighWaterMark is how many messages are kept for a slow subscriber. Default
	// DefaultHighWaterMark.
	HighWaterMark int
	// LoadInterval is the time between two values of the load gauge. Default
	// DefaultLoadInterval.
	LoadInterval time.Duration

	ZMTP   zmtp.Options                                        // of all sockets
	Listen func(network, address string) (net.Listener, error) // default net.Listen
	Log    *slog.Logger                                        // default: nothing is logged
}

// Loads tells what the load gauge shows; *enginesim.Engine is one.
type Loads interface {
	State(ctx context.Context) ([]enginesim.RankState, error)
}

// Server publishes over sockets. Use NewServer, Bind, then Run; give it to the
// engine as Observer.
type Server struct {
	opts  ServerOptions
	pub   *Publisher
	ranks []*rankServer
}

var _ enginesim.Observer = (*Server)(nil)

// NewServer checks the options; nothing listens yet.
func NewServer(opts ServerOptions) (*Server, error) {
	setDefault(&opts.Host, "0.0.0.0")
	setDefault(&opts.QueueSize, DefaultQueueSize)
	setDefault(&opts.HighWaterMark, DefaultHighWaterMark)
	setDefault(&opts.LoadInterval, DefaultLoadInterval)
	if opts.Listen == nil {
		opts.Listen = net.Listen
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Ports.Events == 0 {
		return nil, errors.New("configure event publishing: Ports.Events: missing")
	}
	s := &Server{}
	opts.Options = opts.Options.withDefaults()
	opts.Sink = (*sink)(s)
	pub, err := New(opts.Options)
	if err != nil {
		return nil, err
	}
	s.opts, s.pub = opts, pub
	for rank := range opts.DPSize {
		s.ranks = append(s.ranks, newRankServer(s, rank))
	}
	return s, nil
}

// Publisher is what the server publishes: the place for faults.
func (s *Server) Publisher() *Publisher { return s.pub }

// Observe queues a step for the rank's publishing goroutine. It never waits.
func (s *Server) Observe(step enginesim.Step) {
	r := s.ranks[step.Rank]
	select {
	case r.queue <- step:
	default:
		r.overflow.Add(1)
	}
}

// Overflows counts steps that were lost because a queue was full. Events no longer
// tell the truth then.
func (s *Server) Overflows() int64 {
	var n int64
	for _, r := range s.ranks {
		n += r.overflow.Load()
	}
	return n
}

// Dropped counts messages that slow subscribers did not get.
func (s *Server) Dropped() uint64 {
	var n uint64
	for _, r := range s.ranks {
		n += r.events.Dropped()
	}
	return n
}

// Subscriptions counts the subscribers of a rank's events.
func (s *Server) Subscriptions(rank int) int { return s.ranks[rank].events.Subscriptions() }

// Bind listens on every port of every rank, or on none.
func (s *Server) Bind() error {
	for _, r := range s.ranks {
		if err := r.bind(); err != nil {
			s.close()
			return fmt.Errorf("listen for subscribers of rank %d: %w", r.rank, err)
		}
	}
	return nil
}

func (s *Server) close() {
	for _, r := range s.ranks {
		r.close()
	}
}

// Run publishes until ctx ends. It may be called once, after Bind.
func (s *Server) Run(ctx context.Context, loads Loads) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range s.ranks {
		group.Go(func() error { return r.serve(ctx) })
		group.Go(func() error { return r.publish(ctx) })
	}
	if s.opts.Ports.Load != 0 {
		group.Go(func() error { return s.gauge(ctx, loads) })
	}
	err := group.Wait()
	s.close()
	return err
}

// gauge publishes the load of every rank at each interval.
func (s *Server) gauge(ctx context.Context, loads Loads) error {
	tick := time.NewTicker(s.opts.LoadInterval)
	defer tick.Stop()
	for seq := int64(0); ; seq++ {
		states, err := loads.State(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, enginesim.ErrStopped) {
			return fmt.Errorf("ask the engine for its load: %w", err)
		}
		for i := range states {
			if _, silent := s.pub.faults.use(LoadSilent, i); !silent {
				s.ranks[i].load.Publish(loadMessage(seq, states[i], s.opts.PageSize)...)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// address of a rank's socket on a range of ports.
func (s *Server) address(port, rank int) string {
	return net.JoinHostPort(s.opts.Host, strconv.Itoa(port+rank))
}

// sink is the server as its publisher sees it.
type sink Server

func (s *sink) Publish(rank int, m Message) { s.ranks[rank].events.Publish(m.Parts...) }

func (s *sink) Restarted(rank int, cut bool) {
	if cut {
		s.ranks[rank].cut()
	}
}
