package cursor

import (
	"time"

	"github.com/routerfleet/routerfleet/router/kvevents"
)

// ClockMargin is how far an engine's clock may step without two cursors contradicting each other (peer-bootstrap B0).
const ClockMargin = 2 * time.Second

// OriginSeq is the seq of the first batch an engine process publishes for a rank.
const OriginSeq = int64(0)

// Start is an engine process's own word for its life: its start time, or its container. The zero value is unknown, which
// is not the same as an engine that has none (Known without ID).
type Start struct {
	Known bool
	ID    string
}

// Named tells a start that says something.
func (s Start) Named() bool { return s.Known && s.ID != "" }

// Incarnation is one life of an engine process.
type Incarnation struct {
	// Worker is the pod UID, or the worker's static id or URL where it is no pod.
	Worker string
	Start  Start
}

// Proof is why a cursor may be believed, strongest first.
type Proof uint8

// The proofs.
const (
	ProofUnknown Proof = iota
	// Origin: every batch since the engine's first was applied.
	Origin
	// Proven: no batch fell between what the rank began with and now.
	Proven
	// Unwitnessed: probably so, but nobody could say.
	Unwitnessed
	// Untrusted: a batch, or a part of one, is missing or may be.
	Untrusted
	proofEnd
)

var proofNames = [proofEnd]string{"unknown", "origin", "proven", "unwitnessed", "untrusted"}

// String names the proof as it stands on the wire.
func (p Proof) String() string {
	if p >= proofEnd {
		p = ProofUnknown
	}
	return proofNames[p]
}

// Weaker gives the weaker of two proofs: what a graft inherits. An unknown one proves nothing.
func (p Proof) Weaker(o Proof) Proof {
	if p == ProofUnknown || o == ProofUnknown {
		return Untrusted
	}
	return max(p, o)
}

// Cursor says up to where a rank's stream was applied, and why that may be believed. Time and Hash are those of the batch
// at Seq: they tell apart two lives of an engine that count alike.
type Cursor struct {
	Incarnation Incarnation
	Seq         int64
	Time        kvevents.Stamp // 0 is unknown
	Hash        uint64         // of the payload; 0 is unknown, as after a graft from a format without it
	Proof       Proof
	// Partial says that what is known is true but not all: the rank was joined in mid-stream, or blocks were evicted.
	Partial bool
}

// Contradicts tells whether two cursors of one rank cannot be of one stream: seq and time grow together, and at one seq
// there is one batch. The clock's margin does not apply at equal seq.
func (c Cursor) Contradicts(o Cursor) bool {
	if c.Time == 0 || o.Time == 0 {
		return c.Seq == o.Seq && c.otherHash(o)
	}
	switch {
	case c.Seq == o.Seq:
		return c.Time != o.Time || c.otherHash(o)
	case c.Seq < o.Seq:
		return c.Time.Sub(o.Time) > ClockMargin
	default:
		return o.Time.Sub(c.Time) > ClockMargin
	}
}

func (c Cursor) otherHash(o Cursor) bool { return c.Hash != 0 && o.Hash != 0 && c.Hash != o.Hash }

// Outlived tells whether the stream of c has ended, because o is of a later life: then c is no source, no witness and no
// partner of an audit.
func (c Cursor) Outlived(o Cursor) bool { return c.Contradicts(o) && c.Time < o.Time }

// Relation is how two cursors of one rank stand to each other.
type Relation uint8

// The relations.
const (
	// Undecided: a start is not known yet, and nothing contradicts.
	Undecided Relation = iota
	// OneLife: one incarnation.
	OneLife
	// OtherLife: two incarnations.
	OtherLife
)

// String names the relation.
func (r Relation) String() string {
	switch r {
	case OneLife:
		return "one_life"
	case OtherLife:
		return "other_life"
	default:
		return "undecided"
	}
}

// Relate compares the incarnations of two cursors (peer-bootstrap B0): one life if worker and start are equal and the
// times do not contradict. Unknown starts decide nothing; the first batch somebody happened to see has no part in it.
func Relate(a, b Cursor) Relation {
	switch {
	case a.Incarnation.Worker != b.Incarnation.Worker, a.Contradicts(b):
		return OtherLife
	case !a.Incarnation.Start.Known, !b.Incarnation.Start.Known:
		return Undecided
	case a.Incarnation.Start != b.Incarnation.Start:
		return OtherLife
	default:
		return OneLife
	}
}

// Place is where a batch of a live connection lies to a cursor.
type Place uint8

const (
	// PlaceNext is the batch that follows.
	PlaceNext Place = iota
	// PlaceGap is a later one.
	PlaceGap
	// PlaceDuplicate is one that was applied.
	PlaceDuplicate
	// PlaceRestart is one of a later life, although its seq is not above the cursor.
	PlaceRestart
	// PlaceStale is one above the cursor that was made before it: not the stream of our state.
	PlaceStale
)

// Place applies rule (c) of peer-bootstrap B5 with H4 and H8:
//
//  1. At the cursor's seq the payload decides; without a hash, the time does.
//  2. Below it: seq 0 is a restart unless it is older than the cursor by more than the margin (a late copy of the first
//     batch); any other is a restart if it is later than the cursor, else a duplicate.
//  3. Above it: a batch older than the cursor by more than the margin is stale.
func (c Cursor) Place(b *kvevents.Batch) Place {
	timed := c.Time != 0 && b.Time != 0
	switch {
	case b.Seq == c.Seq:
		if c.Repeats(b) {
			return PlaceDuplicate
		}
		return PlaceRestart
	case b.Seq == OriginSeq && b.Seq < c.Seq:
		if timed && c.Time.Sub(b.Time) > ClockMargin {
			return PlaceDuplicate
		}
		return PlaceRestart
	case b.Seq < c.Seq:
		if timed && b.Time > c.Time {
			return PlaceRestart
		}
		return PlaceDuplicate
	case timed && c.Time.Sub(b.Time) > ClockMargin:
		return PlaceStale
	case b.Seq == c.Seq+1:
		return PlaceNext
	default:
		return PlaceGap
	}
}

// Repeats tells whether b is the very batch the cursor stands at.
func (c Cursor) Repeats(b *kvevents.Batch) bool {
	if b.Seq != c.Seq {
		return false
	}
	if c.Hash != 0 {
		return b.Hash == c.Hash
	}
	return b.Time == c.Time
}

// At gives the cursor moved to b.
func (c Cursor) At(b *kvevents.Batch) Cursor {
	c.Seq, c.Time, c.Hash = b.Seq, b.Time, b.Hash
	return c
}
