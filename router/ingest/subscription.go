package ingest

import (
	"context"
	"sync/atomic"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

// subscription is one subscriber to one rank, and the rank's link to its engine. Epochs go on from the subscription
// before it, so that a delivery of that one is never taken for one of this.
type subscription struct {
	feed     *Feed
	engine   Engine
	settings kvevents.Settings
	rank     index.Rank
	decoder  kvevents.DecoderOptions

	lane   *kvevents.Lane
	sub    *kvevents.Subscriber
	base   uint64
	last   *atomic.Uint64 // the rank's highest epoch so far
	cancel context.CancelFunc
	done   chan struct{}
}

var (
	_ Link          = (*subscription)(nil)
	_ kvevents.Sink = (*subscription)(nil)
)

// start subscribes. The rank must be registered.
func (s *subscription) start(ctx context.Context) error {
	var err error
	s.base = s.last.Load()
	s.lane = s.feed.opt.Pump.Inbox().Lane(s.rank)
	options := kvevents.SubscriberOptions{
		Rank: s.rank, Address: s.settings.Address(int(s.rank.DP)), Topic: s.settings.Topic,
		Decoder: s.decoder, Sink: s, Rand: s.feed.opt.Rand,
	}
	options.ZMTP.Dial = s.feed.opt.Dial
	if s.sub, err = kvevents.NewSubscriber(options); err != nil {
		return err
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		_ = s.sub.Run(ctx) // ends with ctx only, whose cause it returns
	}()
	return nil
}

// stop ends the subscription and waits for it. What it has not delivered is dropped.
func (s *subscription) stop() {
	s.cancel()
	<-s.done
	s.lane.Close()
}

// Deliver hands on what the subscriber hears.
func (s *subscription) Deliver(ctx context.Context, d kvevents.Delivery) error {
	d.Epoch += s.base
	s.last.Store(d.Epoch)
	return s.lane.Deliver(ctx, d)
}

// Redial closes the connection of an epoch.
func (s *subscription) Redial(epoch uint64) { s.sub.Redial(epoch - s.base) }

// Replay asks the engine for its batches from one on.
func (s *subscription) Replay(ctx context.Context, from int64) *kvevents.ReplayResult {
	options := kvevents.ReplayOptions{
		Address: s.settings.ReplayAddress(int(s.rank.DP)), Start: from,
		Decoder: s.decoder, Budget: s.feed.opt.Pump.Inbox().Budget(),
	}
	options.ZMTP.Dial = s.feed.opt.Dial
	return kvevents.Replay(ctx, options)
}

// Start asks the engine for its start. What else it says goes to the feed: an engine that restarted may publish
// elsewhere.
func (s *subscription) Start(ctx context.Context) Start {
	facts, err := s.feed.opt.Introspector.Introspect(ctx, s.engine)
	if err != nil {
		return Start{}
	}
	s.feed.tell(ctx, looked{s.engine.ID, s.engine.URL, facts, nil})
	return facts.Start
}
