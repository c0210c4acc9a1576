package ingest

import "github.com/routerfleet/routerfleet/router/cursor"

// Cursor and what it is made of; see package cursor.
type (
	Cursor      = cursor.Cursor
	Incarnation = cursor.Incarnation
	Start       = cursor.Start
	Proof       = cursor.Proof
	Relation    = cursor.Relation
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
