package kvevents

import "github.com/routerfleet/routerfleet/router/index"

// Phase is how a subscription stands.
type Phase uint8

// The phases. A subscription is Connecting until its first attempt has ended, then Up or Down in turn; it never gives up.
const (
	PhaseUnknown Phase = iota
	Connecting
	Up
	Down
)

// String names the phase.
func (p Phase) String() string {
	switch p {
	case Connecting:
		return "connecting"
	case Up:
		return "up"
	case Down:
		return "down"
	default:
		return "unknown"
	}
}

// State is a phase with its epoch (the last one that was up, 0 before) and, when down, the reason.
type State struct {
	Phase  Phase
	Epoch  uint64
	Reason error
}

// Observer hears when a rank's phase or epoch changes, on the subscription's goroutine: it must not wait. A reason that
// changes while the rank stays down is in Subscriber.State only.
type Observer interface {
	RankState(r index.Rank, s State)
}

// Stats are the counters of one subscription.
type Stats struct {
	Connects    uint64 // connections that came up
	Unreachable uint64 // attempts that failed
	Messages    uint64 // messages received
	Malformed   uint64 // of them, dropped: not three frames, or a seq that is none
	Resets      uint64 // END_SEQ on the stream
	Undelivered uint64 // dropped because the sink had ended
	ForeignRank uint64 // batches that name another rank than the socket's
	Skips       [skipReasons]uint64
}

// Stats gives the counters. Each is exact; they are not read at one instant.
func (s *Subscriber) Stats() Stats {
	c := &s.counts
	st := Stats{
		Connects: c.connects.Load(), Unreachable: c.unreachable.Load(), Messages: c.messages.Load(),
		Malformed: c.malformed.Load(), Resets: c.resets.Load(), Undelivered: c.undelivered.Load(),
		ForeignRank: c.foreignRank.Load(),
	}
	for i := range st.Skips {
		st.Skips[i] = c.skips[i].Load()
	}
	return st
}
