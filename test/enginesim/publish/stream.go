package publish

import (
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// EndSeq is the seq that ends a replay; on the live stream it says that the
// publisher shuts down.
const EndSeq = int64(-1)

// Message is one message of the live stream.
type Message struct {
	Seq     int64 // or EndSeq
	Payload []byte
	Parts   [][]byte // the frames on the wire: topic, seq, payload, unless a fault says otherwise
}

// Sink takes what a rank publishes. It is called in order, under the rank's lock:
// it must not block and must not call back. What it is given is its to keep but
// not to write to.
type Sink interface {
	Publish(rank int, m Message)
	// Restarted tells that the rank's process began anew. With cut its
	// connections are gone.
	Restarted(rank int, cut bool)
}

// Restart is how a process that begins anew shows.
type Restart struct {
	EndSeq bool  // the old one says goodbye
	Seq    int64 // batches the new one had published before anybody could hear
	Cut    bool  // connections end
}

// stream is what one rank publishes in one incarnation after the other.
type stream struct {
	opts   Options
	shape  shape
	rank   int
	faults *faultSet

	mu       sync.Mutex // guards all below, and the order of calls to the sink
	next     int64
	ring     ring
	namer    *namer
	windowed map[cache.Key]bool // blocks the sliding-window group holds
	held     []held             // kept back while the rank hangs
	lost     int64              // batches dropped because held was full
	restart  Restart            // how the next restart shows
	dreams   uint64             // made-up hashes so far
}

// held is a batch that waits for the rank to stop hanging.
type held struct {
	at     time.Time
	events []event
}

func newStream(opts Options, rank int, faults *faultSet) *stream {
	return &stream{
		opts: opts, shape: shapes[opts.Dialect], rank: rank, faults: faults,
		ring: ring{maxSteps: opts.BufferSteps}, namer: newNamer(opts.HashScheme, opts.HashSeed), windowed: map[cache.Key]bool{},
	}
}

// observe publishes one step: one batch, and what a restart in it shows.
func (s *stream) observe(step enginesim.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if events := s.translate(step.Changes); len(events) > 0 {
		s.publish(step.Time, events)
	}
	if n := len(step.Changes); n > 0 {
		if _, restarted := step.Changes[n-1].(enginesim.Restarted); restarted {
			s.begin(step.Time)
		}
	}
}

// publish sends a batch, or keeps it back while the rank hangs.
func (s *stream) publish(at time.Time, events []event) {
	if !s.faults.hangs(s.rank) {
		s.release()
		s.send(at, events)
		return
	}
	if len(s.held) == maxHeldSteps {
		s.lost++
		s.next++ // a hole, as when a real engine's queue is full
		return
	}
	s.held = append(s.held, held{at, events})
}

// release sends what was kept back.
func (s *stream) release() {
	waiting := s.held
	s.held = nil
	for _, h := range waiting {
		s.send(h.at, h.events)
	}
}

// send numbers a batch, keeps it and hands it on, as far as the faults let it.
func (s *stream) send(at time.Time, events []event) {
	b := batch{seconds: s.seconds(at), events: s.corrupt(events), rank: s.rank}
	if f, on := s.faults.use(WrongRank, s.rank); on {
		b.rank = f.DPRank
	}
	payload := s.garble(s.shape.encode(b))
	seq := s.next
	s.next++
	if _, on := s.faults.use(Drop, s.rank); on {
		return
	}
	s.ring.add(seq, payload)
	if _, on := s.faults.use(Lose, s.rank); on {
		return
	}
	m := Message{seq, payload, s.parts(seq, payload)}
	s.opts.Sink.Publish(s.rank, m)
	if _, on := s.faults.use(Duplicate, s.rank); on {
		s.opts.Sink.Publish(s.rank, m)
	}
}

// seconds is a moment as engines write it: float seconds by their own clock.
func (s *stream) seconds(at time.Time) float64 {
	if f, on := s.faults.use(Clock, s.rank); on {
		at = at.Add(time.Duration(f.OffsetMillis) * time.Millisecond)
	}
	return float64(at.UnixNano()) / 1e9
}

// begin starts the next incarnation the way it was planned.
func (s *stream) begin(at time.Time) {
	plan := s.restart
	s.restart = Restart{}
	if plan.EndSeq && !s.faults.hangs(s.rank) {
		s.opts.Sink.Publish(s.rank, Message{EndSeq, nil, [][]byte{[]byte(s.opts.Topic), seqFrame(EndSeq), nil}})
	}
	s.held = nil // a queue dies with its process
	s.ring.clear()
	s.namer.begin()
	clear(s.windowed)
	s.opts.Sink.Restarted(s.rank, plan.Cut)
	s.next = min(max(0, plan.Seq), MaxSeq)
	for seq := max(0, s.next-int64(s.opts.BufferSteps)); seq < s.next; seq++ {
		s.ring.add(seq, s.shape.encode(batch{seconds: s.seconds(at), rank: s.rank}))
	}
}
