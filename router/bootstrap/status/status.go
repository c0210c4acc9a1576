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
	// SeededFrom is the pod UID, or the address, of the sibling most ranks were copied from; empty without one.
	SeededFrom string `json:"seededFrom,omitempty"`
	// SnapshotFormats are the formats this replica reads and writes, best first.
	SnapshotFormats []int `json:"snapshotFormats,omitempty"`
	// Seedable says that a sibling would get a snapshot with something in it now.
	Seedable bool `json:"seedable,omitempty"`
	// SeedableSince is since when the content of that is held, by this replica or by those it was copied from whole; zero
	// when not seedable.
	SeedableSince time.Time `json:"seedableSince,omitzero"`
	// Coverage is left out while bootstrap is disabled.
	Coverage *Coverage `json:"coverage,omitempty"`
	Workers  Workers   `json:"workers"`
	// Ranks is left out while no events are read.
	Ranks Ranks `json:"ranks,omitzero"`
	// Peers is left out while bootstrap is disabled.
	Peers *Peers `json:"peers,omitempty"`
	// PeersAsked says how siblings answered last, at most MaxPeersAsked of them.
	PeersAsked []PeerAsked `json:"peersAsked,omitempty"`
	// Progress is there while a snapshot is being read.
	Progress *Progress `json:"progress,omitempty"`
	// RankRows are there if ?detail=ranks asked for them.
	RankRows []RankRow `json:"rankRows,omitempty"`
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
	// Warm counts those whose whole stream is known, or that were copied from a sibling without a gap.
	Warm int `json:"warm,omitempty"`
	// Unwitnessed counts those that were copied and of which nobody could say whether a batch fell between.
	Unwitnessed int `json:"unwitnessed,omitempty"`
	// Proving counts those of which it is being asked whether the stream goes on where it was left.
	Proving int `json:"proving,omitempty"`
	// Pending counts those that wait for their first state.
	Pending int `json:"pending,omitempty"`
	// Cold counts those that follow their stream from somewhere in the middle, or not at all.
	Cold int `json:"cold,omitempty"`
	// Untrusted counts those with a hole in what was applied.
	Untrusted int `json:"untrusted,omitempty"`
	// Suspect counts those that contradict themselves or siblings.
	Suspect int `json:"suspect,omitempty"`
	// Partial counts those whose state is true, but not all there is.
	Partial int `json:"partial,omitempty"`
}

// Coverage says how much of what siblings hold of this replica's ranks it holds itself.
type Coverage struct {
	// Recoverable counts ranks that were recovered, or of which a present sibling holds more.
	Recoverable int `json:"recoverable"`
	// Recovered counts those of them that are not missing anything a sibling could give.
	Recovered int `json:"recovered"`
	// Percent is Recovered of Recoverable; absent when nothing is recoverable.
	Percent *int `json:"percent,omitempty"`
}

// Peers are counts of siblings.
type Peers struct {
	Known int `json:"known"`
	// Synced says that a complete set was told; without it Known may be too low.
	Synced bool `json:"synced"`
	// Warm counts those that answered last with something in hand.
	Warm int `json:"warm"`
}

// PeerAsked is how one sibling answered last: warm, cold, unreachable, refused or unreadable.
type PeerAsked struct {
	PodUID string `json:"podUID,omitempty"`
	Name   string `json:"name,omitempty"`
	Answer string `json:"answer"`
}

// Progress is how far the snapshot being read is. Totals are 0 while nobody can say.
type Progress struct {
	Peer           string `json:"peer"`
	Bytes          int64  `json:"bytes"`
	BytesTotal     int64  `json:"bytesTotal,omitempty"`
	Nodes          int64  `json:"nodes"`
	NodesTotal     int64  `json:"nodesTotal,omitempty"`
	RanksDone      int    `json:"ranksDone"`
	RanksTotal     int    `json:"ranksTotal"`
	BytesPerSecond int64  `json:"bytesPerSecond"`
	SecondsLeft    int64  `json:"secondsLeft,omitempty"`
}

// RankRow is one rank, for people.
type RankRow struct {
	Worker     string   `json:"worker"`
	Rank       int32    `json:"rank"`
	Proof      string   `json:"proof,omitempty"`
	Flags      []string `json:"flags,omitempty"`
	Seq        int64    `json:"seq"`
	Blocks     int64    `json:"blocks"`
	Outcome    string   `json:"outcome,omitempty"`
	SeededFrom string   `json:"seededFrom,omitempty"`
}

// Problem is one kind of trouble and one example of it.
type Problem struct {
	Code Code `json:"code"`
	// Count is how many have the trouble now (workers, for kv_stream_untrusted ranks), not how often it was met: it
	// does not move at rest.
	Count   int    `json:"count"`
	Example string `json:"example,omitempty"`
}
