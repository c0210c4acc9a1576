package ingest

import "time"

// suspicion watches how much of what a rank says contradicts what is known (index.md 9). It lasts until the rank begins
// anew.
type suspicion struct {
	since                  time.Time
	stores, contradictions uint64 // counters when the window began
	is                     bool
}

// begin opens another window, if the last one is over, with the rank's counters as they are.
func (s *suspicion) begin(now time.Time, stores, contradictions uint64) {
	if now.Sub(s.since) > suspectWindow {
		s.since, s.stores, s.contradictions = now, stores, contradictions
	}
}

// judge takes the counters as they are now.
func (s *suspicion) judge(stores, contradictions uint64) {
	if s.since.IsZero() { // the rank began anew a moment ago
		return
	}
	wrong := contradictions - s.contradictions
	if wrong > suspectLeast && wrong*suspectShare > stores-s.stores {
		s.is = true
	}
}
