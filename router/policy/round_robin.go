package policy

import (
	"cmp"
	"sync"

	"github.com/routerfleet/routerfleet/router/workers"
)

// maxCursors bounds the cursor table: models come and go with the engines, and a router has no use for the cursor
// of a model nobody serves any more. Beyond it the table starts anew, which costs fairness for one round.
const maxCursors = 1024

// roundRobin gives each rank of a model its turn in the cyclic order of (worker id, rank). It remembers who was
// served last, not a position in a list, so it stays fair when the pool changes between two calls: nobody is
// skipped when a rank before it leaves, nobody is served twice when one joins.
type roundRobin struct {
	mu sync.Mutex // guards last; held for one pass over the candidates
	// last is who was served last, per model.
	last map[string]turn
}

var _ Policy = (*roundRobin)(nil)

func newRoundRobin() *roundRobin { return &roundRobin{last: map[string]turn{}} }

func (*roundRobin) Name() string { return NameRoundRobin }

// turn names a rank across snapshots. The zero turn is before every rank.
type turn struct {
	worker workers.ID
	dp     int
}

func turnOf(r *workers.Rank) turn { return turn{r.Worker().ID(), r.DP()} }

func (t turn) compare(o turn) int {
	return cmp.Or(cmp.Compare(t.worker, o.worker), cmp.Compare(t.dp, o.dp))
}

func (p *roundRobin) Pick(r Request, candidates []*workers.Rank) (*workers.Rank, bool) {
	if len(candidates) == 0 {
		return nil, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known := p.last[r.Model]
	if !known && len(p.last) >= maxCursors {
		clear(p.last)
	}
	next := successor(last, candidates)
	p.last[r.Model] = turnOf(next)
	return next, true
}

// successor returns the first candidate after last in cyclic order. Candidates need not be sorted.
func successor(last turn, candidates []*workers.Rank) *workers.Rank {
	var after, first *workers.Rank
	for _, c := range candidates {
		t := turnOf(c)
		if first == nil || t.compare(turnOf(first)) < 0 {
			first = c
		}
		if t.compare(last) > 0 && (after == nil || t.compare(turnOf(after)) < 0) {
			after = c
		}
	}
	if after != nil {
		return after
	}
	return first
}
