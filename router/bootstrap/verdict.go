package bootstrap

import (
	"time"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/peers"
)

// facts are what a verdict is made of: of one moment.
type facts struct {
	ranks    []Rank
	set      peers.Set
	alone    bool // also of upstream routers
	settled  bool
	answers  []asked
	coverage status.Coverage

	settledAt     time.Time
	seedFailed    bool
	gateClosed    bool
	seedable      bool
	seedableSince time.Time
	seededFrom    string
}

// asked is how one peer answered last.
type asked struct {
	peer   peers.Peer
	answer Answer
	// ours says that it holds something of our ranks.
	ours bool
}

func (f *facts) done() (n int) {
	for i := range f.ranks {
		if f.ranks[i].state() == RankRecovered {
			n++
		}
	}
	return n
}

// verdict is what the replica holds now, the first line that holds (B8):
//
//  1. Before it settled it is unknown.
//  2. Of what could be recovered, 95 % are: warm, or warm_unwitnessed if only so with ranks whose seam nobody witnessed. But
//     a replica that could not ask is never warm: where a rank is without, every sibling must have answered.
//  3. Less of what is known to be recoverable is: cold_partial.
//  4. A complete set of siblings was told, and there never was any: cold_no_peers.
//  5. Every sibling answered and holds nothing of our ranks: cold_fleet.
//  6. Everything else: cold_timed_out.
func (f *facts) verdict() status.Verdict {
	if !f.settled {
		return status.VerdictUnknown
	}
	if c := f.coverage; c.Recoverable > 0 {
		proven := f.recoveredWith(func(p cursor.Proof) bool { return p == cursor.Origin || p == cursor.Proven })
		switch {
		case c.Recovered*100 < c.Recoverable*wholePercent:
			return status.VerdictColdPartial
		case !f.conclusive():
		case proven*100 >= c.Recoverable*wholePercent:
			return status.VerdictWarm
		default:
			return status.VerdictWarmUnwitnessed
		}
	}
	switch {
	case f.alone:
		return status.VerdictColdNoPeers
	case f.everyPeer(func(a asked) bool { return a.answered() && !a.ours }):
		return status.VerdictColdFleet
	default:
		return status.VerdictColdTimedOut
	}
}

func (a asked) answered() bool { return a.answer == AnswerWarm || a.answer == AnswerCold }

// conclusive tells whether nothing is hidden behind a sibling that was not heard: every rank is recovered, or everybody
// there is answered.
func (f *facts) conclusive() bool {
	if f.alone || f.recoveredWith(func(cursor.Proof) bool { return true }) == len(f.ranks) {
		return true
	}
	return f.set.Synced && f.everyPeer(asked.answered)
}

func (f *facts) recoveredWith(proof func(cursor.Proof) bool) (n int) {
	for i := range f.ranks {
		if r := &f.ranks[i]; r.recovered() && proof(r.Cursor.Proof) {
			n++
		}
	}
	return n
}

// everyPeer is false without a peer: nobody says nothing.
func (f *facts) everyPeer(is func(asked) bool) bool {
	for _, a := range f.answers {
		if !is(a) {
			return false
		}
	}
	return len(f.answers) > 0 && f.set.Synced
}
