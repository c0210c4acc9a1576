package publish

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/routerfleet/routerfleet/router/zmtp"
	"github.com/routerfleet/routerfleet/test/enginesim"
)

// rankServer is the sockets of one rank, and the goroutine that publishes.
type rankServer struct {
	server *Server
	rank   int
	queue  chan enginesim.Step
	asks   chan ask

	events, load *zmtp.Pub
	router       *zmtp.Router
	overflow     atomic.Int64

	mu      sync.Mutex // guards sockets and endLife
	sockets []socket
	endLife context.CancelFunc // ends the connections of the present incarnation; nil before the first
}

// socket is a listener and what serves it.
type socket struct {
	listener net.Listener
	serve    func(context.Context, net.Listener) error
}

// ask is a replay request on its way to the publishing goroutine.
type ask struct {
	ctx   context.Context // of the peer's connection
	start uint64
	reply func(parts ...[]byte) error
	done  chan<- struct{}
}

func newRankServer(s *Server, rank int) *rankServer {
	mark := zmtp.PubOptions{Options: s.opts.ZMTP, HighWaterMark: s.opts.HighWaterMark}
	r := &rankServer{
		server: s, rank: rank,
		queue: make(chan enginesim.Step, s.opts.QueueSize), asks: make(chan ask),
		events: zmtp.NewPub(mark), load: zmtp.NewPub(mark),
	}
	r.router = zmtp.NewRouter(s.opts.ZMTP, r.handle)
	return r
}

// bind listens on the rank's ports, in place of listeners that have ended.
func (r *rankServer) bind() error {
	ports := r.server.opts.Ports
	wanted := []struct {
		port  int
		serve func(context.Context, net.Listener) error
	}{{ports.Events, r.events.Serve}, {ports.Replay, r.router.Serve}, {ports.Load, r.load.Serve}}
	var sockets []socket
	for _, w := range wanted {
		if w.port == 0 {
			continue
		}
		l, err := r.server.opts.Listen("tcp", r.server.address(w.port, r.rank))
		if err != nil {
			for _, s := range sockets {
				_ = s.listener.Close() // nobody has connected to it
			}
			return err
		}
		sockets = append(sockets, socket{l, w.serve})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sockets = sockets
	return nil
}

func (r *rankServer) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sockets {
		_ = s.listener.Close() // closed already, but for those never served
	}
}

// serve serves one incarnation's connections after the other.
func (r *rankServer) serve(ctx context.Context) error {
	for {
		if err := r.live(ctx); ctx.Err() != nil || err != nil {
			return err
		}
		r.server.opts.Log.Info("event connections cut", "rank", r.rank)
		if err := r.bind(); err != nil {
			return fmt.Errorf("listen again for subscribers of rank %d: %w", r.rank, err)
		}
	}
}

// live serves until ctx ends or the incarnation does; nil is the latter.
func (r *rankServer) live(ctx context.Context) error {
	life, end := context.WithCancel(ctx)
	defer end()
	r.mu.Lock()
	sockets := r.sockets
	r.endLife = end
	r.mu.Unlock()
	group, serving := errgroup.WithContext(life)
	for _, s := range sockets {
		group.Go(func() error { return s.serve(serving, s.listener) })
	}
	err := group.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case life.Err() != nil:
		return nil
	default:
		return err
	}
}

// cut ends all connections; the listeners come back.
func (r *rankServer) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.endLife != nil {
		r.endLife()
	}
}

// publish is the engine's publishing thread: it publishes what is queued and
// answers replays between two batches, so that each waits for the other.
func (r *rankServer) publish(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case step := <-r.queue:
			r.server.pub.Observe(step)
		case a := <-r.asks:
			r.answer(a)
			close(a.done)
		}
	}
}

// handle takes [empty, start]; any other message is ignored, as real engines do.
func (r *rankServer) handle(ctx context.Context, q zmtp.Request) {
	if len(q.Parts) != 2 || len(q.Parts[0]) != 0 || len(q.Parts[1]) != 8 {
		r.server.opts.Log.Warn("replay request ignored: want an empty frame and 8 bytes of start", "rank", r.rank, "frames", len(q.Parts))
		return
	}
	done := make(chan struct{})
	select {
	case r.asks <- ask{ctx, binary.BigEndian.Uint64(q.Parts[1]), q.Reply, done}:
		<-done
	case <-ctx.Done():
	}
}

func (r *rankServer) answer(a ask) {
	for _, answer := range r.server.pub.Replay(r.rank, a.start) {
		if answer.Delay > 0 {
			select {
			case <-time.After(answer.Delay):
			case <-a.ctx.Done():
				return
			}
		}
		if a.reply(answer.Parts...) != nil {
			return // the peer has gone
		}
	}
}
