package publish

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/zmtp"
	"github.com/routerfleet/routerfleet/test/enginesim"
)

func TestAReplayRepeatsTheLiveStream(t *testing.T) {
	for _, opts := range []Options{{Dialect: SGLangMap}, {Dialect: VLLMMap, ReplayTopic: true}} {
		served(t, enginesim.Options{DPSize: 2, PageSize: 2}, opts, func(r *rig) {
			for i := range 5 {
				r.ask(1, tokens(100*i, 5), 0, "")
			}
			got := r.replay(1, 2)
			if got.Ending != kvevents.Complete || !got.Covers(4) || len(got.Batches) != 3 {
				t.Errorf("%v with %d batches, %v", got.Ending, len(got.Batches), got.Err)
			}
			got.Release()
			f := newFollower(index.SchemeTokens)
			whole := r.replay(1, 0)
			for _, b := range whole.Batches {
				f.apply(b.Batch)
			}
			r.wantTruth(f, 1)
			if rank0 := r.replay(0, 0); rank0.Ending != kvevents.Complete || len(rank0.Batches) != 0 {
				t.Errorf("an idle rank: %v with %d batches", rank0.Ending, len(rank0.Batches))
			}
		})
	}
}

func TestAReplayRequestOfAnotherShapeIsNotAnswered(t *testing.T) {
	served(t, enginesim.Options{DPSize: 1, PageSize: 2}, Options{}, func(r *rig) {
		c, err := zmtp.Dial(r.t.Context(), r.server.address(5657, 0), zmtp.DEALER, zmtp.Options{Dial: r.network.Dial, HeartbeatInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		for _, parts := range [][][]byte{{make([]byte, 8)}, {nil, make([]byte, 7)}, {nil, make([]byte, 8), nil}, {{1}, make([]byte, 8)}} {
			if err := c.Send(parts...); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Send(nil, make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		got, err := c.Recv()
		if err != nil || len(got) != 3 || !slices.Equal(got[1], seqFrame(EndSeq)) {
			t.Errorf("the first answer is %q, %v; want the terminator of the one good request", got, err)
		}
	})
}

// One goroutine publishes and replays, as in a real engine.
func TestASlowReplayHoldsLiveEventsUp(t *testing.T) {
	served(t, enginesim.Options{DPSize: 1, PageSize: 2}, Options{}, func(r *rig) {
		f, stop := r.follow(0, index.SchemeTokens)
		defer stop()
		for i := range 3 {
			r.ask(0, tokens(100*i, 5), 0, "")
		}
		if err := r.server.pub.Set(Fault{Name: ReplaySlow, Delay: time.Second}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ended := make(chan *kvevents.ReplayResult, 1)
		go func() { ended <- r.replay(0, 0) }()
		synctest.Wait()
		r.ask(0, tokens(900, 5), 0, "")
		if f.count() != 3 {
			t.Errorf("%d batches while a replay runs, want 3", f.count())
		}
		got := <-ended
		synctest.Wait()
		if got.Ending != kvevents.Complete || time.Since(begin) != 4*time.Second || len(got.Batches) != 3 || f.count() != 4 {
			t.Errorf("%v with %d batches after %v, then %d live ones", got.Ending, len(got.Batches), time.Since(begin), f.count())
		}
		got.Release()
	})
}

func TestReplayFaultsEndReplaysTheWayTheySay(t *testing.T) {
	for name, want := range map[FaultName]kvevents.Ending{ReplaySilent: kvevents.TimedOut, ReplayTruncate: kvevents.TimedOut, Hang: kvevents.TimedOut, ReplayReorder: kvevents.Complete} {
		served(t, enginesim.Options{DPSize: 1, PageSize: 2}, Options{}, func(r *rig) {
			for i := range 3 {
				r.ask(0, tokens(100*i, 5), 0, "")
			}
			if err := r.server.pub.Set(Fault{Name: name, Params: Params{AfterBatches: 2}}); err != nil {
				t.Fatal(err)
			}
			got := r.replay(0, 0)
			if got.Ending != want || got.Covers(2) {
				t.Errorf("%s: %v with %d batches", name, got.Ending, len(got.Batches))
			}
			got.Release()
		})
	}
}

func TestARestartWithCutEndsConnectionsAndListensAgain(t *testing.T) {
	served(t, enginesim.Options{DPSize: 2, PageSize: 2}, Options{}, func(r *rig) {
		f, stop := r.follow(0, index.SchemeTokens)
		defer stop()
		r.ask(0, tokens(1, 5), 0, "")
		r.server.pub.PlanRestart(Restart{Cut: true})
		if err := r.engine.Restart(r.t.Context()); err != nil {
			t.Fatal(err)
		}
		r.settle()
		if !slices.Equal(f.heard, []string{"up 1", "down 1", "up 2"}) {
			t.Errorf("the subscriber went through %v", f.heard)
		}
		r.ask(0, tokens(1, 7), 0, "")
		if !slices.Equal(f.seqs, []int64{0, 0}) {
			t.Errorf("seqs %v, want the new life to begin at 0", f.seqs)
		}
		if got := r.replay(0, 0); got.Ending != kvevents.Complete || len(got.Batches) != 1 {
			t.Errorf("the replay socket: %v with %d batches, %v", got.Ending, len(got.Batches), got.Err)
		}
	})
}

func TestARestartWithoutCutKeepsTheConnection(t *testing.T) {
	served(t, enginesim.Options{DPSize: 1, PageSize: 2}, Options{}, func(r *rig) {
		f, stop := r.follow(0, index.SchemeTokens)
		defer stop()
		r.ask(0, tokens(1, 5), 0, "")
		r.server.pub.PlanRestart(Restart{EndSeq: true})
		if err := r.engine.Restart(r.t.Context()); err != nil {
			t.Fatal(err)
		}
		r.ask(0, tokens(1, 5), 0, "")
		if !slices.Equal(f.heard, []string{"up 1"}) || !slices.Equal(f.seqs, []int64{0, EndSeq, 0}) {
			t.Errorf("the subscriber heard %v and seqs %v", f.heard, f.seqs)
		}
	})
}

func TestAFullQueueLosesStepsAndSaysSo(t *testing.T) {
	s, err := NewServer(ServerOptions{Options: Options{Ports: Ports{Events: 5557}}, QueueSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s.Observe(enginesim.Step{Changes: []enginesim.Change{enginesim.Cleared{}}})
	}
	if s.Overflows() != 3 {
		t.Errorf("%d steps were lost, want 3", s.Overflows())
	}
}

// TestRealSocketsCarryTheEvents is the one test on loopback.
func TestRealSocketsCarryTheEvents(t *testing.T) {
	var addresses []string
	s, err := NewServer(ServerOptions{
		Options: Options{PageSize: 2, Ports: Ports{Events: 5557, Replay: 5657}},
		Listen: func(network, _ string) (net.Listener, error) {
			l, err := net.Listen(network, "127.0.0.1:0")
			if err == nil {
				addresses = append(addresses, l.Addr().String())
			}
			return l, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bind(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, nil) }()
	defer func() { stop(); <-ended }()
	heard := make(chan int64, 10)
	sub := zmtp.NewSub(zmtp.SubOptions{Address: addresses[0]}, listener(heard))
	running := make(chan struct{})
	go func() { defer close(running); _ = sub.Run(ctx) }()
	defer func() { stop(); <-running }()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for s.Subscriptions(0) == 0 {
		<-ticker.C
	}
	s.Observe(enginesim.Step{Time: time.Now(), Changes: []enginesim.Change{chain(1, 2)}})
	if seq := <-heard; seq != 0 {
		t.Errorf("seq %d", seq)
	}
	got := kvevents.Replay(t.Context(), kvevents.ReplayOptions{Address: addresses[1], Decoder: kvevents.DecoderOptions{Scheme: index.SchemeSGLang}})
	if !got.Covers(0) {
		t.Errorf("replay: %v, %v", got.Ending, got.Err)
	}
}

// listener tells the seqs it hears.
type listener chan int64

func (listener) Connected(uint64)           {}
func (listener) Disconnected(uint64, error) {}
func (listener) Unreachable(error)          {}
func (l listener) Message(_ uint64, parts [][]byte) {
	l <- int64(parts[1][7])
}

func TestATakenPortIsAnErrorAndLeavesNothingOpen(t *testing.T) {
	open := 0
	s, err := NewServer(ServerOptions{
		Options: Options{DPSize: 2, Ports: Ports{Events: 5557, Replay: 5657}},
		Listen: func(network, address string) (net.Listener, error) {
			if address == "0.0.0.0:5658" {
				return nil, errors.New("address already in use")
			}
			open++
			return &counted{open: &open}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bind(); err == nil || open != 0 {
		t.Errorf("Bind: %v, %d listeners are open", err, open)
	}
}

// counted is a listener that only can be closed.
type counted struct {
	net.Listener
	open *int
}

func (c *counted) Close() error { *c.open--; return nil }
