package bootstrap

import (
	"time"

	"github.com/routerfleet/routerfleet/router/index"
)

// RankState is how far a rank's boot is; the values are those of the metric.
type RankState uint8

// The states.
const (
	RankPending RankState = iota
	RankRecovered
	RankFailed
)

// SweepResult is what came of a sweep.
type SweepResult uint8

// The results. SweepNone is before the first.
const (
	SweepNone SweepResult = iota
	SweepFound
	SweepNoPeers
	SweepFleetCold
	SweepTimedOut
	SweepRanksResolved
	sweepResults
)

var sweepNames = [sweepResults]string{"none", "found", "no_peers", "fleet_cold", "timed_out", "ranks_resolved"}

// String names the result as metrics do.
func (r SweepResult) String() string {
	if r >= sweepResults {
		return "unknown"
	}
	return sweepNames[r]
}

// tracker decides when the boot has settled and whether readiness must wait for a seed. It never moves back: once settled
// it stays so, whatever comes later (I7).
type tracker struct {
	enabled      bool
	seedRequired bool
	timeout      time.Duration
	gateTimeout  time.Duration

	ranks map[index.Rank]RankState
	// armed says that the first registration has moved the deadlines; it happens once, or an engine that comes and goes
	// would move them for ever.
	armed        bool
	deadline     time.Time
	gateDeadline time.Time
	settledAt    time.Time // zero until it latched
	// complete says that every engine there is was asked for its events: no rank is to be expected.
	complete bool
	admitted bool
	gateOpen bool // latched by the hard bound
	swept    SweepResult
	// failed says that a sweep timed out over siblings and none found anything since.
	failed bool
}

func newTracker(enabled, seedRequired bool, timeout time.Duration, now time.Time) *tracker {
	gate := max(saturatingTimes(timeout, gateFactor), minGate)
	return &tracker{
		enabled: enabled, seedRequired: seedRequired, timeout: timeout, gateTimeout: gate,
		ranks: map[index.Rank]RankState{}, deadline: now.Add(timeout), gateDeadline: now.Add(gate),
	}
}

// saturatingTimes multiplies without overflow.
func saturatingTimes(d time.Duration, n int) time.Duration {
	const most = time.Duration(1<<63 - 1)
	if d > most/time.Duration(n) {
		return most
	}
	return d * time.Duration(n)
}

// observe takes over the ranks there are, and whether more are expected.
func (t *tracker) observe(now time.Time, ranks []Rank, complete bool) {
	t.complete = complete
	there := make(map[index.Rank]RankState, len(ranks))
	for i := range ranks {
		there[ranks[i].Rank] = ranks[i].state()
	}
	t.ranks = there
	if len(there) > 0 && !t.armed {
		t.armed = true
		t.deadline, t.gateDeadline = now.Add(t.timeout), now.Add(t.gateTimeout)
	}
	t.settled(now) // latches
}

// settled tells whether the boot is over: every rank there is has an end, and no more are expected; or the time is up. It
// latches, but not before the first rank is there: time that is up without one says nothing about those to come.
func (t *tracker) settled(now time.Time) bool {
	if !t.enabled || !t.settledAt.IsZero() {
		return true
	}
	expired := !now.Before(t.deadline)
	over := expired || t.complete && t.pending() == 0
	if over && (t.armed || t.complete) {
		t.settledAt = now
	}
	return over
}

func (t *tracker) pending() (n int) {
	for _, s := range t.ranks {
		if s == RankPending {
			n++
		}
	}
	return n
}

// remaining is the time left of the boot's budget, never below zero.
func (t *tracker) remaining(now time.Time) time.Duration { return max(0, t.deadline.Sub(now)) }

// record notes what came of a sweep.
func (t *tracker) record(r SweepResult, hadCandidates bool) {
	t.swept = r
	switch {
	case r == SweepFound:
		t.failed = false
	case r == SweepTimedOut && hadCandidates:
		t.failed = true
	}
}

// gateClosed tells whether readiness waits for a seed: only if that is required, until the first admission or the hard
// bound, while a sweep over siblings has failed or none has reported. That there is nobody to ask, or nothing to have,
// never closes it: an unready replica is no sibling to anybody, and a fleet of them would wait for ever.
func (t *tracker) gateClosed(now time.Time) bool {
	if !t.enabled || !t.seedRequired || t.admitted || t.gateOpen {
		return false
	}
	if !now.Before(t.gateDeadline) {
		t.gateOpen = true
		return false
	}
	return t.failed || len(t.ranks) > 0 && t.swept == SweepNone
}

// admit latches: readiness was told once, and nothing here takes it back.
func (t *tracker) admit() { t.admitted = true }
