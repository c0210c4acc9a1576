package ingest

import "github.com/routerfleet/routerfleet/router/cursor"

type (
	// Cursor says up to where a rank's stream was applied. It is that of package cursor, and so are the others.
	Cursor = cursor.Cursor
	// Incarnation is one life of an engine process.
	Incarnation = cursor.Incarnation
	// Start is an engine process's own word for its life.
	Start = cursor.Start
	// Proof is why a cursor may be believed.
	Proof = cursor.Proof
	// Relation is how two cursors of one rank stand to each other.
	Relation = cursor.Relation
)

// The proofs and relations.
const (
	ProofUnknown = cursor.ProofUnknown
	Origin       = cursor.Origin
	Proven       = cursor.Proven
	Unwitnessed  = cursor.Unwitnessed
	Untrusted    = cursor.Untrusted

	Undecided = cursor.Undecided
	OneLife   = cursor.OneLife
	OtherLife = cursor.OtherLife
)

// Relate compares the incarnations of two cursors.
func Relate(a, b Cursor) Relation { return cursor.Relate(a, b) }
