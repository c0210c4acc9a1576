package bootstrap

import (
	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// Rank is a rank as the pump publishes it, of one moment.
type Rank struct {
	Rank index.Rank
	// Name is the worker's, for people and metrics.
	Name    string
	Worker  snapshot.Worker
	Section snapshot.SectionKey

	// Following, Proving, Repairing and Cold tell its state; none of them is pending. A cold rank has nothing, and nobody is
	// looked for any more.
	Following, Proving, Repairing, Cold bool
	Connected                           bool
	// Cursor's proof is unknown while nothing of the stream was applied; its incarnation may be known before.
	Cursor cursor.Cursor
	// Life names the life of what the rank holds.
	Life          uint64
	Digest        uint64
	DigestVersion int
	WalkedTo      int64
	Blocks        int64
	Suspect       bool
	SeededFrom    string

	Owed     *ingest.Owed
	Awaiting *ingest.Awaiting
	Outcome  ingest.Outcome
}

// boots tells whether the rank waits for its first state.
func (r *Rank) boots() bool {
	return r.Owed != nil && (r.Owed.Kind == ingest.OwedBoot || r.Owed.Kind == ingest.OwedGapRetry)
}

func (r *Rank) owes(k ingest.OwedKind) bool { return r.Owed != nil && r.Owed.Kind == k }

// begun tells whether the rank has a cursor.
func (r *Rank) begun() bool { return r.Cursor.Proof != cursor.ProofUnknown }

// recovered tells whether the rank has what was to be had: its stream from the first batch, or a sibling's state. That it
// is proven is not enough: a rank that joined in mid-stream with nothing is, of what it saw.
func (r *Rank) recovered() bool {
	if !r.begun() || r.Cursor.Proof == cursor.Untrusted || r.boots() {
		return false
	}
	return r.Cursor.Proof == cursor.Origin || r.grafted()
}

func (r *Rank) grafted() bool {
	return r.SeededFrom != "" || r.Outcome == ingest.OutcomeWarm || r.Outcome == ingest.OutcomeWarmUnwitnessed
}

// state is how far its boot is.
func (r *Rank) state() RankState {
	switch {
	case r.boots(), !r.Following && !r.Proving && !r.Repairing && !r.Cold:
		return RankPending
	case r.recovered():
		return RankRecovered
	case r.Outcome == ingest.OutcomeNone && r.grafted():
		return RankRecovered
	default:
		return RankFailed
	}
}

// trusted tells whether the rank's state may be compared, and taken.
func (r *Rank) trusted() bool { return r.begun() && r.Cursor.Proof != cursor.Untrusted }

func (r *Rank) at() ingest.RankEpoch { return ingest.RankEpoch{Rank: r.Rank, Epoch: r.Owed.Epoch} }

// local names a rank to the client, which delivers nothing but what is named.
func local(r *Rank) snapshot.LocalRank {
	return snapshot.LocalRank{Rank: r.Rank, Worker: r.Worker, Cursor: r.Cursor}
}
