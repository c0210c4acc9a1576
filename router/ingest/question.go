package ingest

import (
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

// ask has the engine repeat its batches from a seq on.
func (s *rankState) ask(from int64, wait time.Duration) {
	s.question.gen++
	s.question.open = true
	s.do(askReplay{s.question.gen, from, wait})
}

// closeQuestion ends what is being asked; an answer that comes all the same is dropped.
func (s *rankState) closeQuestion() {
	if s.question.open {
		s.do(dropReplay{s.question.gen})
	}
	s.question = question{gen: s.question.gen}
	s.deadline = time.Time{}
}

// askOrigin asks a pending rank's engine for all it said, if it can repeat. Only now that a connection stands (H7).
func (s *rankState) askOrigin() {
	if !s.replays {
		return
	}
	s.question.origin = true
	s.deadline = s.now.Add(pendFor)
	s.ask(cursor.OriginSeq, 0)
}

// originAnswer takes a replay from 0. It is the stream's origin if it begins at 0 and is dense, equal to every held batch
// it overlaps, and overlaps one if there is one (H7): then it is of the process the connection leads to.
func (s *rankState) originAnswer(r *kvevents.ReplayResult) {
	n := len(r.Batches)
	switch {
	case n == 0 && r.Ending == kvevents.Complete && len(s.held.list) == 0:
		s.closeQuestion()
		s.question.empty = true // the engine has said nothing yet
		if s.boots {
			s.become(Cold, "the engine has said nothing yet")
		}
		return
	case n > 0 && (r.Batches[0].Seq != cursor.OriginSeq || !r.Dense):
		s.giveUpOrigin("the replay does not reach back to the first batch")
		return
	}
	overlap, same := s.overlap(r.Batches)
	switch {
	case !same:
		s.giveUpOrigin("the replay is of another life")
	case overlap:
		s.acceptOrigin(r)
	case len(s.held.list) > 0 && r.Ending == kvevents.Complete && s.question.tries < maxOriginTries:
		s.question.tries++
		s.ask(cursor.OriginSeq, askOriginAgain)
	case len(s.held.list) > 0 || n == 0 || r.Ending != kvevents.Complete:
		s.giveUpOrigin("replay " + r.Ending.String())
	default:
		s.acceptOrigin(r)
	}
}

// overlap tells whether a dense replay from 0 repeats a held batch, and whether all it repeats are the same.
func (s *rankState) overlap(batches []kvevents.Replayed) (overlap, same bool) {
	for _, h := range s.held.list {
		if h.Seq < int64(len(batches)) {
			if batches[h.Seq].Hash != h.Hash {
				return true, false
			}
			overlap = true
		}
	}
	return overlap, true
}

func (s *rankState) acceptOrigin(r *kvevents.ReplayResult) {
	held := s.held.take()
	batches := r.Batches
	r.Batches = nil
	for i, b := range batches {
		if i == 0 {
			s.begin(b.Batch)
		} else {
			s.take(b.Batch)
		}
	}
	s.again(held)
}

// giveUpOrigin ends the asking of a pending rank: its stream begins with what is held, or with the next batch.
func (s *rankState) giveUpOrigin(why string) {
	if s.boots && s.state == Pending {
		s.fail(s.verdict, why)
		return
	}
	s.closeQuestion()
	held := s.held.take()
	s.do(noted{"the stream's origin is out of reach", why})
	s.again(held)
}

// askContinuity asks, after a reconnect, whether the stream goes on: a replay from the cursor, beside the start that is
// asked on every connection. The first to answer decides (B5).
func (s *rankState) askContinuity() {
	s.deadline = s.now.Add(proveFor)
	if s.replays {
		s.ask(s.cursor.Seq, 0)
	} else {
		s.question.muteReplay = true
	}
}

// continuityAnswer takes a replay from the cursor. A process that published the cursor's batch still keeps it: another in
// its place, or none although the answer is complete, is another process. An answer that begins above the cursor, or
// breaks off before it begins, says nothing. A start that has said the contrary does not count against the stream itself.
func (s *rankState) continuityAnswer(r *kvevents.ReplayResult) {
	for len(r.Batches) > 0 && r.Batches[0].Seq < s.cursor.Seq { // more than was asked for
		s.discard(r.Batches[0].Batch)
		r.Batches = r.Batches[1:]
	}
	switch {
	case len(r.Batches) == 0 && r.Ending == kvevents.Complete:
		s.restartHeld(HowReplay)
	case len(r.Batches) == 0 || r.Batches[0].Seq > s.cursor.Seq:
		s.question.muteReplay = true
		s.nobodyLeft()
	case !s.cursor.Repeats(r.Batches[0].Batch):
		s.restartHeld(HowReplay)
	default:
		s.proveSplice(true)
		s.takeMissed(r)
		s.resume(repeated)
	}
}

// takeMissed applies what a replay repeats after the cursor's batch, as far as it is dense.
func (s *rankState) takeMissed(r *kvevents.ReplayResult) {
	rest := r.Batches
	for len(rest) > 0 && rest[0].Seq <= s.cursor.Seq+1 {
		if rest[0].Seq <= s.cursor.Seq {
			s.discard(rest[0].Batch)
		} else {
			s.take(rest[0].Batch)
		}
		rest = rest[1:]
	}
	r.Batches = rest // released by the caller
}

// restartHeld restarts with what is held: all of the present connection, so of the new life.
func (s *rankState) restartHeld(how How) { s.restartWith(how, s.held.take()) }

// nobodyLeft goes on when neither replay nor start have anything to say.
func (s *rankState) nobodyLeft() {
	q := &s.question
	switch {
	case q.continued:
		s.resume(sameStart)
	case q.muteReplay && q.muteStart:
		s.endProof(howSilent)
	}
}

// askForStart asks for the engine's start under the present connection.
func (s *rankState) askForStart() {
	s.start.askAt = time.Time{}
	s.do(askStart{s.epoch})
}

// startBound goes on when the start was the same before and after the connection was opened: it is that of the process
// the connection leads to.
func (s *rankState) startBound() {
	mine, now := s.cursor.Incarnation.Start, s.start.bound
	switch {
	case s.state == Following || s.state == Repairing:
		s.cursor.Incarnation.Start = now
	case s.state != Proving:
	case !mine.Named() || !now.Named():
		s.question.muteStart = true
		s.nobodyLeft()
	case mine.ID != now.ID:
		s.restartHeld(HowStart)
	case s.question.open: // continues; what was missed meanwhile may still come
		s.question.continued = true
		s.nothingMissed()
	default:
		s.resume(sameStart)
	}
}

// startDiffers goes on when the start was not the same before and after: the engine restarted while the connection was
// being opened, and nobody can tell to which process it leads. It is opened anew.
func (s *rankState) startDiffers() {
	st := &s.start
	if st.flips++; st.flips > maxStartFlips {
		if st.flips == maxStartFlips+1 {
			s.do(noted{"the engine's start is another at every question: it is not used", HowStart.String()})
		}
		st.flips = maxStartFlips + 1
		st.bound = Start{Known: true}
		s.startBound()
		return
	}
	if s.state == Proving {
		s.endLife(HowStart)
	}
	s.hangUp(HowStart)
}
