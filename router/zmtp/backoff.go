package zmtp

import (
	"math/rand/v2"
	"time"
)

// Redial times: quick at first, because an engine that restarts loses what it publishes until we are back, and never
// further apart than maxRedial, because we redial for ever.
const (
	firstRedial = 50 * time.Millisecond
	maxRedial   = 2 * time.Second

	// steadyAfter is how long a connection must have lived, or delivered a message, for the next redial to start
	// over: a peer that accepts and closes must not be dialled in a hot loop.
	steadyAfter = 10 * time.Second
)

// backoff gives the pauses between attempts: doubling, half of each random, so that replicas do not redial in step.
type backoff struct {
	next time.Duration
	rand func(n int64) int64
}

func newBackoff(random func(n int64) int64) *backoff {
	if random == nil {
		random = rand.Int64N
	}
	return &backoff{next: firstRedial, rand: random}
}

func (b *backoff) reset() { b.next = firstRedial }

func (b *backoff) pause() time.Duration {
	half := b.next / 2
	b.next = min(2*b.next, maxRedial)
	return half + time.Duration(b.rand(int64(half)+1))
}
