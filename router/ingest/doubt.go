package ingest

import (
	"sync"

	"github.com/routerfleet/routerfleet/router/index"
)

// doubt is what the answers of a rank's engine say against what the rank holds in one life.
type doubt struct {
	life uint64
	is   bool
}

// doubts are words on their way from the goroutines that serve requests to the pump: the last one about each rank, so
// that whoever brings one never waits and there are never more than ranks.
type doubts struct {
	mu      sync.Mutex // guards pending
	pending map[index.Rank]doubt
	ready   chan struct{} // has a value when there is something to take
}

func newDoubts() *doubts {
	return &doubts{pending: map[index.Rank]doubt{}, ready: make(chan struct{}, 1)}
}

func (d *doubts) bring(r index.Rank, word doubt) {
	d.mu.Lock()
	d.pending[r] = word
	d.mu.Unlock()
	select {
	case d.ready <- struct{}{}:
	default:
	}
}

func (d *doubts) take() map[index.Rank]doubt {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.pending
	d.pending = map[index.Rank]doubt{}
	return all
}

// Suspected says that a rank's engine delivers less than what the rank is said to hold in a life (Status.Life), or no
// longer does: while it does, the rank's depth counts as far as it is contiguous (peer-bootstrap B7). A word about
// another life than the present one changes nothing. It never blocks; any goroutine may call it.
func (p *Pump) Suspected(rank index.Rank, life uint64, suspect bool, _ int) {
	if p.View().Rank(rank) != nil { // which bounds the words that wait
		p.doubts.bring(rank, doubt{life, suspect})
	}
}

// hear takes over what was said against ranks.
func (p *Pump) hear() {
	for rank, word := range p.doubts.take() {
		r := p.ranks[rank]
		if r == nil || r.doubt == word {
			continue
		}
		r.doubt = word
		p.touch(r)
		if word.is {
			p.opt.Log.Warn("a rank's engine reports fewer cached tokens than its events promise", "worker", r.Worker, "rank", rank.DP)
		} else {
			p.opt.Log.Info("a rank's engine reports what its events promise again", "worker", r.Worker, "rank", rank.DP)
		}
	}
}
