package policy

import (
	"sync"
	"sync/atomic"

	"github.com/routerfleet/routerfleet/router/index"
)

// What makes a rank suspect: over so many answers, more than so much of what was promised did not come, and more than
// so many blocks an answer. Source: the design of the fleet's ground truth.
const (
	truthAnswers      = 32
	maxOverPercent    = 10
	maxOverBlocksMean = 2
)

// tally is what answers have said of one rank's index. An answer counts when blocks were promised; promised is what the
// index held, never predicted credit. Every 32 answers are judged together:
//
//	state    message                         next state
//	any      answer without promise          unchanged
//	any      answer, fewer than 32           counted
//	trusted  32nd, mean within limits        trusted; ratio measured
//	trusted  32nd, mean over limits          suspect; ratio measured
//	suspect  32nd, mean over limits          suspect; ratio measured anew
//	suspect  32nd, mean within limits        trusted; ratio measured
//
// An engine that delivers more than promised in one answer does not make up for less in another.
type tally struct {
	answers             int
	promised, delivered int64 // blocks of the present 32 answers
	measured, suspect   bool
	ratio               int32 // percent delivered of the last 32 answers
}

// step counts one answer; judged says that it was the last of 32.
func (t tally) step(promised, delivered int64) (next tally, judged bool) {
	if promised <= 0 {
		return t, false
	}
	t.answers++
	t.promised += promised
	t.delivered += min(max(0, delivered), promised)
	if t.answers < truthAnswers {
		return t, false
	}
	over := t.promised - t.delivered
	return tally{
		measured: true,
		suspect:  percent*over > maxOverPercent*t.promised && over > maxOverBlocksMean*truthAnswers,
		ratio:    int32(percent * t.delivered / t.promised),
	}, true
}

// discount is what a rank's holdings count, in percent.
func (t tally) discount(trust Trust, untrustedPercent int32) int32 {
	own := int32(percent)
	if t.suspect {
		own = t.ratio
	}
	switch trust {
	case Trusted:
		return own
	case UpperBound, Suspect:
		if t.measured {
			return t.ratio
		}
		return untrustedPercent
	default:
		return min(own, untrustedPercent)
	}
}

// Suspicions hears when a rank becomes suspect by what its engine reports, when its ratio is measured anew, and when it
// is believed again. It is called from the goroutines that serve requests and must not block; life is the Holding's, so
// that a word about an earlier life can be told and dropped. Package ingest answers a suspect rank contiguously.
type Suspicions interface {
	Suspected(rank index.Rank, life uint64, suspect bool, ratioPercent int)
}

// truth is one rank's tally and what it sums up to.
type truth struct {
	rank   index.Rank
	worker string // name, for the metrics

	life  atomic.Uint64 // what the tally is of; written under mu
	mu    sync.Mutex    // guards tally
	tally tally
	// published is the tally's part that scoring needs: suspect, measured and ratio in one word.
	published atomic.Uint32

	// Sums over all answers, whatever was promised.
	promisedTokens, reportedTokens, answers atomic.Uint64
}

const (
	publishedMeasured = 1 << 8
	publishedSuspect  = 1 << 9
)

func (t tally) word() uint32 {
	w := uint32(t.ratio)
	if t.measured {
		w |= publishedMeasured
	}
	if t.suspect {
		w |= publishedSuspect
	}
	return w
}

// of is known for a life: a new one begins without a tally. A goroutine that still has the life before may begin that
// again; it costs up to 32 answers at a change of life.
func (t *truth) of(life uint64) tally {
	if t.life.Load() != life {
		t.mu.Lock()
		t.tally = tally{}
		t.published.Store(0)
		t.life.Store(life)
		t.mu.Unlock()
	}
	return t.known()
}

// known is the tally as scoring may see it.
func (t *truth) known() tally {
	w := t.published.Load()
	return tally{ratio: int32(w & 0xff), measured: w&publishedMeasured != 0, suspect: w&publishedSuspect != 0}
}

// observe counts an answer that found so many tokens cached, and tells what there is to tell. Answers of another life
// are counted only.
func (t *truth) observe(life uint64, promisedBlocks, blockSize, reportedTokens int64, heard Suspicions) {
	t.answers.Add(1)
	t.promisedTokens.Add(uint64(promisedBlocks * blockSize))
	t.reportedTokens.Add(uint64(reportedTokens))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.life.Load() != life {
		return
	}
	before := t.tally
	after, judged := before.step(promisedBlocks, reportedTokens/blockSize)
	t.tally = after
	if !judged {
		return
	}
	t.published.Store(after.word())
	if heard != nil && (after.suspect || before.suspect) {
		heard.Suspected(t.rank, life, after.suspect, int(after.ratio))
	}
}

// truths has the truth of every rank of the latest view that was scored.
type truths struct {
	mu     sync.Mutex // guards all below
	view   *View
	byRank map[index.Rank]*truth
}

// of gives a rank's truth.
func (t *truths) of(r index.Rank, worker string) *truth {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byRank[r]
	if one == nil {
		if t.byRank == nil {
			t.byRank = map[index.Rank]*truth{}
		}
		one = &truth{rank: r, worker: worker}
		t.byRank[r] = one
	}
	return one
}

// keep drops the ranks that are not in the view.
func (t *truths) keep(v *View) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.view == v {
		return
	}
	t.view = v
	for r := range t.byRank {
		if _, ok := v.Of(r); !ok {
			delete(t.byRank, r)
		}
	}
}

// each calls f with every truth, under the lock.
func (t *truths) each(f func(*truth)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.byRank {
		f(one)
	}
}
