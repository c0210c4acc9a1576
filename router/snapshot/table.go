package snapshot

import "time"

// Table is what a peer says of all its ranks. It needs no vetting, for it is compared only, by Worker.Same and DP, with
// ranks the reader names itself.
type Table struct {
	Format        int
	Ready         bool      // the peer calls itself a source
	SeedableSince time.Time // zero if the peer holds nothing, or does not say
	// Builds is how busy the peer is: bodies it was building or serving (X-RouterFleet-Builds).
	Builds int
	Rows   []TableRow
	// Empty are the ranks the peer is subscribed to and holds nothing of. Complete tells that the list was read (format 1
	// has it behind the nodes); an incomplete one is no evidence.
	Empty    []TableRank
	Complete bool
}

// TableRank names a rank in the peer's terms.
type TableRank struct {
	Section SectionKey
	Worker  Worker
	DP      int32
}

// TableRow is one rank with a cursor. Row.Rank and Row.Life are not on the wire.
type TableRow struct {
	Section SectionKey
	Row
}
