package proxy

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routerfleet/routerfleet/router/workers"
)

const (
	// fullFor is how long a rank that answered 429 or 503 without a Retry-After is spared: about a prefill, after which it
	// may have room again.
	fullFor = time.Second
	// maxFullFor bounds what an engine may ask for in Retry-After. What one client is told is not all that happens there.
	maxFullFor = 5 * time.Second
)

// pressure remembers which ranks lately said that they are full. Others are asked first for a while: an engine that refuses
// at once always looks idle, and the one that has a prompt in its cache looks cheapest as well, so that without this a
// popular prefix would be sent into its refusals until the retry budget is gone, with idle engines beside it.
type pressure struct {
	now   func() time.Time
	some  atomic.Bool // the map is not empty: requests look no further otherwise
	mu    sync.Mutex  // guards until
	until map[*workers.Rank]time.Time
}

func newPressure(now func() time.Time) *pressure {
	return &pressure{now: now, until: map[*workers.Rank]time.Time{}}
}

// heard takes an engine's answer.
func (p *pressure) heard(r *workers.Rank, resp *http.Response) {
	if resp == nil || workers.OutcomeOfStatus(resp.StatusCode) != workers.Backpressure {
		return
	}
	wait := fullFor
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		wait = min(time.Duration(min(seconds, int(maxFullFor/time.Second)))*time.Second, maxFullFor)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until[r] = p.now().Add(wait)
	p.some.Store(true)
}

// spare leaves out the ranks that said so, unless there is no other. The slice given is shared and stays as it is.
func (p *pressure) spare(ranks []*workers.Rank) []*workers.Rank {
	if !p.some.Load() {
		return ranks
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for r, until := range p.until {
		if !now.Before(until) {
			delete(p.until, r)
		}
	}
	p.some.Store(len(p.until) > 0)
	full := func(r *workers.Rank) bool { _, is := p.until[r]; return is }
	if !slices.ContainsFunc(ranks, full) {
		return ranks
	}
	if rest := slices.DeleteFunc(slices.Clone(ranks), full); len(rest) > 0 {
		return rest
	}
	return ranks
}
