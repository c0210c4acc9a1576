package bootstrap

import (
	"math"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
)

var epoch0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return epoch0.Add(time.Duration(s * float64(time.Second))) }

func named(worker string) index.Rank { return index.Rank{Worker: worker} }

func pendingRank(worker string) Rank {
	return Rank{Rank: named(worker), Owed: &ingest.Owed{Epoch: 1, Kind: ingest.OwedBoot}}
}

func recoveredRank(worker string) Rank {
	return Rank{Rank: named(worker), Following: true, Cursor: cursor.Cursor{Proof: cursor.Origin}, Outcome: ingest.OutcomeFromOrigin}
}

func failedRank(worker string) Rank {
	return Rank{Rank: named(worker), Following: true, Cursor: cursor.Cursor{Proof: cursor.Proven, Partial: true}, Outcome: ingest.OutcomeAbandoned}
}

func minuteTracker() *tracker { return newTracker(true, false, time.Minute, at(0)) }

func expectSettled(t *testing.T, tr *tracker, s float64, want bool) {
	t.Helper()
	if got := tr.settled(at(s)); got != want {
		t.Errorf("after %v s: settled %v, want %v", s, got, want)
	}
}

func TestReregistrationAfterForgetMintsANewEpoch(t *testing.T) {
	tr := minuteTracker()
	tr.observe(at(0), []Rank{recoveredRank("a"), pendingRank("b")}, true)
	tr.observe(at(1), []Rank{pendingRank("b")}, true)
	tr.observe(at(2), []Rank{pendingRank("a"), pendingRank("b")}, true)
	if got := tr.ranks[named("a")]; got != RankPending {
		t.Fatalf("a rank that came back is %v, want pending", got)
	}
}

func TestTrackerSettlesWhenAllRanksTerminal(t *testing.T) {
	tr := minuteTracker()
	tr.observe(at(0), []Rank{pendingRank("a"), pendingRank("b")}, true)
	tr.observe(at(1), []Rank{recoveredRank("a"), pendingRank("b")}, true)
	expectSettled(t, tr, 1, false)
	tr.observe(at(2), []Rank{recoveredRank("a"), failedRank("b")}, true)
	expectSettled(t, tr, 2, true)
	if !tr.settledAt.Equal(at(2)) {
		t.Fatalf("settled at %v", tr.settledAt)
	}
}

// The first rank to answer must not settle a boot whose other engines were not even asked.
func TestTrackerWaitsForEnginesThatWereNotAskedYet(t *testing.T) {
	tr := minuteTracker()
	tr.observe(at(0), []Rank{recoveredRank("a")}, false)
	expectSettled(t, tr, 1, false)
	tr.observe(at(2), []Rank{recoveredRank("a"), pendingRank("b")}, true)
	expectSettled(t, tr, 2, false)
	tr.observe(at(3), []Rank{recoveredRank("a"), recoveredRank("b")}, true)
	expectSettled(t, tr, 3, true)
}

// A rank that nobody is looked for any more has its end, though it holds nothing; so has one that lives with a gap.
func TestARankWithoutAnythingIsTerminalOnceNobodyIsLookedFor(t *testing.T) {
	for name, c := range map[string]struct {
		r    Rank
		want RankState
	}{
		"cold":      {Rank{Cold: true, Outcome: ingest.OutcomeAbandoned}, RankFailed},
		"repairing": {Rank{Repairing: true, Cursor: cursor.Cursor{Proof: cursor.Proven}, SeededFrom: "b"}, RankRecovered},
		"asking":    {Rank{}, RankPending},
		"proving":   {Rank{Proving: true, Cursor: cursor.Cursor{Proof: cursor.Proven}, SeededFrom: "b"}, RankRecovered},
	} {
		if got := c.r.state(); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestTrackerSettlesOnDeadlineWithPendingRanks(t *testing.T) {
	tr := minuteTracker()
	tr.observe(at(0), []Rank{pendingRank("a")}, true)
	expectSettled(t, tr, 59.9, false)
	expectSettled(t, tr, 60, true)
	tr.observe(at(61), []Rank{pendingRank("a")}, true)
	expectSettled(t, tr, 61, true)
}

func TestTrackerWithNoRanksIsNotSettledBeforeDeadline(t *testing.T) {
	tr := minuteTracker()
	tr.observe(at(30), nil, false)
	expectSettled(t, tr, 59, false)
}

// Engines that publish nothing are no reason to wait.
func TestTrackerSettlesAtOnceWhenNoEnginePublishes(t *testing.T) {
	tr := minuteTracker()
	tr.observe(at(1), nil, true)
	expectSettled(t, tr, 1, true)
}

func TestTrackerNeverRegisteredStillSettles(t *testing.T) {
	tr := minuteTracker()
	tr.observe(at(59), nil, false)
	expectSettled(t, tr, 60, true)
}

func TestRegistrationKeepsTheDeadlineArmed(t *testing.T) {
	tr := minuteTracker()
	tr.observe(at(50), []Rank{pendingRank("a")}, false) // moves it, once
	expectSettled(t, tr, 109, false)
	tr.observe(at(100), nil, false)
	tr.observe(at(105), []Rank{pendingRank("a")}, false) // an engine that comes and goes
	expectSettled(t, tr, 110, true)
}

func TestAPrematureSettleDoesNotDisarmTheGate(t *testing.T) {
	tr := minuteTracker()
	tr.observe(at(60), nil, false)
	expectSettled(t, tr, 61, true)
	tr.observe(at(62), []Rank{pendingRank("a")}, false)
	expectSettled(t, tr, 62, false)
	expectSettled(t, tr, 122, true)
}

func TestALatchedTrackerStaysSettledAcrossALaterRegistration(t *testing.T) {
	tr := minuteTracker()
	tr.observe(at(0), []Rank{recoveredRank("a")}, true)
	tr.observe(at(10), []Rank{recoveredRank("a"), pendingRank("b")}, false)
	expectSettled(t, tr, 10, true)
}

func TestADisabledTrackerStaysSettledAfterRegister(t *testing.T) {
	tr := newTracker(false, true, time.Minute, at(0))
	tr.observe(at(0), []Rank{pendingRank("a")}, false)
	expectSettled(t, tr, 0, true)
}

func TestAnAbsurdTimeoutDoesNotPanic(t *testing.T) {
	tr := newTracker(true, true, math.MaxInt64, at(0))
	tr.observe(at(0), []Rank{pendingRank("a")}, true)
	expectSettled(t, tr, 1e9, false)
	if tr.gateTimeout != math.MaxInt64 {
		t.Fatalf("the gate's bound is %v", tr.gateTimeout)
	}
	if got := fetchTimeout(math.MaxInt64, MaxFetchCap); got != MaxFetchCap {
		t.Fatalf("one fetch may take %v", got)
	}
}

func TestTimeRemainingSaturatesToZeroOnceExpired(t *testing.T) {
	tr := minuteTracker()
	for s, want := range map[float64]time.Duration{0: time.Minute, 45: 15 * time.Second, 60: 0, 1e6: 0} {
		if got := tr.remaining(at(s)); got != want {
			t.Errorf("after %v s: got %v, want %v", s, got, want)
		}
	}
}

func TestSnapshotFetchTimeoutIsAStrictFractionOfEveryNonzeroDeadline(t *testing.T) {
	for d := time.Second; d <= MaxTimeout; d += time.Second {
		got := fetchTimeout(d, DefaultFetchCap)
		if got <= 0 || got >= d {
			t.Fatalf("of %v one fetch may take %v: no second peer could be tried", d, got)
		}
	}
	if got := fetchTimeout(0, DefaultFetchCap); got != 30*time.Second {
		t.Fatalf("without a deadline: got %v", got)
	}
}

func TestSnapshotFetchTimeoutHonoursTheConfiguredCap(t *testing.T) {
	if got := fetchTimeout(MaxTimeout, 40*time.Second); got != 40*time.Second {
		t.Fatalf("got %v", got)
	}
	if got := fetchTimeout(MaxTimeout, MaxFetchCap); got != 150*time.Second {
		t.Fatalf("got %v", got)
	}
}

func TestSnapshotFetchTimeoutFloorMatchesTheConfigMinimumCap(t *testing.T) {
	if fetchFloor != MinFetchCap {
		t.Fatalf("floor %v, least cap %v", fetchFloor, MinFetchCap)
	}
	if got := fetchTimeout(DefaultTimeout, DefaultFetchCap); got != fetchFloor {
		t.Fatalf("at the defaults one fetch may take %v", got)
	}
}

func gated(required bool) *tracker {
	tr := newTracker(true, required, time.Minute, at(0))
	tr.observe(at(0), []Rank{pendingRank("a")}, true)
	return tr
}

func expectGate(t *testing.T, when string, tr *tracker, s float64, closed bool) {
	t.Helper()
	if got := tr.gateClosed(at(s)); got != closed {
		t.Errorf("%s: closed %v, want %v", when, got, closed)
	}
}

func TestSeedGateNeverClosesOnANothingToInheritVerdict(t *testing.T) {
	for _, r := range []SweepResult{SweepNoPeers, SweepFleetCold, SweepRanksResolved, SweepFound} {
		tr := gated(true)
		tr.record(r, true)
		expectGate(t, r.String(), tr, 1, false)
	}
}

func TestSeedGateClosesOnlyOnTimedOutOverANonEmptyCandidateSet(t *testing.T) {
	tr := gated(true)
	tr.record(SweepTimedOut, false)
	expectGate(t, "timed out over nobody", tr, 1, false)
	tr.record(SweepTimedOut, true)
	expectGate(t, "timed out over siblings", tr, 1, true)
}

func TestSeedGateReopensWhenALaterSweepFindsASnapshot(t *testing.T) {
	tr := gated(true)
	tr.record(SweepTimedOut, true)
	tr.record(SweepRanksResolved, true)
	expectGate(t, "a later sweep without a find", tr, 1, true)
	tr.record(SweepFound, true)
	expectGate(t, "found", tr, 1, false)
}

func TestSeedGateIsInertUnlessRequired(t *testing.T) {
	tr := gated(false)
	tr.record(SweepTimedOut, true)
	expectGate(t, "not required", tr, 1, false)
}

func TestSeedGateLatchesOpenOnceReadinessHasPassed(t *testing.T) {
	tr := gated(true)
	tr.record(SweepFound, true)
	tr.admit()
	tr.record(SweepTimedOut, true)
	expectGate(t, "after admission", tr, 1, false)
}

func TestSeedGateOpensWhenTheHardBoundExpires(t *testing.T) {
	tr := gated(true)
	tr.record(SweepTimedOut, true)
	expectGate(t, "before", tr, 179, true)
	expectGate(t, "at the bound", tr, 180, false)
	expectGate(t, "it stays open", tr, 1, false)
}

func TestDisabledTrackerNeverGates(t *testing.T) {
	tr := newTracker(false, true, time.Minute, at(0))
	tr.observe(at(0), []Rank{pendingRank("a")}, true)
	expectGate(t, "disabled", tr, 0, false)
}

func TestSeedGateTimeoutScalesAndFloors(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		time.Second: minGate, 20 * time.Second: minGate, 30 * time.Second: 90 * time.Second, 10 * time.Minute: 30 * time.Minute,
	} {
		if got := newTracker(true, true, timeout, at(0)).gateTimeout; got != want {
			t.Errorf("%v: got %v, want %v", timeout, got, want)
		}
	}
}

func TestTheSeedGateBoundIsReArmedAtFirstRegistration(t *testing.T) {
	tr := newTracker(true, true, time.Minute, at(0))
	tr.observe(at(100), []Rank{pendingRank("a")}, true)
	expectGate(t, "the bound counted from the process' start", tr, 200, true)
	tr.observe(at(250), nil, true)
	tr.observe(at(260), []Rank{pendingRank("a")}, true)
	expectGate(t, "the bound moved twice", tr, 280, false)
}

func TestSeedGateHoldsUntilTheBootSweepReports(t *testing.T) {
	tr := gated(true)
	expectGate(t, "before the report", tr, 1, true)
	tr.record(SweepFound, true)
	expectGate(t, "after it", tr, 1, false)
}

func TestSeedGateDoesNotWaitForASweepThatCannotRun(t *testing.T) {
	tr := newTracker(true, true, time.Minute, at(0))
	tr.observe(at(0), nil, true)
	expectGate(t, "no ranks at all", tr, 1, false)
}

func TestFirstRegistrationAfterAServed200KeepsTheReplicaReady(t *testing.T) {
	tr := newTracker(true, true, time.Minute, at(0))
	tr.observe(at(1), nil, true)
	tr.admit()
	tr.observe(at(10), []Rank{pendingRank("a")}, true)
	expectSettled(t, tr, 10, true)
	expectGate(t, "after the first rank came", tr, 10, false)
}
