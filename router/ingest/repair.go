package ingest

import (
	"time"

	"github.com/routerfleet/routerfleet/router/kvevents"
)

// Batches that are missing (peer-bootstrap B4): what came since is held, the engine is asked to repeat from the cursor on,
// then siblings are asked, and at last the hole is applied over and the rank not trusted. The hole behind a graft whose
// seam was not proven is filled the same way, but ends otherwise: the graft is tried once more, then given up.

// Repair is how a gap ended.
type Repair uint8

// The ways, values of the metric label how.
const (
	RepairReplay Repair = iota // the engine repeated what was missing
	RepairGraft                // a sibling's section has it
	RepairOver                 // applied over, not trusted
	repairHows
)

var repairNames = [repairHows]string{"replay", "graft", "untrusted"}

// String names the way.
func (r Repair) String() string {
	if r >= repairHows {
		return "unknown"
	}
	return repairNames[r]
}

// repairing is a rank's gap.
type repairing struct {
	until  time.Time // in all
	cool   time.Time // no other repair before
	splice *Awaiting // the gap is behind this graft
}

// openRepair begins with a batch that shows that others are missing.
func (s *rankState) openRepair(b *kvevents.Batch) {
	if s.awaiting == nil && (s.tight || s.now.Before(s.repair.cool)) {
		s.overGap(b)
		s.take(b)
		return
	}
	s.bookGap(b)
	s.held.add(b)
	s.beginRepair("batches are missing")
}

// beginRepair holds what comes from now on. What a graft that is awaited lacks is its own kind of gap.
func (s *rankState) beginRepair(why string) {
	s.closeQuestion()
	s.unowe()
	s.repair.splice, s.awaiting = s.awaiting, nil
	s.repair.until = s.now.Add(repairFor)
	s.become(Repairing, why)
	if !s.replays {
		s.seekSection("the engine does not repeat")
		return
	}
	s.deadline = s.now.Add(proveFor)
	s.ask(s.cursor.Seq, 0)
}

// holdInGap takes a batch while others are missing.
func (s *rankState) holdInGap(b *kvevents.Batch, tight bool) {
	s.holdBack(b, tight, func() { s.goOver(howOverflow.String()) })
}

// repairAnswer takes the engine's answer.
func (s *rankState) repairAnswer(r *kvevents.ReplayResult) {
	if !s.fills(r) {
		s.seekSection("replay " + r.Ending.String())
		return
	}
	if s.repair.splice != nil {
		s.awaiting, s.repair.splice = s.repair.splice, nil
		s.proveSplice(true)
	}
	s.tally.Repairs[RepairReplay]++
	s.takeMissed(r)
	s.closeQuestion()
	s.become(Following, "the engine repeated what was missing")
	s.again(s.held.take())
}

// fills tells whether a replay from the cursor is of the stream's own process and has all that is missing (H6): dense from
// the cursor to the first held batch, or beyond the cursor if none is held; repeating the cursor's batch or a held one,
// and none otherwise than it was.
func (s *rankState) fills(r *kvevents.ReplayResult) bool {
	for len(r.Batches) > 0 && r.Batches[0].Seq < s.cursor.Seq { // more than was asked for
		s.discard(r.Batches[0].Batch)
		r.Batches = r.Batches[1:]
	}
	if len(r.Batches) == 0 || r.Batches[0].Seq > s.cursor.Seq+1 {
		return false
	}
	own := false
	if first := r.Batches[0].Batch; first.Seq == s.cursor.Seq {
		if own = s.cursor.Repeats(first); !own {
			return false
		}
	}
	end, held := s.cursor.Seq, s.held.list
	for _, b := range r.Batches {
		for len(held) > 0 && held[0].Seq < b.Seq {
			held = held[1:]
		}
		if len(held) > 0 && held[0].Seq == b.Seq {
			if held[0].Hash != b.Hash {
				return false
			}
			own = true
		}
		if b.Seq == end+1 {
			end++
		}
	}
	if len(s.held.list) == 0 {
		return own && end > s.cursor.Seq
	}
	return own && end >= s.held.list[0].Seq-1
}

// seekSection asks siblings: the engine cannot help.
func (s *rankState) seekSection(why string) {
	if s.repair.splice != nil {
		s.failSplice(why)
		return
	}
	s.closeQuestion()
	s.do(noted{"the engine cannot repeat what is missing", why})
	s.owe(OwedRepair)
	s.owed.Deadline = s.repair.until
}

// expireRepair ends a repair that siblings did not help.
func (s *rankState) expireRepair(why string) {
	if s.state == Repairing {
		s.goOver(why)
		return
	}
	goal := s.owed.Goal
	if s.owed.Kind == OwedRepair {
		s.repair.cool = s.now.Add(replayCoolDown)
	}
	s.unowe()
	if goal > s.cursor.Seq { // a tail is lost, and nobody has it
		s.tally.Repairs[RepairOver]++
		s.distrustGap()
	}
}

// goOver applies what is held over the gap.
func (s *rankState) goOver(why string) {
	s.closeQuestion()
	s.unowe()
	if s.repair.splice != nil {
		s.awaiting, s.repair.splice = s.repair.splice, nil
		s.giveUpSplice()
	}
	s.repair.cool = s.now.Add(replayCoolDown)
	s.tally.Repairs[RepairOver]++
	s.become(Following, "goes on over a gap, not trusted: "+why)
	s.distrustGap()
	held := s.held.take()
	if len(held) > 0 && held[0].Seq > s.cursor.Seq {
		s.take(held[0]) // the gap before it is booked already
		held = held[1:]
	}
	s.again(held)
}

// proveSplice ends the waiting for the proof of a graft's seam, if there is one. Without an identity only an overlap proves
// it (H5).
func (s *rankState) proveSplice(overlap bool) {
	if s.awaiting == nil {
		return
	}
	s.awaiting = nil
	if !overlap && !s.cursor.Incarnation.Start.Named() {
		s.prove(s.cursor.Proof.Weaker(Unwitnessed))
	}
	s.settle(s.warmth())
}

// warmth is the outcome of a graft with the proof the cursor has.
func (s *rankState) warmth() Outcome {
	if s.cursor.Proof == Unwitnessed || s.cursor.Proof == Untrusted {
		return OutcomeWarmUnwitnessed
	}
	return OutcomeWarm
}

// giveUpSplice ends the waiting without a proof.
func (s *rankState) giveUpSplice() {
	if s.awaiting != nil {
		s.awaiting = nil
		s.prove(s.cursor.Proof.Weaker(Unwitnessed))
		s.settle(OutcomeWarmUnwitnessed)
	}
}

// failSplice ends a graft with a hole behind it: once it is tried anew, with what is held. One that healed a rank that
// had been given up is applied over (H13).
func (s *rankState) failSplice(why string) {
	if s.healed {
		s.goOver(why)
		return
	}
	s.repair.splice = nil
	s.closeQuestion()
	s.wipe()
	if s.retried {
		s.fail(OutcomeGap, "batches are missing at the seam again: "+why)
		return
	}
	s.retried = true
	s.become(Pending, "batches are missing at the seam: "+why)
	s.owe(OwedGapRetry)
}

// witnessed is what siblings said of a graft that is awaited.
type witnessed struct {
	epoch     uint64
	watermark Cursor
	word      Testimony
}

func (m witnessed) tell(s *rankState) {
	a := s.awaiting
	if a == nil || s.state != Following || a.Epoch != m.epoch || a.Watermark.Seq != m.watermark.Seq || a.Watermark.Contradicts(m.watermark) {
		return
	}
	switch m.word {
	case Advanced:
		s.beginRepair("a sibling has heard more since the graft")
	case NoAdvance:
		s.proveSplice(false)
	default:
		again := *a
		again.Unknown++
		if s.awaiting = &again; again.Unknown >= maxUnknown {
			s.giveUpSplice()
		}
	}
}
