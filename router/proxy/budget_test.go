package proxy

import (
	"testing"
	"time"
)

func TestRetriesAreATenthOfRequestsOverASmallFloor(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newRetryBudget(func() time.Time { return now })
	spend := func() (n int) {
		for b.spend() {
			n++
		}
		return n
	}
	if got := spend(); got != retryBurst {
		t.Errorf("a fresh budget gives %d retries, want %d", got, retryBurst)
	}
	for range 205 {
		b.earn()
	}
	if got := spend(); got != 20 {
		t.Errorf("205 requests earn %d retries, want 20", got)
	}
	now = now.Add(3 * time.Second)
	if got := spend(); got != 3*retryFloorPerSecond {
		t.Errorf("3 quiet seconds earn %d retries, want %d", got, 3*retryFloorPerSecond)
	}
	now = now.Add(time.Hour)
	if got := spend(); got != retryBurst {
		t.Errorf("an hour saves up %d retries, want %d", got, retryBurst)
	}
	b.refund()
	if got := spend(); got != 1 {
		t.Errorf("a refund gives %d retries, want 1", got)
	}
}
