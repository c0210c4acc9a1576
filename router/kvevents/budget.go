package kvevents

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Budget bounds the memory of all decoded batches of a process: those in lanes and those somebody holds. It is safe for
// concurrent use.
type Budget struct {
	limit int64
	free  *semaphore.Weighted
	used  atomic.Int64
}

// NewBudget gives a budget of so many bytes; 0 means DefaultBudget.
func NewBudget(bytes int64) *Budget {
	if bytes <= 0 {
		bytes = DefaultBudget
	}
	return &Budget{limit: bytes, free: semaphore.NewWeighted(bytes)}
}

// Used is how much is taken.
func (g *Budget) Used() int64 { return g.used.Load() }

// Limit is how much there is.
func (g *Budget) Limit() int64 { return g.limit }

// Tight tells that more than three quarters are taken: whoever holds batches lets go of them, or the lanes of ranks that
// hold nothing stand still.
func (g *Budget) Tight() bool { return g.used.Load() > g.limit/4*3 }

// charge books a batch, waiting for room in the order of asking. A batch larger than the whole budget waits for all of it.
func (g *Budget) charge(ctx context.Context, b *Batch) error {
	n := min(b.Bytes(), g.limit)
	if err := g.free.Acquire(ctx, n); err != nil {
		return err
	}
	g.book(b, n)
	return nil
}

// tryCharge books a batch if there is room now.
func (g *Budget) tryCharge(b *Batch) bool {
	n := min(b.Bytes(), g.limit)
	if !g.free.TryAcquire(n) {
		return false
	}
	g.book(b, n)
	return true
}

func (g *Budget) book(b *Batch, n int64) {
	g.used.Add(n)
	b.budget, b.charged = g, n
}

func (g *Budget) release(n int64) {
	g.used.Add(-n)
	g.free.Release(n)
}
