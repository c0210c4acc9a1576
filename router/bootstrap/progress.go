package bootstrap

import (
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/router/snapshot"
)

// progress is how far the fetches under way are (B9).
type progress struct {
	mu     sync.Mutex
	under  map[slot]*transfer
	logged time.Time
}

type transfer struct {
	body    Body
	peer    string
	ranks   int
	started time.Time
}

// Transfer is what a fetch has brought so far.
type Transfer struct {
	snapshot.Progress
	Peer    string
	Ranks   int
	Elapsed time.Duration
}

// Left estimates the time to the end; 0 if nobody can say.
func (t Transfer) Left() time.Duration {
	done, total := t.Bytes, t.TotalBytes
	if total <= 0 {
		done, total = t.Nodes, t.TotalNodes
	}
	if done <= 0 || total <= done || t.Elapsed <= 0 {
		return 0
	}
	left := float64(t.Elapsed) * (float64(total) - float64(done)) / float64(done)
	return time.Duration(min(left, math.MaxInt64/2))
}

// Rate is bytes a second.
func (t Transfer) Rate() float64 {
	if t.Elapsed <= 0 {
		return 0
	}
	return float64(t.Bytes) / t.Elapsed.Seconds()
}

// follow shows a body's progress until the returned function is called.
func (p *progress) follow(f doFetch, b Body, now time.Time) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.under == nil {
		p.under = map[slot]*transfer{}
	}
	p.under[f.slot] = &transfer{b, f.peer.Name, len(f.asked), now}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.under, f.slot)
	}
}

// read gives the fetch of ranks that boot, else that of repairs; ok is false when none runs.
func (p *progress) read(now time.Time) (t Transfer, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range slots {
		if u := p.under[s]; u != nil {
			return Transfer{u.body.Progress(), u.peer, u.ranks, now.Sub(u.started)}, true
		}
	}
	return Transfer{}, false
}

// say logs the progress every two seconds.
func (p *progress) say(now time.Time, log *slog.Logger, done, total int) {
	t, ok := p.read(now)
	if !ok || now.Sub(p.logged) < progressEvery {
		return
	}
	p.logged = now
	log.Info("bootstrap", "peer", t.Peer, "bytes", t.Bytes, "nodes", t.Nodes, "nodesTotal", t.TotalNodes, "ranks", done, "ranksTotal", total,
		"bytesPerSecond", int64(t.Rate()), "left", t.Left().Round(time.Second/10).String())
}
