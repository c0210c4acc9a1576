package snapshot

import (
	"errors"
	"fmt"
	"time"
)

// Reason is why a body, a section or a rank is not taken: a closed list, in the order of vetting.
type Reason string

// The reasons.
const (
	UnknownFormat     Reason = "unknown_format"
	Malformed         Reason = "malformed"   // not what the format says, or over a limit
	Unauthentic       Reason = "unauthentic" // not signed by a replica of the fleet
	ProducerCold      Reason = "producer_cold"
	SchemeMismatch    Reason = "scheme_mismatch" // model, scheme or bigram: no section of ours
	SeedMismatch      Reason = "seed_mismatch"
	BlockSizeMismatch Reason = "block_size_mismatch"
	MapMissing        Reason = "map_missing" // scheme tokens without engine hashes
	OtherIncarnation  Reason = "other_incarnation"
	Untrusted         Reason = "untrusted"
	NotExported       Reason = "not_exported" // listed, but proving, in a gap or unproven itself (H14)
	ForwardParent     Reason = "forward_parent_reference"
	TierMismatch      Reason = "tier_table_mismatch"
	DuplicateWorker   Reason = "duplicate_worker"
	DuplicateCursor   Reason = "duplicate_cursor"
	NothingUsable     Reason = "nothing_usable"
)

// Reasons lists them all, for metrics.
var Reasons = []Reason{
	UnknownFormat, Malformed, Unauthentic, ProducerCold, SchemeMismatch, SeedMismatch, BlockSizeMismatch, MapMissing,
	OtherIncarnation, Untrusted, NotExported, ForwardParent, TierMismatch, DuplicateWorker, DuplicateCursor, NothingUsable,
}

// Retriable tells whether asking the same peer again in the same sweep may give something: what is missing may come. What
// is wrong stays wrong.
func (r Reason) Retriable() bool {
	switch r {
	case ProducerCold, OtherIncarnation, Untrusted, NotExported, NothingUsable:
		return true
	default:
		return false
	}
}

// Rejection is a body or section that was not taken.
type Rejection struct {
	Reason Reason
	Detail string
}

func (e *Rejection) Error() string { return fmt.Sprintf("snapshot: %s: %s", e.Reason, e.Detail) }

// Retriable is that of the reason.
func (e *Rejection) Retriable() bool { return e.Reason.Retriable() }

func reject(r Reason, format string, args ...any) *Rejection {
	return &Rejection{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

// ReasonOf gives the reason of a rejection, empty for any other error.
func ReasonOf(err error) Reason {
	if r, ok := errors.AsType[*Rejection](err); ok {
		return r.Reason
	}
	return ""
}

// NoBody is an answer without a snapshot. 404 is an image that does not know the path, or a replica without an index.
type NoBody struct {
	Status     int
	Code       string        // of the error, as far as the peer gave one
	RetryAfter time.Duration // 0 if the peer did not say
}

func (e *NoBody) Error() string {
	return fmt.Sprintf("snapshot: the peer answered with status %d (%s)", e.Status, e.Code)
}
