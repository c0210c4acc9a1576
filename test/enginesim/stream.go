package enginesim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Errors a Stream or Submit ends with.
var (
	// ErrQueueFull: the rank has MaxQueued sequences waiting. Try later.
	ErrQueueFull = errors.New("the engine's queue is full")
	// ErrCancelled: the context of Submit ended before the answer did.
	ErrCancelled = errors.New("the request was cancelled")
	// ErrStopped: the engine's Run returned.
	ErrStopped = errors.New("the engine has stopped")
	// ErrRestarted: the engine was restarted in place; errors.Is(err, ErrStopped) holds as well.
	ErrRestarted = fmt.Errorf("%w and begun anew", ErrStopped)
)

// Event is what is new since the last one: tokens, in order. A reader that falls
// behind gets fewer, larger events; the engine never waits for it.
type Event struct {
	Tokens       []uint32  // at least one; read only
	CachedTokens int       // prompt tokens found in the cache
	At           time.Time // when the last of Tokens was produced
}

// Stream is one answer being produced. One goroutine may read it.
type Stream struct {
	// Rank is the rank that serves the request.
	Rank int

	output  []uint32
	wake    chan struct{}   // capacity 1: something below changed
	stopped <-chan struct{} // the engine's Run has returned

	mu       sync.Mutex // guards all below; held for a few assignments
	produced int
	cached   int
	at       time.Time
	ended    bool
	err      error
	unwatch  func() bool // stops the watch of Submit's context

	read int // tokens handed out; the reader's own
}

func newStream(rank int, output []uint32, stopped <-chan struct{}) *Stream {
	return &Stream{Rank: rank, output: output, wake: make(chan struct{}, 1), stopped: stopped}
}

// Next waits for the next event. It returns io.EOF after the last one, the
// reason when the answer was broken off (what had been produced is delivered
// first), or ctx's error.
func (s *Stream) Next(ctx context.Context) (Event, error) {
	for {
		if event, fresh, err := s.take(); fresh || err != nil {
			return event, err
		}
		select {
		case <-s.wake:
		case <-s.stopped:
			return s.last()
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// last is Next after the engine stopped: a sequence that no rank ever read from
// its mailbox has no other end.
func (s *Stream) last() (Event, error) {
	event, fresh, err := s.take()
	if fresh || err != nil {
		return event, err
	}
	return Event{}, ErrStopped
}

// watch keeps the function that stops watching the caller's context, and calls
// it once the stream has ended.
func (s *Stream) watch(unwatch func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		unwatch()
		return
	}
	s.unwatch = unwatch
}

// Usage returns the prompt tokens found in the cache and the tokens produced so
// far. Both are final once Next has returned io.EOF.
func (s *Stream) Usage() (cached, produced int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cached, s.produced
}

func (s *Stream) take() (event Event, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.produced > s.read {
		event = Event{Tokens: s.output[s.read:s.produced:s.produced], CachedTokens: s.cached, At: s.at}
		s.read = s.produced
		return event, true, nil
	}
	switch {
	case !s.ended:
		return Event{}, false, nil
	case s.err != nil:
		return Event{}, false, s.err
	default:
		return Event{}, false, io.EOF
	}
}

func (s *Stream) progress(at time.Time, cached, produced int) {
	s.mu.Lock()
	s.at, s.cached, s.produced = at, cached, produced
	s.mu.Unlock()
	s.signal()
}

func (s *Stream) end(cached int, err error) {
	s.mu.Lock()
	s.cached, s.ended, s.err = cached, true, err
	if s.unwatch != nil {
		s.unwatch()
	}
	s.mu.Unlock()
	s.signal()
}

func (s *Stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
