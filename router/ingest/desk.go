package ingest

import (
	"math/rand/v2"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
)

// desk decides when which replay is asked (peer-bootstrap B4): the engine answers from the thread that publishes. It is
// plain state like the ranks': the pump asks what is due.
type desk struct {
	waiting []replayAsk
	running map[index.Rank]replayAsk
	engines map[string]int // running, by engine
	cooling map[index.Rank]time.Time
	jitter  func(time.Duration) time.Duration
}

// replayAsk is one question. gen is the rank's own.
type replayAsk struct {
	rank    index.Rank
	gen     uint64
	from    int64
	at      time.Time // not before
	refused bool      // the rank's last replay failed a moment ago
}

func newDesk(jitter func(time.Duration) time.Duration) *desk {
	if jitter == nil {
		jitter = func(d time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(d))) }
	}
	return &desk{running: map[index.Rank]replayAsk{}, engines: map[string]int{}, cooling: map[index.Rank]time.Time{}, jitter: jitter}
}

// ask queues a question. A rank has one at a time; the last one counts.
func (d *desk) ask(now time.Time, a replayAsk, wait time.Duration) {
	d.drop(a.rank)
	a.refused = now.Before(d.cooling[a.rank])
	a.at = now
	if !a.refused {
		a.at = now.Add(wait + d.jitter(replayJitter))
	}
	d.waiting = append(d.waiting, a)
}

// drop takes a rank's question from the queue. One that is running goes on: its answer is dropped by whoever asked.
func (d *desk) drop(r index.Rank) {
	for i, a := range d.waiting {
		if a.rank == r {
			d.waiting = append(d.waiting[:i], d.waiting[i+1:]...)
			return
		}
	}
}

// due takes the questions that may be asked now, in the order they came.
func (d *desk) due(now time.Time) []replayAsk {
	var out []replayAsk
	rest := d.waiting[:0]
	for _, a := range d.waiting {
		_, busy := d.running[a.rank]
		switch {
		case a.refused:
			out = append(out, a)
		case now.Before(a.at), busy, len(d.running) >= maxReplays, d.engines[a.rank.Worker] >= replaysAnEngine:
			rest = append(rest, a)
		default:
			d.running[a.rank] = a
			d.engines[a.rank.Worker]++
			out = append(out, a)
		}
	}
	d.waiting = rest
	return out
}

// next tells when something may be due by the clock alone.
func (d *desk) next() (at time.Time, ok bool) {
	for _, a := range d.waiting {
		if !ok || a.at.Before(at) {
			at, ok = a.at, true
		}
	}
	return at, ok
}

// done ends a running question. After a failed one its rank is left in peace for a while.
func (d *desk) done(now time.Time, r index.Rank, failed bool) {
	if _, ok := d.running[r]; !ok {
		return
	}
	delete(d.running, r)
	if d.engines[r.Worker]--; d.engines[r.Worker] == 0 {
		delete(d.engines, r.Worker)
	}
	if failed {
		d.cooling[r] = now.Add(replayCoolDown)
	}
}

// tidy forgets what is over.
func (d *desk) tidy(now time.Time) {
	for r, until := range d.cooling {
		if !now.Before(until) {
			delete(d.cooling, r)
		}
	}
}
