// Package status is the wire type of GET /internal/bootstrap: what one replica says of its own boot. The router
// writes it, the operator and the plugin read it.
//
// A field a replica does not know is left out, or "unknown" where it is an enum; nothing is invented. A reader
// keeps enum values it does not know as Unknown, so that a newer router does not break an older operator, and an
// unknown value never counts as a good one.
package status

import "time"

// Status is the answer of one replica.
type Status struct {
	// PodUID is the downward API's pod UID; empty outside a pod.
	PodUID string `json:"podUID,omitempty"`
	// Boot is random per process start: another value means another process in the same pod.
	Boot string `json:"boot,omitempty"`
	// StartedAt is when the process started.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Revision is ROUTERFLEET_REVISION, empty outside a fleet.
	Revision string `json:"revision,omitempty"`
	// TokenGeneration is the key id of the peer token this replica signs with.
	TokenGeneration string  `json:"tokenGeneration,omitempty"`
	State           State   `json:"state"`
	Verdict         Verdict `json:"verdict"`
	Workers         Workers `json:"workers"`
	// Ranks is left out while no events are read.
	Ranks Ranks `json:"ranks,omitzero"`
	// Problems is never longer than MaxProblems.
	Problems []Problem `json:"problems,omitempty"`
	// SettledAt is when the boot ended or what it won was last lost; zero before.
	SettledAt time.Time `json:"settledAt,omitzero"`
	// Error says in a line why the replica does not settle, or was never ready although it has; empty when nothing is
	// wrong. It may name addresses.
	Error string `json:"error,omitempty"`
}

// Workers are coarse counts of engines as this replica sees them.
type Workers struct {
	// Discovered counts endpoints present now, usable or not.
	Discovered int `json:"discovered"`
	// Usable counts workers requests may be sent to.
	Usable int `json:"usable"`
	// Subscribed counts workers whose events are read.
	Subscribed int `json:"subscribed"`
}

// Ranks are counts of data-parallel ranks as this replica sees them.
type Ranks struct {
	// Total counts the ranks whose events are followed, connected or not.
	Total int `json:"total"`
}

// Problem is one kind of trouble and one example of it.
type Problem struct {
	Code Code `json:"code"`
	// Count is how many have the trouble now (workers, for kv_stream_untrusted ranks), not how often it was met: it
	// does not move at rest.
	Count   int    `json:"count"`
	Example string `json:"example,omitempty"`
}
