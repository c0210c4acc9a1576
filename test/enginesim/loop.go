package enginesim

import (
	"context"
	"sync/atomic"
	"time"
)

// loop owns one rank: its mailbox, its timer and the doing of its effects. All
// policy is in rank.
type loop struct {
	rank     *rank
	observer Observer
	mail     chan message
	load     atomic.Int64 // sequences submitted and not ended; Submit adds
}

func newLoop(opts Options, index int) *loop {
	return &loop{
		rank:     newRank(opts, index),
		observer: opts.Observer,
		mail:     make(chan message, mailboxSize),
	}
}

func (l *loop) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var due <-chan time.Time
		if at, ok := l.rank.next(); ok {
			timer.Reset(time.Until(at))
			due = timer.C
		}
		select {
		case <-ctx.Done():
			l.perform(l.rank.drain(time.Now(), ErrStopped))
			return
		case m := <-l.mail:
			l.perform(l.rank.step(time.Now(), m))
		case <-due:
			l.perform(l.rank.step(time.Now(), tick{}))
		}
	}
}

// perform tells of a step's blocks before anybody hears of its answers, so that whoever has an answer finds what it left in
// the events published so far.
func (l *loop) perform(effects []effect) {
	for _, e := range effects {
		if e, ok := e.(changed); ok && l.observer != nil {
			l.observer.Observe(e.step)
		}
	}
	for _, e := range effects {
		switch e := e.(type) {
		case changed: // told already
		case progressed:
			e.seq.stream.progress(e.at, e.cached, e.produced)
		case ended:
			l.load.Add(-1)
			e.seq.stream.end(e.seq.cached, e.err)
		case cleared:
			e.reply <- e.done // buffered by the asker
		case restarted:
			close(e.reply)
		case enumerated:
			e.reply <- e.keys // buffered by the asker
		case inspected:
			e.reply <- e.state // buffered by the asker
		}
	}
}
