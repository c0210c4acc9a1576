package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/router/kvevents"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
	"github.com/routerfleet/routerfleet/router/zmtp"
)

// pipelineWindow is how far the publisher runs ahead of the pump: far below its high-water mark, so nothing is dropped.
const pipelineWindow = 8192

// wired is a rig whose one rank hears a publisher over loopback TCP.
type wired struct {
	*rig
	pub   *zmtp.Pub
	sub   *kvevents.Subscriber
	tasks sync.WaitGroup
	stop  context.CancelFunc
}

func newWired(ctx context.Context, r row) (*wired, error) {
	rig, err := newRig(ctx, r.Scheme, 1)
	if err != nil {
		return nil, err
	}
	sub, l, err := subscriber(rig, r)
	if err != nil {
		rig.close()
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	w := &wired{rig: rig, pub: zmtp.NewPub(zmtp.PubOptions{}), sub: sub, stop: stop}
	w.tasks.Go(func() { _ = w.pub.Serve(ctx, l) }) // both end with ctx, and say so
	w.tasks.Go(func() { _ = w.sub.Run(ctx) })
	t := time.NewTicker(look)
	defer t.Stop()
	for began := time.Now(); w.pub.Subscriptions() == 0; <-t.C {
		if time.Since(began) > patience {
			w.close()
			return nil, fmt.Errorf("nobody subscribed to %s within %v: %w", l.Addr(), patience, sub.State().Reason)
		}
	}
	return w, nil
}

func subscriber(r *rig, of row) (*kvevents.Subscriber, net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	sub, err := kvevents.NewSubscriber(kvevents.SubscriberOptions{Rank: r.ranks[0], Address: l.Addr().String(), Sink: r.lanes[0],
		Decoder: kvevents.DecoderOptions{Scheme: of.Scheme, Seed: seed}})
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return sub, l, nil
}

func (w *wired) close() {
	w.stop()
	w.tasks.Wait()
	w.rig.close()
}

// publish sends a payload as batch n, a microsecond after the one before it.
func (w *wired) publish(n int, payload []byte) error {
	if w.pub.Dropped() != 0 {
		return fmt.Errorf("the publisher dropped %d batches", w.pub.Dropped())
	}
	// The stamp follows the array's header and its own type byte; all dialects measured here are arrays.
	binary.BigEndian.PutUint64(payload[2:], math.Float64bits(firstStamp+float64(n)/1e6))
	w.pub.Publish(nil, wire.SeqFrame(int64(n)), payload)
	return nil
}

// pipeline measures the whole way of a batch: publisher, loopback TCP, subscriber, decoder, lane, pump.
func (f *figures) pipeline(roundTime time.Duration) error {
	d, err := dialectOf(f.Row.Dialect)
	if err != nil {
		return err
	}
	if d.MapBatch {
		return fmt.Errorf("dialect %s has no fixed place for the stamp", d.Name)
	}
	ctx := context.Background()
	s := newStory(1, f.Row.Blocks, wirePiece, true)
	fill, ring := s.encoded(d)
	w, err := newWired(ctx, f.Row)
	if err != nil {
		return err
	}
	defer w.close()
	warm, err := w.stream(ctx, 0, pipelineWindow, func(n int) bool { return n < len(fill) },
		func(n int) error { return w.publish(n, fill[n]) })
	if err != nil {
		return err
	}
	runtime.GC()
	began := time.Now()
	end, err := w.stream(ctx, warm, pipelineWindow, func(n int) bool { return n == warm || time.Since(began) < roundTime },
		func(n int) error { return w.publish(n, ring[(n-warm)%len(ring)]) })
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	f.Batches = float64(end-warm) / took
	f.Blocks = f.Batches * 2 * wirePiece
	return w.holds(s.resident())
}
