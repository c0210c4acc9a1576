package proxy

import (
	"sync"
	"time"
)

// retryBudget bounds retries to a share of requests, so that a failing pool is not asked twice as much as a healthy
// one. Requests earn retryShare each, and retryFloorPerSecond comes in whatever the traffic.
type retryBudget struct {
	mu      sync.Mutex // guards the rest
	credit  float64
	updated time.Time
	now     func() time.Time
}

func newRetryBudget(now func() time.Time) *retryBudget {
	return &retryBudget{credit: retryBurst, updated: now(), now: now}
}

// earn adds one request's share.
func (b *retryBudget) earn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.credit = min(b.credit+retryShare, retryBurst)
}

// spend takes one retry, or says that there is none left.
func (b *retryBudget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.credit = min(b.credit+now.Sub(b.updated).Seconds()*retryFloorPerSecond, retryBurst)
	b.updated = now
	if b.credit < 1 {
		return false
	}
	b.credit--
	return true
}

// refund returns a retry that was not made.
func (b *retryBudget) refund() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.credit = min(b.credit+1, retryBurst)
}
