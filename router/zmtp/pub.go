package zmtp

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// DefaultHighWaterMark is how many messages a publisher keeps for a slow subscriber. SGLang's and vLLM's default.
const DefaultHighWaterMark = 100_000

// PubOptions configure a publisher.
type PubOptions struct {
	Options
	HighWaterMark int // messages queued a subscriber before further ones are dropped for it
}

// Pub publishes to every subscriber that asked for the topic. It never waits for one: beyond the high-water mark the
// message is dropped for that subscriber and counted.
type Pub struct {
	opt     PubOptions
	dropped atomic.Uint64

	mu   sync.Mutex // guards subs and each subscriber's topics
	subs map[*subscriber]struct{}
}

type subscriber struct {
	conn   *Conn
	topics map[string]int // how often each was subscribed to and not cancelled
	queue  chan []byte    // encoded messages, shared between subscribers and never written to
}

// NewPub gives a publisher without subscribers.
func NewPub(opt PubOptions) *Pub {
	opt.Options = opt.Options.withDefaults()
	setDefault(&opt.HighWaterMark, DefaultHighWaterMark)
	return &Pub{opt: opt, subs: map[*subscriber]struct{}{}}
}

// Serve accepts subscribers on l until ctx ends, whose cause it returns.
func (p *Pub) Serve(ctx context.Context, l net.Listener) error {
	return serve(ctx, l, PUB, p.opt.Options, p.attend)
}

// Publish sends one message to those who subscribed to a prefix of its first part. The parts may be reused afterwards.
func (p *Pub) Publish(parts ...[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var encoded []byte
	for s := range p.subs {
		if !s.wants(parts[0]) {
			continue
		}
		if encoded == nil {
			encoded = appendMessage(nil, parts)
		}
		select {
		case s.queue <- encoded:
		default:
			p.dropped.Add(1)
		}
	}
}

// Dropped counts messages that a subscriber's high-water mark cost it.
func (p *Pub) Dropped() uint64 { return p.dropped.Load() }

// Subscriptions counts the subscribers that asked for at least one topic.
func (p *Pub) Subscriptions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for s := range p.subs {
		if len(s.topics) > 0 {
			n++
		}
	}
	return n
}

func (s *subscriber) wants(topic []byte) bool {
	for prefix := range s.topics {
		if bytes.HasPrefix(topic, []byte(prefix)) {
			return true
		}
	}
	return false
}

// attend reads one subscriber's wishes while a second goroutine writes what is queued for it.
func (p *Pub) attend(c *Conn) {
	s := &subscriber{conn: c, topics: map[string]int{}, queue: make(chan []byte, p.opt.HighWaterMark)}
	p.mu.Lock()
	p.subs[s] = struct{}{}
	p.mu.Unlock()
	var writer sync.WaitGroup
	gone := make(chan struct{})
	writer.Go(func() { s.write(gone) })
	for p.obey(s) == nil {
	}
	p.mu.Lock()
	delete(p.subs, s)
	p.mu.Unlock()
	close(gone)
	c.Close()
	writer.Wait()
}

// obey takes one wish: a SUBSCRIBE or CANCEL command, or a message 01 topic or 00 topic.
func (p *Pub) obey(s *subscriber) error {
	e, err := s.conn.next()
	if err != nil {
		return err
	}
	switch {
	case e.command == cmdSubscribe:
		return p.change(s, string(e.data), 1)
	case e.command == cmdCancel:
		return p.change(s, string(e.data), -1)
	case e.command == "" && len(e.parts) == 1 && len(e.parts[0]) > 0 && e.parts[0][0] <= 1:
		return p.change(s, string(e.parts[0][1:]), 2*int(e.parts[0][0])-1)
	}
	return nil // other commands and messages are none of a publisher's business
}

func (p *Pub) change(s *subscriber, topic string, by int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := s.topics[topic] + by
	if n <= 0 {
		delete(s.topics, topic)
		return nil
	}
	if _, known := s.topics[topic]; !known && len(s.topics) >= maxSubscriptions {
		return &LimitError{"subscriptions", maxSubscriptions + 1, maxSubscriptions}
	}
	s.topics[topic] = n
	return nil
}

// writeBatchBytes is how much is put into one write when a queue has built up.
const writeBatchBytes = 64 << 10

// write sends what is queued, many messages a system call when there are many.
func (s *subscriber) write(gone <-chan struct{}) {
	var batch []byte
	for {
		select {
		case <-gone:
			return
		case m := <-s.queue:
			batch = append(batch[:0], m...)
		}
		for more := true; more && len(batch) < writeBatchBytes; {
			select {
			case m := <-s.queue:
				batch = append(batch, m...)
			default:
				more = false
			}
		}
		if s.conn.write(batch) != nil {
			return // the connection is closed; attend's reader sees it
		}
	}
}
