package workers

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// rateTokens is how many tokens of prefill a rank's speed is measured over: when there are more, the older half
	// of what is known counts half. Some half a minute of a busy engine.
	rateTokens = 1 << 18
	// minRateTokens and minRateTime are what must be known before there is a speed at all.
	minRateTokens = 1 << 10
	minRateTime   = 100 * time.Millisecond
)

// prefill estimates how much of a rank's queued prefill the engine has computed by now. Without it a prompt of 100,000
// tokens weighs the same until its first byte, however long it has been worked on, and requests are sent away from
// their prefix for nothing: that costs two points of hit ratio on the conversation trace.
//
// It takes the engine for a queue: prompts are computed one after the other as they came, the oldest first. That
// the estimate concerns the oldest prompt only bounds its error when the engine does otherwise, or hangs. Its
// speed is measured over prompts whose answers are streamed; of others nobody sees when the prefill ended.
type prefill struct {
	now  func() time.Time
	base time.Time

	mu             sync.Mutex // guards the list and the sums; a leaf lock
	oldest, newest *Lease     // leases without a first byte, as they were taken
	last           int64      // when the engine was last done with a prompt
	tokens         int64      // computed in busy
	busy           int64

	// What readers see. The three are not of one instant: the estimate may for a moment be off by the oldest prompt.
	head, began, rate atomic.Int64 // tokens of the oldest, when it was begun, tokens a second
}

// waiting is a lease's place among those without a first byte. Times are nanoseconds since prefill.base.
type waiting struct {
	before, after *Lease
	sent          int64
	tokens        int64
	took          int64 // of its prefill, once it is over
}

func (p *prefill) clock() int64 { return int64(p.now().Sub(p.base)) }

// enter queues a lease.
func (p *prefill) enter(l *Lease) {
	l.waiting.sent = p.clock()
	p.mu.Lock()
	defer p.mu.Unlock()
	l.waiting.before = p.newest
	if p.newest == nil {
		p.oldest = l
		p.publishLocked()
	} else {
		p.newest.waiting.after = l
	}
	p.newest = l
}

// leave takes a lease from the queue, because its answer has begun or because it was given up.
func (p *prefill) leave(l *Lease, answered bool) {
	now := p.clock()
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &l.waiting
	if answered {
		w.took = now - max(w.sent, p.last)
	}
	if answered || p.oldest == l { // the engine goes on to the next
		p.last = now
	}
	if w.before == nil {
		p.oldest = w.after
	} else {
		w.before.waiting.after = w.after
	}
	if w.after == nil {
		p.newest = w.before
	} else {
		w.after.waiting.before = w.before
	}
	w.before, w.after = nil, nil
	p.publishLocked()
}

func (p *prefill) publishLocked() {
	if p.oldest == nil {
		p.head.Store(0)
		return
	}
	p.began.Store(max(p.oldest.waiting.sent, p.last))
	p.head.Store(p.oldest.waiting.tokens)
}

// learn counts a prompt whose first byte is known to have ended its prefill.
func (p *prefill) learn(w waiting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tokens > rateTokens {
		p.tokens, p.busy = p.tokens/2, p.busy/2
	}
	p.tokens += w.tokens
	p.busy += max(0, w.took)
	if p.tokens >= minRateTokens && p.busy >= int64(minRateTime) {
		p.rate.Store(int64(float64(p.tokens) / time.Duration(p.busy).Seconds()))
	}
}

// done estimates the tokens computed of the oldest prompt.
func (p *prefill) done(now time.Time) int64 {
	head, rate := p.head.Load(), p.rate.Load()
	if head == 0 || rate == 0 {
		return 0
	}
	elapsed := now.Sub(p.base) - time.Duration(p.began.Load())
	return int64(min(float64(head), max(0, elapsed.Seconds())*float64(rate)))
}
