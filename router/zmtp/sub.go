package zmtp

import (
	"context"
	"fmt"
	"time"
)

// Handler hears of a subscription's life, always from the goroutine of Sub.Run. A slow handler is back-pressure: the
// socket is not read meanwhile, and the publisher drops beyond its high-water mark.
type Handler interface {
	// Connected begins an epoch: the handshake is done and the subscription sent. The publisher may still miss it
	// for an instant, so messages published before the first one received may be lost.
	Connected(epoch uint64)
	// Message delivers the frames of one message, valid during the call.
	Message(epoch uint64, parts [][]byte)
	// Disconnected ends an epoch. Nothing of it is delivered afterwards.
	Disconnected(epoch uint64, err error)
	// Unreachable tells of an attempt to connect that failed. No epoch began.
	Unreachable(err error)
}

// SubOptions configure a subscription.
type SubOptions struct {
	Options
	Address string // host:port of the publisher
	Topic   string // prefix of the first frame; empty takes everything

	// Rand gives a number in [0, n) for the redial jitter. The default is math/rand/v2.
	Rand func(n int64) int64
}

// Sub subscribes to one publisher and redials it for ever.
type Sub struct {
	opt     SubOptions
	handler Handler
	epoch   uint64
}

// NewSub gives a subscription that does nothing before Run.
func NewSub(opt SubOptions, h Handler) *Sub {
	opt.Options = opt.Options.withDefaults()
	return &Sub{opt: opt, handler: h}
}

// Run connects, delivers and redials until ctx ends, whose cause it returns. It may be called once.
func (s *Sub) Run(ctx context.Context) error {
	pauses := newBackoff(s.opt.Rand)
	for ctx.Err() == nil {
		if s.connection(ctx) {
			pauses.reset()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pauses.pause()):
		}
	}
	return context.Cause(ctx)
}

// connection is the life of one connection; steady tells that it was a useful one.
func (s *Sub) connection(ctx context.Context) (steady bool) {
	c, err := Dial(ctx, s.opt.Address, SUB, s.opt.Options)
	if err == nil {
		if err = c.Subscribe(s.opt.Topic); err != nil {
			c.Close()
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			s.handler.Unreachable(err)
		}
		return false
	}
	stop := context.AfterFunc(ctx, func() { c.nc.Close() })
	defer stop()
	s.epoch++
	s.handler.Connected(s.epoch)
	began := time.Now()
	got, err := s.deliver(c)
	c.Close()
	s.handler.Disconnected(s.epoch, fmt.Errorf("read from %s: %w", s.opt.Address, err))
	return got || time.Since(began) >= steadyAfter
}

func (s *Sub) deliver(c *Conn) (got bool, err error) {
	for {
		parts, err := c.Recv()
		if err != nil {
			return got, err
		}
		got = true
		s.handler.Message(s.epoch, parts)
	}
}
