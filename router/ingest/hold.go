package ingest

import (
	"time"

	"github.com/routerfleet/routerfleet/internal/invariant"
	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

// What a rank is owed by whoever can ask siblings, and how it does without (peer-bootstrap 4.9, B16). The obligation is
// part of the state: settleOwed sees to it after every step that whoever needs something is owed it, under a number that
// is new with every connection. A pending rank is owed a section, or asks its engine for everything; never both, never
// neither.

// owe begins an obligation.
func (s *rankState) owe(k OwedKind) {
	s.unowe()
	s.owed = Owed{Kind: k, Epoch: s.mint(), Cursor: s.cursor, LateJoin: k == OwedBoot || k == OwedHeal}
	if s.epoch != 0 && k != OwedHeal {
		s.owed.Since = s.now
	}
}

// unowe ends the obligation, if there is one: what is brought for it is stale.
func (s *rankState) unowe() {
	s.owed = Owed{}
	s.stopKeeping()
}

// settleOwed sees to it that a rank is owed what it needs.
func (s *rankState) settleOwed() {
	if !s.boots {
		return
	}
	switch kind := s.owed.Kind; {
	case s.state == Pending && kind == 0 && !s.question.open:
		s.owe(OwedBoot)
	case kind == OwedHeal && !s.ailing():
		s.unowe()
	case kind == 0 && s.ailing():
		s.owe(OwedHeal)
	}
}

// ailing tells whether something better than what the rank has may be had, and would be taken (H13).
func (s *rankState) ailing() bool {
	if s.epoch == 0 || !s.start.bound.Known || s.question.open {
		return false
	}
	switch s.state {
	case Cold:
		return true
	case Following:
		return s.awaiting == nil && (s.cursor.Partial || s.cursor.Proof == Untrusted || s.cursor.Proof == Unwitnessed)
	}
	return false
}

// discounted tells whether the rank's blocks count only as far as they are contiguous.
func (s *rankState) discounted() bool {
	return s.cursor.Proof == Untrusted || s.state == Repairing || s.audit.suspect
}

// exportable tells whether siblings may have the rank's blocks, and whether its cursor is a testimony (H14).
func (s *rankState) exportable() bool {
	return s.state == Following && s.awaiting == nil && s.start.bound.Known && s.cursor.Proof != Untrusted && s.cursor.Proof != ProofUnknown
}

// stand goes on with a pending rank on a new connection.
func (s *rankState) stand() {
	if !s.boots {
		s.askOrigin()
		return
	}
	s.owe(OwedBoot)
}

// holds tells whether a batch must wait although nothing of the stream was applied.
func (s *rankState) holds() bool { return s.question.open || s.boots && s.state == Pending }

// begun books that a stream begins with a batch.
func (s *rankState) begun(b *kvevents.Batch) {
	if s.owed.Kind == OwedBoot || s.owed.Kind == OwedGapRetry {
		s.unowe()
	}
	if b.Seq == cursor.OriginSeq {
		s.settle(OutcomeFromOrigin)
	}
}

// settle records how the rank came by its state, once in a life of its engine.
func (s *rankState) settle(o Outcome) {
	if s.boots && s.outcome == OutcomeNone {
		s.outcome = o
		s.tally.Outcomes[o]++
	}
}

// fail ends the looking for a section: the stream begins with what is held, or with the next batch.
func (s *rankState) fail(o Outcome, why string) {
	if o == OutcomeNone {
		o = OutcomeAbandoned
	}
	s.closeQuestion()
	s.unowe()
	held := s.held.take()
	s.settle(o)
	s.become(Cold, o.String()+": "+why)
	s.again(held)
}

// wipe drops what the rank has of its stream, but not what is held.
func (s *rankState) wipe() {
	s.prove(ProofUnknown)
	s.do(clearAll{})
	s.cursor, s.awaiting, s.audit = Cursor{}, nil, audit{}
	s.seeded, s.walkedTo = "", 0
}

// endBoot ends a life's part in all this.
func (s *rankState) endBoot() {
	pending := s.boots && s.state == Pending && s.epoch != 0
	if s.awaiting != nil || s.repair.splice != nil || pending && s.owed.Kind != 0 && s.heard {
		s.settle(OutcomePublisherReset)
	}
	s.unowe()
	s.outcome, s.verdict, s.retried, s.healed, s.heard = OutcomeNone, OutcomeNone, false, false, false
	s.awaiting, s.repair, s.audit = nil, repairing{}, audit{}
	s.seeded, s.walkedTo = "", 0
}

// abandoned says that nobody looks any more for what is owed.
type abandoned struct {
	epoch uint64
	why   AbandonWhy
}

func (m abandoned) tell(s *rankState) {
	if s.owed.Kind == 0 || m.epoch != s.owed.Epoch {
		return
	}
	switch s.owed.Kind {
	case OwedBoot, OwedGapRetry:
		s.abandonBoot(m.why)
	case OwedRepair:
		s.expireRepair(m.why.String())
	case OwedHeal:
		s.unowe()
	}
}

// abandonBoot leaves pending: the engine is asked for everything if it repeats (H7).
func (s *rankState) abandonBoot(why AbandonWhy) {
	if s.epoch == 0 && why != AbandonTimedOut {
		return // once a connection stands the engine can be asked: the obligation remains
	}
	verdict := OutcomeAbandoned
	if why == AbandonUncovered {
		verdict = OutcomeUncovered
	}
	if s.epoch == 0 || !s.replays {
		s.fail(verdict, why.String())
		return
	}
	s.unowe()
	s.verdict = verdict
	s.askOrigin()
	if why == AbandonTimedOut {
		s.deadline = s.now.Add(proveFor)
	}
}

// keep has a rank that is owed a Heal keep copies of what it applies (H11).
type keep struct{ epoch uint64 }

func (m keep) tell(s *rankState) {
	if s.owed.Kind != OwedHeal || m.epoch != s.owed.Epoch || s.keeping {
		return
	}
	s.startKeeping(keepFor)
}

func (s *rankState) startKeeping(d time.Duration) {
	s.keeping, s.keepTill = true, s.now.Add(d)
	s.owed.Since, s.owed.Cursor = s.now, s.cursor
}

func (s *rankState) stopKeeping() {
	for _, b := range s.kept.take() {
		s.discard(b)
	}
	s.keeping = false
}

// apply has a batch applied, and keeps it if a graft may need it. Without room the attempt is over.
func (s *rankState) apply(b *kvevents.Batch) {
	if s.keeping && (s.tight || s.kept.full(b)) {
		s.tally.Overflows++
		s.expireRepair(howOverflow.String())
	}
	s.do(apply{batch: b, keep: s.keeping})
	if s.keeping {
		s.kept.add(b)
	}
}

// expire ends by the clock what the pump does not wait for any longer.
func (s *rankState) expire() {
	switch at := s.owed.Deadline; {
	case s.owed.Kind == OwedRepair && !at.IsZero() && !s.now.Before(at):
		s.expireRepair(howTimeout.String())
	case s.keeping && s.owed.Kind == OwedHeal && !s.now.Before(s.keepTill):
		s.unowe()
	}
}

// checkOwed tells test builds what holds of obligations between two steps.
func (s *rankState) checkOwed() {
	k := s.owed.Kind
	invariant.Check(s.boots || k == 0 && s.awaiting == nil && s.state != Repairing && s.state != Cold, "%v without siblings", s.state)
	boot := k == OwedBoot || k == OwedGapRetry
	invariant.Check(!boot || s.state == Pending, "%v is owed a %v", s.state, k)
	invariant.Check(!s.boots || s.state != Pending || boot != s.question.open, "pending, owed %v, asking %v", k, s.question.open)
	invariant.Check(s.state != Repairing || (k == OwedRepair) != s.question.open, "repairing, owed %v, asking %v", k, s.question.open)
	invariant.Check(s.keeping || len(s.kept.list) == 0, "%d batches kept", len(s.kept.list))
	invariant.Check(!s.keeping || k == OwedRepair || k == OwedHeal, "keeping for %v", k)
	invariant.Check(s.awaiting == nil || s.state == Following || s.state == Proving, "%v awaits a proof", s.state)
}
