package app

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

// boot is what this process knows of its own start.
type boot struct {
	id       string // random: another value means another process
	started  time.Time
	podUID   string
	revision string

	mu      sync.Mutex // guards settled
	settled time.Time
}

func newBoot(o Options) *boot {
	var id [8]byte
	_, _ = rand.Read(id[:]) // crypto/rand does not fail, it ends the process
	return &boot{id: hex.EncodeToString(id[:]), started: time.Now(), podUID: o.PodUID, revision: o.Revision}
}

// settle notes the first time the router knows its workers. There is no index to copy yet, so the boot ends with it.
func (b *boot) settle(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.settled.IsZero() {
		b.settled = now
	}
}

func (b *boot) settledAt() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settled
}

// status is the answer of /internal/bootstrap. What is not known is left out.
func (a *App) status() status.Status {
	counts := a.workers.Snapshot().Counts()
	s := status.Status{
		PodUID:    a.boot.podUID,
		Boot:      a.boot.id,
		StartedAt: a.boot.started.UTC(),
		Revision:  a.boot.revision,
		State:     status.StateStarting,
		Verdict:   status.VerdictDisabled,
		Workers:   status.Workers{Discovered: counts.Discovered, Usable: counts.Usable()},
	}
	if a.tokens != nil {
		s.TokenGeneration = a.tokens.Generation()
	}
	if a.events != nil {
		s.Workers.Subscribed = a.events.feed.Subscribed()
		s.Ranks.Total = len(a.events.pump.View().Ranks())
	}
	s.Problems = summarize(a.problems())
	if settled := a.boot.settledAt(); !settled.IsZero() {
		s.State, s.SettledAt = status.StateSettled, settled.UTC()
	}
	if a.sharing != nil {
		a.sharing.fill(&s)
	}
	if !a.ready.Load() {
		s.Error = a.waitingFor()
	}
	return s
}
