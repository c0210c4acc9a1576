package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/zmtp"
)

// errRedial is the reason of a connection that was closed at our own wish.
var errRedial = errors.New("kvevents: redial was asked for")

// SubscriberOptions configure the subscription to one rank.
type SubscriberOptions struct {
	Rank    index.Rank // whose events these are: the socket's rank, whatever batches say
	Address string     // host:port of the rank's publisher
	Topic   string     // prefix of the topic; empty takes everything
	Decoder DecoderOptions

	Sink     Sink
	Observer Observer // may be nil

	// ZMTP bounds the connection; zero fields take that package's defaults.
	ZMTP zmtp.Options
	// Rand gives a number in [0, n) for the redial jitter. The default is math/rand/v2.
	Rand func(n int64) int64
}

// Subscriber follows the event stream of one rank and redials it for ever.
type Subscriber struct {
	opt     SubscriberOptions
	sub     *zmtp.Sub
	decoder *Decoder
	ctx     context.Context // of Run; read by the handler's goroutine only, which is Run's
	counts  counts

	mu     sync.Mutex // guards the fields below
	state  State
	conn   net.Conn // the newest one dialled
	doomed uint64   // epochs up to this one deliver nothing any more
}

// NewSubscriber gives a subscription that does nothing before Run.
func NewSubscriber(o SubscriberOptions) (*Subscriber, error) {
	switch {
	case o.Sink == nil:
		return nil, errors.New("kvevents: a subscriber needs a sink")
	case o.Address == "":
		return nil, errors.New("kvevents: a subscriber needs the publisher's address")
	}
	s := &Subscriber{opt: o, decoder: NewDecoder(o.Decoder)}
	dial := o.ZMTP.Dial
	if dial == nil {
		dial = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true}}).DialContext
	}
	o.ZMTP.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := dial(ctx, network, address)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conn = nc
		return nc, err
	}
	s.sub = zmtp.NewSub(zmtp.SubOptions{Options: o.ZMTP, Address: o.Address, Topic: o.Topic, Rand: o.Rand}, handler{s})
	return s, nil
}

// Run subscribes until ctx ends, whose cause it returns. It may be called once.
func (s *Subscriber) Run(ctx context.Context) error {
	s.ctx = ctx
	s.observe(State{Phase: Connecting})
	return s.sub.Run(ctx)
}

// State is how the subscription stands.
func (s *Subscriber) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Redial closes the connection of an epoch, if it is still the present one. Nothing of that epoch is delivered afterwards
// but its Closed; what is in the sink already stays there.
func (s *Subscriber) Redial(epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Phase != Up || s.state.Epoch != epoch {
		return
	}
	s.doomed = epoch
	_ = s.conn.Close() // the reader learns of it; there is nobody else to tell
}

// isDoomed tells whether an epoch was ended by Redial.
func (s *Subscriber) isDoomed(epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return epoch <= s.doomed
}

func (s *Subscriber) observe(st State) {
	s.mu.Lock()
	changed := s.state.Phase != st.Phase || s.state.Epoch != st.Epoch
	s.state = st
	s.mu.Unlock()
	if changed && s.opt.Observer != nil {
		s.opt.Observer.RankState(s.opt.Rank, st)
	}
}

// deliver hands one delivery to the sink. The sink may refuse only when ctx has ended or the rank is gone.
func (s *Subscriber) deliver(d Delivery) {
	d.Rank = s.opt.Rank
	if err := s.opt.Sink.Deliver(s.ctx, d); err != nil {
		if d.Batch != nil {
			d.Batch.Release()
		}
		s.counts.undelivered.Add(1)
	}
}

// handler hears of the connection, on the goroutine of Run.
type handler struct{ s *Subscriber }

var _ zmtp.Handler = handler{}

// Connected begins an epoch.
func (h handler) Connected(epoch uint64) {
	h.s.counts.connects.Add(1)
	h.s.observe(State{Phase: Up, Epoch: epoch}) // first: whoever takes Opened may ask for a redial at once
	h.s.deliver(Delivery{Epoch: epoch, Kind: Opened})
}

// Disconnected ends an epoch.
func (h handler) Disconnected(epoch uint64, err error) {
	if h.s.isDoomed(epoch) {
		err = errRedial
	}
	h.s.observe(State{Phase: Down, Epoch: epoch, Reason: err})
	h.s.deliver(Delivery{Epoch: epoch, Kind: Closed, Err: err})
}

// Unreachable tells of a dial that failed.
func (h handler) Unreachable(err error) {
	h.s.counts.unreachable.Add(1)
	st := h.s.State()
	h.s.observe(State{Phase: Down, Epoch: st.Epoch, Reason: err})
}

// Message takes one message: topic, seq, payload. Anything else is dropped and counted.
func (h handler) Message(epoch uint64, parts [][]byte) {
	s := h.s
	s.counts.messages.Add(1)
	if len(parts) != 3 || len(parts[1]) != 8 {
		s.counts.malformed.Add(1)
		return
	}
	if s.isDoomed(epoch) {
		return
	}
	seq := int64(binary.BigEndian.Uint64(parts[1]))
	switch {
	case seq == EndSeq:
		s.counts.resets.Add(1)
		s.deliver(Delivery{Epoch: epoch, Kind: Reset})
	case seq < 0:
		s.counts.malformed.Add(1)
	default:
		b := s.decoder.Decode(seq, parts[2])
		s.counts.decoded(b, s.opt.Rank.DP)
		s.deliver(Delivery{Epoch: epoch, Kind: Arrived, Batch: b})
	}
}

// counts are a subscription's counters. One goroutine writes, any may read.
type counts struct {
	connects, unreachable, messages, malformed, resets, undelivered, foreignRank atomic.Uint64
	skips                                                                        [skipReasons]atomic.Uint64
}

func (c *counts) decoded(b *Batch, dp int32) {
	if b.Rank != NoRank && b.Rank != dp {
		c.foreignRank.Add(1)
	}
	if !b.Untrusted() {
		return
	}
	for reason, n := range b.Skips {
		c.skips[reason].Add(uint64(n))
	}
}
