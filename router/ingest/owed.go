package ingest

import (
	"time"

	"github.com/routerfleet/routerfleet/router/index"
)

// Owed is what a rank is owed by whoever talks to siblings (package bootstrap). It is level-triggered: it stands in the
// rank's status until it is met, abandoned or overtaken, so none can be lost on its way.
type Owed struct {
	// Epoch names this very obligation; it is new whenever a rank comes to owe something, and with every connection of a
	// rank that does. What answers an older one is stale.
	Epoch uint64
	Kind  OwedKind
	// Since is when what is kept of the stream began: only an export that began later can be spliced to it. It is zero while
	// no connection stands or the engine's start is not bound to it (H2), and for Heal until Keep: nothing that is fetched
	// then can be used.
	Since time.Time
	// Cursor is the rank's own, where there is one (Repair, Heal).
	Cursor Cursor
	// FirstHeld is the seq of the first batch that waits for a section; NothingHeld without one.
	FirstHeld int64
	// Goal is the seq a section must reach together with what is kept; 0 for any. (H9: a sibling was there already.)
	Goal int64
	// LateJoin says that the rank may ride on a sweep that is under way. A rank whose splice failed may not: it needs an
	// export from after that.
	LateJoin bool
	// Deadline is when the pump gives up by itself; zero if it waits for Abandon.
	Deadline time.Time
}

// NothingHeld is Owed.FirstHeld of a rank that holds no batch.
const NothingHeld = int64(-1)

// OwedKind is what a section is needed for.
type OwedKind uint8

// The kinds. Their values are no order.
const (
	// OwedBoot: nothing is known of the rank; its batches are held.
	OwedBoot OwedKind = iota + 1
	// OwedGapRetry: as OwedBoot, after a splice that left a hole: the one retry.
	OwedGapRetry
	// OwedRepair: batches are missing, or siblings hold other blocks; for a few seconds only.
	OwedRepair
	// OwedHeal: the rank serves, but something better may be had (peer-bootstrap B16). Nothing is kept for it before Keep.
	OwedHeal
	owedEnd
)

var owedNames = [owedEnd]string{"unknown", "boot", "gap_retry", "repair", "heal"}

// String names the kind as metrics do.
func (k OwedKind) String() string {
	if k >= owedEnd {
		k = 0
	}
	return owedNames[k]
}

// Awaiting is a graft whose seam is not proven: nothing was held when it was made, and nothing came since (B14).
type Awaiting struct {
	Epoch uint64
	// Watermark is the cursor that was grafted: a sibling beyond it has heard what we have not.
	Watermark Cursor
	Since     time.Time
	// Unknown counts the questions nobody could answer.
	Unknown int
	// SeededFrom is whom the state comes from. Who descends from us is no witness that nothing came (B0).
	SeededFrom string
}

// Outcome is how a rank came by its state, once for each life of its engine, when it is final. OutcomeNone is before.
type Outcome uint8

// The outcomes.
const (
	OutcomeNone            Outcome = iota
	OutcomeFromOrigin              // its stream is known from the first batch
	OutcomeWarm                    // grafted, and the seam is proven
	OutcomeWarmUnwitnessed         // grafted, and nobody could say
	OutcomeGap                     // batches were missing at the seam, twice
	OutcomeUncovered               // the snapshot did not have it
	OutcomeAbandoned               // nobody had it in time
	OutcomeOverflow                // no room for held batches
	OutcomePublisherReset          // the engine's life ended before
	OutcomeTreeRejected            // the index refused the snapshot
	outcomes
)

var outcomeNames = [outcomes]string{"none", "from_origin", "warm", "warm_unwitnessed", "gap", "uncovered", "abandoned",
	"overflow", "publisher_reset", "tree_rejected"}

// String names the outcome as metrics do.
func (o Outcome) String() string {
	if o >= outcomes {
		return "unknown"
	}
	return outcomeNames[o]
}

// RankEpoch names one obligation of one rank.
type RankEpoch struct {
	Rank  index.Rank
	Epoch uint64
}

// GraftVerdict is what became of an obligation that a section was offered for.
type GraftVerdict uint8

// The verdicts.
const (
	// GraftStale: the obligation is not the present one any more, or none.
	GraftStale GraftVerdict = iota
	// Grafted: the section is the rank's state now.
	Grafted
	// GraftUncovered: the section does not have the rank. It still is owed.
	GraftUncovered
	// GraftGap: batches are missing between the section and what is held. A replay may be under way; it still is owed, maybe
	// under another epoch.
	GraftGap
	// GraftRejected: not to be used for this rank, for the reason given. It still is owed.
	GraftRejected
	graftVerdicts
)

var graftNames = [graftVerdicts]string{"stale", "grafted", "uncovered", "gap", "rejected"}

// String names the verdict.
func (v GraftVerdict) String() string {
	if v >= graftVerdicts {
		return "unknown"
	}
	return graftNames[v]
}

// GraftReason is why a section was rejected for a rank.
type GraftReason uint8

// The reasons.
const (
	ReasonNone GraftReason = iota
	// ReasonUnbound: the engine's start is not known under the present connection yet (H2). Offer it again in a moment.
	ReasonUnbound
	ReasonOtherIncarnation
	ReasonUntrusted
	// ReasonWeak: for Repair and Heal a section must be origin or proven, and complete unless the rank is partial itself.
	ReasonWeak
	// ReasonBelow: the section and what is kept do not reach the rank's present cursor, or the goal.
	ReasonBelow
	// ReasonTree: the index has no room.
	ReasonTree
	// ReasonUnheld: a cursor of format 1 proves nothing to a rank that holds nothing (B0).
	ReasonUnheld
	graftReasons
)

var reasonNames = [graftReasons]string{"none", "unbound", "other_incarnation", "untrusted", "weak", "below", "tree", "unheld"}

// String names the reason.
func (r GraftReason) String() string {
	if r >= graftReasons {
		return "unknown"
	}
	return reasonNames[r]
}

// GraftResult is one rank's part in what Graft came to.
type GraftResult struct {
	RankEpoch
	Verdict GraftVerdict
	Reason  GraftReason
	// Cursor is where the rank stands after it was grafted.
	Cursor Cursor
}

// AbandonWhy is why nobody looks any more for a section.
type AbandonWhy uint8

// The reasons. All but AbandonTimedOut leave the obligation of a rank without a connection as it is: its engine can still
// be asked for everything once one stands (H7).
const (
	AbandonNoPeers AbandonWhy = iota
	AbandonFleetCold
	AbandonNothingToRecover
	AbandonTimedOut
	// AbandonUncovered: a snapshot was found, and it does not have the rank.
	AbandonUncovered
	abandonEnd
)

var abandonNames = [abandonEnd]string{"no_peers", "fleet_cold", "nothing_to_recover", "timed_out", "uncovered"}

// String names the reason.
func (w AbandonWhy) String() string {
	if w >= abandonEnd {
		return "unknown"
	}
	return abandonNames[w]
}

// Testimony is what siblings said of a graft that awaits the proof of its seam.
type Testimony uint8

// The testimonies.
const (
	// TestimonyUnknown: nobody could say.
	TestimonyUnknown Testimony = iota
	// NoAdvance: a sibling that followed the stream stands at the watermark too.
	NoAdvance
	// Advanced: a sibling of the same life is beyond it.
	Advanced
)

// Suspicion says what an audit found against a rank (B7, H10).
type Suspicion uint8

// The suspicions. In each case the rank alone is marked, never the sibling.
const (
	// SuspectAlone: it differs from the only sibling that can be compared with it. Its engine is asked for everything.
	SuspectAlone Suspicion = iota
	// SuspectMinority: it differs from all of two or more: it is repaired from a sibling.
	SuspectMinority
	// SuspectWeaker: it differs from one whose proof is stronger: it is repaired from a sibling.
	SuspectWeaker
)

var suspicionNames = [...]string{"alone", "minority", "weaker"}

// String names the suspicion.
func (w Suspicion) String() string {
	if int(w) >= len(suspicionNames) {
		return "unknown"
	}
	return suspicionNames[w]
}
