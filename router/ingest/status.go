package ingest

import (
	"sync/atomic"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// Status is what is known of a rank as of the end of one batch: cursor, digest and counts are of one moment.
type Status struct {
	State State
	// Connected says that a connection to the publisher stands.
	Connected bool
	// Cursor's proof is unknown while nothing of the stream is applied; then its incarnation is what is known of the engine:
	// the start is that of the process the connection leads to, if it is bound (H2).
	Cursor Cursor
	// Life names the life of what the rank holds (index.RankView.State); 0 while it holds nothing that was ever applied.
	Life          uint64
	Digest        uint64
	DigestVersion int
	// Blocks the rank holds, by tier, best first.
	Blocks [4]int64
	Trust  Trust

	// Owed is what siblings may be asked for, nil if nothing; Awaiting a graft whose seam is not proven, nil without one.
	Owed     *Owed
	Awaiting *Awaiting
	// Outcome is how the rank came by its state in this life of its engine, once that is final (Options.Bootstrap).
	Outcome Outcome
	// SeededFrom is whom the state was grafted from, empty without a graft.
	SeededFrom string
	// WalkedTo is the seq up to which the state may hold effects beyond its cursor: until the cursor has passed it the
	// rank's digest says nothing (H12).
	WalkedTo int64
	// Exportable says that the rank may be taught to siblings and may testify (H14).
	Exportable bool
	// Bound says that the engine's start, or that it has none, is known under the present connection (H2). Without it the
	// rank is grafted nothing and is no partner of an audit.
	Bound bool
	// Audited says that an audit found the rank to differ; it is part of Trust.Suspect.
	Audited bool

	Held      int // batches that wait for an answer
	HeldBytes int64
	Kept      int // copies of applied batches, for a graft
	KeptBytes int64
	Mapped    int // engine hashes with a key (scheme tokens)
	Orphans   int // blocks whose parent is not known (scheme tokens)

	Tally          Tally
	Counts         Counts
	Contradictions uint64
	OrphansDropped uint64
}

// Trust is how far a policy may believe a rank's depth.
type Trust struct {
	// Untrusted: batches are missing, or may be. While they are sought too (Repairing).
	Untrusted bool
	// Suspect: what the rank says contradicts itself or others.
	Suspect bool
	// UpperBound: the model has cache groups that are not indexed; the depth is the most the engine can reuse.
	UpperBound bool
}

// Rank is a registered rank. It is immutable but for its status.
type Rank struct {
	Rank    index.Rank
	Worker  string          // name of the worker, for people and metrics
	Engine  snapshot.Worker // as siblings know it
	Section *Section
	status  atomic.Pointer[Status]

	capacity atomic.Int64
}

// CapacityTokens is what the rank's cache holds in device memory; 0 when the engine does not say. A change makes another
// View.
func (r *Rank) CapacityTokens() int { return int(r.capacity.Load()) }

// Status gives what the rank's last applied batch left. It never blocks and never is nil.
func (r *Rank) Status() *Status { return r.status.Load() }

// View is the ranks and indexes there are. It is immutable and replaced when a rank is registered or forgotten,
// or of another capacity.
type View struct {
	ranks    map[index.Rank]*Rank
	list     []*Rank
	sections []*Section
}

// Rank gives a rank, nil if it is not registered: it has no cache we know of.
func (v *View) Rank(r index.Rank) *Rank { return v.ranks[r] }

// Ranks lists all ranks, sorted by worker and number. The caller must not change it.
func (v *View) Ranks() []*Rank { return v.list }

// Sections lists the indexes. The caller must not change it.
func (v *View) Sections() []*Section { return v.sections }

// Totals counts ranks, as /internal/bootstrap reports them.
type Totals struct {
	Ranks, Connected, Pending, Proving, Cold, Origin, Unwitnessed, Untrusted, Suspect, Partial int
}

// Totals counts the ranks now.
func (v *View) Totals() Totals {
	var t Totals
	for _, r := range v.list {
		s := r.Status()
		t.Ranks++
		count := func(into *int, is bool) {
			if is {
				*into++
			}
		}
		count(&t.Connected, s.Connected)
		count(&t.Pending, s.State == Pending)
		count(&t.Proving, s.State == Proving)
		count(&t.Cold, s.State == Cold)
		count(&t.Unwitnessed, s.Cursor.Proof == Unwitnessed)
		count(&t.Origin, s.Cursor.Proof == Origin)
		count(&t.Untrusted, s.Trust.Untrusted)
		count(&t.Suspect, s.Trust.Suspect)
		count(&t.Partial, s.Cursor.Partial)
	}
	return t
}
