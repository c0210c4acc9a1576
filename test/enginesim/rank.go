package enginesim

import (
	"container/heap"
	"slices"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// rank is all state and policy of one data-parallel rank. It has one caller, no
// goroutine and no clock: step is told the time. The package doc has its table.
type rank struct {
	opts  Options
	index int
	cache *cache.Cache

	queue      []*sequence // waiting, oldest first
	prefilling *sequence   // at most one
	decoding   decodeHeap
	pace       float64 // factor on TokenInterval
	totals     Totals

	changes []Change // of the present step
	effects []effect // of the present step
}

func newRank(opts Options, index int) *rank {
	return &rank{opts: opts, index: index, cache: cache.New(opts.Blocks), pace: 1}
}

// step brings the rank to now, then applies m. Whatever fell due since the last
// step happens at its own time, however late the caller is. The returned slice
// is valid until the next step.
func (r *rank) step(now time.Time, m message) []effect {
	r.effects = r.effects[:0]
	r.advance(now)
	switch m := m.(type) {
	case submit:
		r.enqueue(now, m.seq)
	case cancel:
		r.abort(now, m.id)
	case setPace:
		r.pace = m.factor
	case clearCache:
		r.effects = append(r.effects, cleared{m.reply, r.clear()})
	case restart:
		r.restart(now)
	case enumerate:
		r.effects = append(r.effects, enumerated{m.reply, r.cache.Keys()})
	case inspect:
		r.effects = append(r.effects, inspected{m.reply, r.state()})
	}
	r.advance(now) // a submit or a freed place may start and even finish work now
	if len(r.changes) > 0 {
		r.effects = append(r.effects, changed{Step{r.index, now, r.changes}})
		r.changes = nil
	}
	if m, ok := m.(restart); ok {
		r.effects = append(r.effects, restarted(m)) // last: whoever waits for it finds all of it done
	}
	return r.effects
}

// next says when the rank has something to do by itself.
func (r *rank) next() (time.Time, bool) {
	switch {
	case r.prefilling == nil && len(r.decoding) == 0:
		return time.Time{}, false
	case r.prefilling == nil:
		return r.decoding[0].due, true
	case len(r.decoding) == 0 || !r.decoding[0].due.Before(r.prefilling.due):
		return r.prefilling.due, true
	default:
		return r.decoding[0].due, true
	}
}

func (r *rank) advance(now time.Time) {
	r.admit(now)
	for {
		due, ok := r.next()
		if !ok || due.After(now) {
			return
		}
		if seq := r.prefilling; seq != nil && !seq.due.After(due) {
			r.finishPrefill(due)
		} else {
			r.produce(due, heap.Pop(&r.decoding).(*sequence))
		}
		r.admit(due)
	}
}

func (r *rank) enqueue(now time.Time, seq *sequence) {
	r.totals.Requests++
	if len(r.queue) >= r.opts.MaxQueued {
		r.totals.Rejected++
		r.effects = append(r.effects, ended{seq, now, ErrQueueFull})
		return
	}
	r.queue = append(r.queue, seq)
}

// admit starts the prefill of the queue's head when the rank has a place and
// pages for it.
func (r *rank) admit(now time.Time) {
	if r.prefilling != nil || len(r.queue) == 0 || r.running() >= r.opts.MaxRunning {
		return
	}
	seq := r.queue[0]
	usable := (seq.prompt - 1) / r.opts.PageSize // the last prompt token is always computed
	lease, evicted := r.cache.Acquire(seq.keys[:usable], seq.pages(r.opts.PageSize))
	if lease == nil {
		return
	}
	r.queue = slices.Delete(r.queue, 0, 1)
	r.remove(evicted)
	seq.lease = lease
	seq.cached = lease.Blocks() * r.opts.PageSize
	seq.due = now.Add(r.prefillTime(seq.prompt - seq.cached))
	r.prefilling = seq
	r.countMatch(seq)
}

func (r *rank) prefillTime(tokens int) time.Duration {
	if r.opts.PrefillTokensPerSecond == 0 {
		return 0
	}
	return time.Duration(float64(tokens) / r.opts.PrefillTokensPerSecond * float64(time.Second))
}

func (r *rank) countMatch(seq *sequence) {
	r.totals.PromptTokens += int64(seq.prompt)
	r.totals.CachedTokens += int64(seq.cached)
	r.totals.PromptBlocks += int64((seq.prompt + r.opts.PageSize - 1) / r.opts.PageSize)
	r.totals.CachedBlocks += int64(seq.lease.Blocks())
}

// finishPrefill stores the prompt's blocks; the first token comes with it.
func (r *rank) finishPrefill(at time.Time) {
	seq := r.prefilling
	r.prefilling = nil
	r.store(seq)
	if seq.finished() {
		r.finish(at, seq)
		return
	}
	r.produce(at, seq)
}

// produce emits one token of seq and plans the next one.
func (r *rank) produce(at time.Time, seq *sequence) {
	seq.produced++
	r.totals.OutputTokens++
	r.store(seq)
	r.effects = append(r.effects, progressed{seq, at, seq.cached, seq.produced})
	if seq.finished() {
		r.finish(at, seq)
		return
	}
	seq.due = at.Add(time.Duration(float64(r.opts.TokenInterval) * r.pace))
	heap.Push(&r.decoding, seq)
}

func (r *rank) finish(at time.Time, seq *sequence) {
	seq.lease.Release()
	r.totals.Finished++
	r.effects = append(r.effects, ended{seq, at, nil})
}

// abort drops a sequence wherever it is. Blocks it has stored stay cached.
func (r *rank) abort(now time.Time, id uint64) {
	seq := r.take(id)
	if seq == nil {
		return
	}
	if seq.lease != nil {
		seq.lease.Release()
	}
	r.totals.Aborted++
	r.effects = append(r.effects, ended{seq, now, ErrCancelled})
}

func (r *rank) take(id uint64) *sequence {
	if seq := r.prefilling; seq != nil && seq.id == id {
		r.prefilling = nil
		return seq
	}
	same := func(s *sequence) bool { return s.id == id }
	if i := slices.IndexFunc(r.queue, same); i >= 0 {
		seq := r.queue[i]
		r.queue = slices.Delete(r.queue, i, i+1)
		return seq
	}
	if i := slices.IndexFunc(r.decoding, same); i >= 0 {
		return heap.Remove(&r.decoding, i).(*sequence)
	}
	return nil
}

// restart is a new process in the old one's place: what was running is broken off
// and the cache is empty. Totals go on, they are the double's own.
func (r *rank) restart(now time.Time) {
	r.endAll(now, ErrRestarted)
	r.queue, r.prefilling, r.decoding = nil, nil, nil
	r.cache = cache.New(r.opts.Blocks)
	r.totals.Restarts++
	r.changes = append(r.changes, Restarted{})
}

// drain ends everything alive, for a rank that stops.
func (r *rank) drain(now time.Time, err error) []effect {
	r.effects = r.effects[:0]
	r.endAll(now, err)
	return r.effects
}

func (r *rank) endAll(now time.Time, err error) {
	alive := slices.Concat(r.queue, r.decoding)
	if r.prefilling != nil {
		alive = append(alive, r.prefilling)
	}
	for _, seq := range alive {
		r.totals.Aborted++
		r.effects = append(r.effects, ended{seq, now, err})
	}
}

func (r *rank) running() int {
	n := len(r.decoding)
	if r.prefilling != nil {
		n++
	}
	return n
}
