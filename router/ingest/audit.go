package ingest

import (
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

// What comparing a rank with siblings finds (peer-bootstrap B7, H9, H10).

// audit is what audits said of a rank.
type audit struct {
	suspect bool
	// behind is the cursor a sibling was found ahead of, and when.
	behind Cursor
	at     time.Time
}

// suspected says that the rank differs from siblings at a cursor.
type suspected struct {
	at  Cursor
	why Suspicion
	// repair says that an audit's repair may begin now; there are few a minute.
	repair bool
}

func (m suspected) tell(s *rankState) {
	if !s.comparable(m.at) {
		return
	}
	if !s.audit.suspect {
		s.do(noted{"the rank's blocks are not those of its siblings", m.why.String()})
	}
	s.audit.suspect = true
	switch {
	case !m.repair || s.now.Before(s.repair.cool):
	case m.why != SuspectAlone:
		s.oweTee(0)
	case s.replays:
		s.unowe()
		s.question.whole = true
		s.deadline = s.now.Add(proveFor)
		s.ask(cursor.OriginSeq, 0)
	}
}

// wholeAnswer rebuilds the rank from all its engine said, if that reaches back to the first batch and repeats the cursor's
// own; the sibling may be the one that is wrong.
func (s *rankState) wholeAnswer(r *kvevents.ReplayResult) {
	s.closeQuestion()
	at := s.cursor.Seq
	if int64(len(r.Batches)) <= at || !s.cursor.Repeats(r.Batches[at].Batch) {
		return
	}
	for i, b := range r.Batches[:at+1] {
		if b.Seq != int64(i) {
			return
		}
	}
	s.do(noted{"the rank is rebuilt from its engine's replay", "audit"})
	id := s.cursor.Incarnation
	s.wipe()
	s.cursor = Cursor{Incarnation: id, Seq: cursor.OriginSeq - 1, Proof: Origin}
	s.tally.Repairs[RepairReplay]++
	s.takeMissed(r)
}

// oweTee begins a repair of a rank without a gap: it goes on, and keeps copies (H11).
func (s *rankState) oweTee(goal int64) {
	s.owe(OwedRepair)
	s.startKeeping(repairFor)
	s.owed.Goal, s.owed.Deadline = goal, s.now.Add(repairFor)
}

// comparable tells whether a word about a cursor is about the rank as it stands.
func (s *rankState) comparable(at Cursor) bool {
	return s.boots && s.state == Following && s.awaiting == nil && s.owed.Kind != OwedRepair && !s.question.open &&
		at.Seq == s.cursor.Seq && !at.Contradicts(s.cursor)
}

// equalled says that the rank equals a sibling at a cursor: what an audit suspected is over.
type equalled struct{ at Cursor }

func (m equalled) tell(s *rankState) {
	if s.state == Following && m.at.Seq == s.cursor.Seq && !m.at.Contradicts(s.cursor) {
		if s.audit.suspect {
			s.do(noted{"the rank's blocks are those of a sibling again", "equal"})
		}
		s.audit.suspect = false
	}
}

// outrun says that a sibling is ahead of the rank's cursor. Found twice while the cursor does not move it is a gap that no
// batch shows (H9).
type outrun struct{ at, sibling Cursor }

func (m outrun) tell(s *rankState) {
	if !s.comparable(m.at) || m.sibling.Seq <= s.cursor.Seq {
		return
	}
	m.sibling.Incarnation.Worker = s.worker
	if cursor.Relate(s.cursor, m.sibling) != cursor.OneLife {
		return
	}
	again := s.audit.behind.Seq == s.cursor.Seq && s.audit.behind.Time == s.cursor.Time && !s.audit.at.IsZero()
	if !again || s.now.Sub(s.audit.at) < auditsApart {
		if !again {
			s.audit.behind, s.audit.at = s.cursor, s.now
		}
		return
	}
	s.audit.behind, s.audit.at = m.sibling, time.Time{}
	s.tally.Tails++
	s.do(noted{"a sibling has heard more: the tail is lost", "audit"})
	s.seekTail(m.sibling.Seq)
}

// seekTail asks the engine to repeat what comes after the cursor, then siblings. The rank goes on meanwhile.
func (s *rankState) seekTail(goal int64) {
	if !s.replays {
		s.oweTee(goal)
		return
	}
	s.unowe()
	s.question.tail = true
	s.deadline = s.now.Add(proveFor)
	s.ask(s.cursor.Seq, 0)
}

// tailAnswer takes what the engine repeats.
func (s *rankState) tailAnswer(r *kvevents.ReplayResult) {
	if s.question.whole {
		s.wholeAnswer(r)
		return
	}
	if !s.fills(r) {
		s.tailUnanswered("replay " + r.Ending.String())
		return
	}
	s.tally.Repairs[RepairReplay]++
	s.takeMissed(r)
	s.closeQuestion()
}

// tailUnanswered goes on to siblings, unless the stream has gone on.
func (s *rankState) tailUnanswered(why string) {
	goal, tail := s.audit.behind.Seq, s.question.tail
	s.closeQuestion()
	if tail && goal > s.cursor.Seq {
		s.do(noted{"the engine does not repeat the lost tail", why})
		s.oweTee(goal)
	}
}
