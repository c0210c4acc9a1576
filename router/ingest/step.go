package ingest

import (
	"time"

	"github.com/routerfleet/routerfleet/internal/invariant"
	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

// The transitions of a rank, one method a message; the table is in doc.go. A message that names an epoch or a generation
// other than the present one is of the past.

func (m registered) tell(s *rankState) {
	s.replays = m.replays
	if m.start.Known {
		s.start.before = m.start
	}
	if s.state == StateUnknown {
		s.become(Pending, "registered")
	}
}

func (m opened) tell(s *rankState) {
	if s.state == StateUnknown {
		return
	}
	if s.epoch != 0 {
		s.lose("a newer connection")
	}
	s.epoch = m.epoch
	s.start.pause = 0
	s.askForStart()
	switch s.state {
	case Pending:
		s.stand()
	case Cold:
		s.askOrigin()
	case Proving:
		s.askContinuity()
	}
}

func (m closed) tell(s *rankState) {
	if m.epoch == s.epoch && s.epoch != 0 {
		s.lose("connection lost")
	}
}

func (m arrived) tell(s *rankState) {
	if m.epoch != s.epoch || s.epoch == 0 {
		s.tally.Late++
		s.discard(m.batch)
		return
	}
	s.tight, s.heard = m.tight, true
	s.batch(m.batch, m.tight)
}

func (m ended) tell(s *rankState) {
	if m.epoch == s.epoch && s.epoch != 0 {
		s.restart(HowEndSeq, nil)
	}
}

func (m replayed) tell(s *rankState) {
	q := &s.question
	if !q.open || m.gen != q.gen {
		s.discardReplay(m.result)
		return
	}
	q.open = false
	switch s.state {
	case Pending, Cold:
		s.originAnswer(m.result)
	case Proving:
		s.continuityAnswer(m.result)
	case Repairing:
		s.repairAnswer(m.result)
	case Following:
		s.tailAnswer(m.result)
	}
	s.discardReplay(m.result)
}

func (m identified) tell(s *rankState) {
	if m.epoch != s.epoch || s.epoch == 0 {
		return
	}
	st := &s.start
	switch {
	case !m.start.Known:
		st.pause = min(max(2*st.pause, startPause), maxStartPause)
		st.askAt = s.now.Add(st.pause)
	case st.before == m.start, !st.before.Known && m.start.ID == "":
		st.before, st.bound, st.flips = m.start, m.start, 0
		s.startBound()
	default:
		st.before = m.start
		s.startDiffers()
	}
}

func (relocated) tell(s *rankState) {
	if s.state == StateUnknown {
		return
	}
	s.start.before = Start{}
	if s.epoch != 0 {
		s.lose("subscribed elsewhere")
	}
	s.endLife(HowSettings)
}

func (tick) tell(s *rankState) {
	if at := s.start.askAt; !at.IsZero() && !s.now.Before(at) && s.epoch != 0 {
		s.askForStart()
	}
	s.expire()
	if s.deadline.IsZero() || s.now.Before(s.deadline) {
		return
	}
	switch s.state {
	case Pending, Cold:
		s.giveUpOrigin(howTimeout.String())
	case Proving:
		s.endProof(howTimeout)
	case Repairing:
		s.seekSection(howTimeout.String())
	case Following:
		s.tailUnanswered(howTimeout.String())
	}
}

func (forget) tell(s *rankState) {
	s.closeQuestion()
	s.dropHeld()
	s.unowe()
	s.awaiting = nil
	s.epoch = 0
	s.become(Forgotten, "forgotten")
	s.do(drop{})
}

// batch takes a live batch of the present connection.
func (s *rankState) batch(b *kvevents.Batch, tight bool) {
	switch s.state {
	case Pending, Cold:
		s.pend(b, tight)
	case Repairing:
		s.holdInGap(b, tight)
	case Following:
		s.follow(b)
	case Proving:
		s.wait(b, tight)
	default:
		s.discard(b)
	}
}

// again hands batches that were held to the state there is now.
func (s *rankState) again(held []*kvevents.Batch) {
	for _, b := range held {
		if s.epoch == 0 { // one of them had the connection redialled
			s.tally.Lost++
			s.discard(b)
			continue
		}
		s.batch(b, false)
	}
}

// pend takes a batch before any was applied: the first of all begins the stream, others wait while a replay from 0 is
// being asked, or begin it in the middle.
func (s *rankState) pend(b *kvevents.Batch, tight bool) {
	if n := len(s.held.list); n > 0 {
		switch tail := (Cursor{}).At(s.held.list[n-1]); tail.Place(b) {
		case cursor.PlaceDuplicate:
			s.tally.Duplicates++
			s.discard(b)
			return
		case cursor.PlaceRestart:
			s.restart(HowRegress, b)
			return
		}
	}
	switch q := &s.question; {
	case len(s.held.list) == 0 && b.Seq != cursor.OriginSeq && q.empty:
		s.closeQuestion()
		s.askOrigin() // by now there is something to repeat
		s.held.add(b)
	case len(s.held.list) == 0 && (b.Seq == cursor.OriginSeq || !s.holds()):
		s.begin(b)
	case tight || s.held.full(b):
		s.tally.Overflows++
		s.verdict = OutcomeOverflow
		s.giveUpOrigin(howOverflow.String())
		s.batch(b, false)
	default:
		s.held.add(b)
	}
}

// begin starts a stream with its first known batch.
func (s *rankState) begin(b *kvevents.Batch) {
	s.closeQuestion()
	s.cursor = Cursor{Incarnation: Incarnation{Worker: s.worker, Start: s.start.bound}, Proof: Proven, Partial: true}
	why := "joined in mid-stream"
	if b.Seq == cursor.OriginSeq {
		s.cursor.Proof, s.cursor.Partial = Origin, false
		s.tally.Origins++
		why = "the stream's origin"
	}
	s.begun(b)
	s.become(Following, why)
	s.take(b)
}

// follow takes a batch beside a cursor.
func (s *rankState) follow(b *kvevents.Batch) {
	at := s.cursor.Place(b)
	if at == cursor.PlaceStale && s.pardoned {
		if at = cursor.PlaceNext; b.Seq > s.cursor.Seq+1 {
			at = cursor.PlaceGap
		}
	}
	switch at {
	case cursor.PlaceDuplicate:
		s.tally.Duplicates++
		if b.Seq == s.cursor.Seq {
			s.proveSplice(true)
		}
		s.discard(b)
	case cursor.PlaceRestart:
		s.restart(HowRegress, b)
	case cursor.PlaceStale:
		s.discard(b)
		s.hangUp(howStale)
		s.pardoned = true
	case cursor.PlaceGap:
		s.gap(b)
	default:
		s.proveSplice(false)
		s.overGap(b)
		s.take(b)
	}
}

// gap takes a batch beyond the next one.
func (s *rankState) gap(b *kvevents.Batch) {
	if s.boots {
		s.openRepair(b)
		return
	}
	s.overGap(b)
	s.take(b)
}

// overGap books the hole before b, if there is one: it is applied over, and the rank is not trusted until it says
// everything anew (peer-bootstrap B4 (3)).
func (s *rankState) overGap(b *kvevents.Batch) {
	if s.bookGap(b) {
		s.distrustGap()
	}
}

// bookGap counts the hole before b, and tells whether there is one.
func (s *rankState) bookGap(b *kvevents.Batch) bool {
	missing := b.Seq - s.cursor.Seq - 1
	if missing <= 0 {
		return false
	}
	s.tally.Gaps++
	s.tally.Missing += uint64(missing)
	if s.cursor.Time != 0 && b.Time.Sub(s.cursor.Time) > blindAfter {
		s.tally.BlindTails++
	}
	return true
}

func (s *rankState) distrustGap() {
	if s.cursor.Proof != Untrusted {
		s.do(noted{"batches are missing: the rank is not trusted", "gap"})
	}
	s.prove(Untrusted)
}

// take applies a batch and moves the cursor. A clear makes whole what was partial or not trusted; a batch that was not
// understood in full does the contrary, whichever came first in it.
func (s *rankState) take(b *kvevents.Batch) {
	s.tally.Batches++
	s.pardoned = false
	if b.Untrusted() {
		s.tally.Damaged++
		if s.cursor.Proof != Untrusted {
			s.do(noted{"a batch was not understood: the rank is not trusted", "damaged"})
		}
	}
	after := applied(s.cursor, b)
	if b.Untrusted() {
		s.prove(Untrusted)
	}
	s.apply(b)
	s.prove(after.Proof)
	s.cursor = after
	if clears(b) {
		s.audit = audit{}
	}
}

// applied gives the cursor behind a batch.
func applied(c Cursor, b *kvevents.Batch) Cursor {
	c = c.At(b)
	whole, damaged := clears(b), b.Untrusted()
	if damaged {
		c.Proof = Untrusted
	}
	if whole {
		c.Partial = false
		if c.Proof != Origin && !damaged {
			c.Proof = Proven
		}
	}
	return c
}

// clears tells whether a batch says that the rank holds nothing but what the batch says afterwards.
func clears(b *kvevents.Batch) bool {
	for _, e := range b.Events {
		if _, ok := e.(*kvevents.Cleared); ok {
			return true
		}
	}
	return false
}

// wait takes a batch while continuity is being asked. A restart shows itself all the same.
func (s *rankState) wait(b *kvevents.Batch, tight bool) {
	if s.holdBack(b, tight, func() { s.endProof(howOverflow) }) {
		s.nothingMissed()
	}
}

// holdBack keeps a batch until something is decided, and tells whether it did: a batch that shows a restart, is known
// already or is stale is dealt with at once. Without room, giveUp decides, and the batch is taken by what is left.
func (s *rankState) holdBack(b *kvevents.Batch, tight bool, giveUp func()) (kept bool) {
	switch at := s.placeHeld(b); {
	case at == cursor.PlaceDuplicate:
		s.tally.Duplicates++
		s.discard(b)
	case at == cursor.PlaceRestart:
		s.restart(HowRegress, b)
	case at == cursor.PlaceStale && !s.pardoned:
		s.discard(b)
		s.hangUp(howStale)
		s.pardoned = true
	case tight || s.held.full(b):
		s.tally.Overflows++
		giveUp()
		s.batch(b, false)
	default:
		s.held.add(b)
		return true
	}
	return false
}

// placeHeld gives where a batch lies to the cursor and to the last batch that is held.
func (s *rankState) placeHeld(b *kvevents.Batch) cursor.Place {
	at := s.cursor.Place(b)
	if n := len(s.held.list); n > 0 && at != cursor.PlaceDuplicate && at != cursor.PlaceRestart {
		if tail := (Cursor{}).At(s.held.list[n-1]).Place(b); tail == cursor.PlaceDuplicate || tail == cursor.PlaceRestart {
			return tail
		}
	}
	return at
}

// nothingMissed ends a proof that only waited for what might have been missed, when the next batch shows that nothing was.
func (s *rankState) nothingMissed() {
	if s.question.continued && len(s.held.list) > 0 && s.held.list[0].Seq == s.cursor.Seq+1 {
		s.resume(sameStart)
	}
}

// resume goes on with the stream.
func (s *rankState) resume(why string) {
	s.closeQuestion()
	if s.start.bound.Known { // a cursor that began before the start was known takes it now
		s.cursor.Incarnation.Start = s.start.bound
	}
	s.become(Following, why)
	s.again(s.held.take())
}

// endProof ends the asking without an answer: what was held is applied, and not trusted.
func (s *rankState) endProof(how How) {
	if s.question.continued {
		s.resume(sameStart)
		return
	}
	s.tally.Doubts++
	s.prove(Untrusted)
	s.giveUpSplice()
	s.resume("goes on, not trusted: " + how.String())
}

// restart goes on with a new life of the engine. first is the batch that showed it, if one did: it alone is known to be
// of the new life.
func (s *rankState) restart(how How, first *kvevents.Batch) {
	var keep []*kvevents.Batch
	if first != nil {
		keep = []*kvevents.Batch{first}
	}
	s.restartWith(how, keep)
}

// restartWith goes on with a new life of the engine, on the present connection, with batches that are of that life.
func (s *rankState) restartWith(how How, keep []*kvevents.Batch) {
	s.endLife(how)
	if how != HowStart {
		s.start.bound = Start{}
		s.askForStart()
	}
	// A publisher that says it ends still answers with what it said before.
	if !s.boots && how != HowEndSeq && (len(keep) == 0 || keep[0].Seq != cursor.OriginSeq) {
		s.askOrigin()
	}
	s.again(keep)
}

// endLife drops all that the engine said.
func (s *rankState) endLife(how How) {
	s.closeQuestion()
	s.dropHeld()
	if s.state != Pending {
		s.tally.Restarts[how]++
		s.prove(ProofUnknown)
		s.do(clearAll{})
	}
	s.endBoot()
	s.cursor, s.pardoned = Cursor{}, false
	s.become(Pending, "restart by "+how.String())
}

// lose ends the connection: held batches belong to it alone (H1), answers to it are void.
func (s *rankState) lose(why string) {
	s.closeQuestion()
	s.dropHeld()
	s.unowe()
	s.epoch = 0
	s.start.bound, s.start.askAt = Start{}, time.Time{}
	switch s.state {
	case Following:
		s.become(Proving, why)
	case Repairing:
		s.awaiting, s.repair.splice = s.repair.splice, nil
		s.become(Proving, why)
	}
}

// hangUp closes the connection and has another opened.
func (s *rankState) hangUp(why How) {
	s.tally.Redials++
	s.do(redial{s.epoch, why})
	s.lose("redialled: " + why.String())
}

func (s *rankState) dropHeld() {
	for _, b := range s.held.take() {
		s.tally.Lost++
		s.discard(b)
	}
}

// check tells test builds what holds between two steps.
func (s *rankState) check() {
	if !invariant.Enabled {
		return
	}
	asks, holds := s.question.open, len(s.held.list)
	invariant.Check(holds == 0 || s.state == Proving || s.state == Repairing || s.state == Pending || s.state == Cold && asks,
		"%v holds %d batches", s.state, holds)
	invariant.Check(holds <= maxHeldBatches && len(s.kept.list) <= maxHeldBatches, "%d batches held, %d kept", holds, len(s.kept.list))
	invariant.Check(s.epoch != 0 || (holds == 0 && !asks), "held or asking without a connection")
	invariant.Check(!asks || s.state != Following || s.question.tail || s.question.whole, "%v asks for a replay", s.state)
	invariant.Check(s.state != Following || s.cursor.Proof != ProofUnknown, "following without a proof")
	s.checkOwed()
}
