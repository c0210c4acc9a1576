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

// Find gives the row of a rank. An identity counts, never a place in the table.
func (t *Table) Find(w Worker, dp int32) (TableRow, bool) {
	for _, r := range t.Rows {
		if r.DP == dp && r.Worker.Same(w) {
			return r, true
		}
	}
	return TableRow{}, false
}

// HoldsNothing tells that the peer holds nothing of a rank: evidence that there is nothing to recover from it.
func (t *Table) HoldsNothing(w Worker, dp int32) bool {
	if !t.Complete {
		return false
	}
	for _, r := range t.Empty {
		if r.DP == dp && r.Worker.Same(w) {
			return true
		}
	}
	return false
}

// Cold tells that the peer holds nothing at all.
func (t *Table) Cold() bool {
	for _, r := range t.Rows {
		if r.Blocks > 0 {
			return false
		}
	}
	return t.Complete
}

// fill takes a section's rows into the table.
func (t *Table) fill(key SectionKey, rows []wireRow) {
	for _, w := range rows {
		if w.begun() {
			t.Rows = append(t.Rows, TableRow{key, w.Row})
		}
		if !w.begun() || w.Blocks == 0 {
			t.Empty = append(t.Empty, TableRank{key, w.Worker, w.DP})
		}
	}
}
