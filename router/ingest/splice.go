package ingest

import (
	"cmp"
	"math"
	"slices"

	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// How a sibling's section and the stream are spliced (peer-bootstrap 4.9, B0, H2-H5, H11): judge says whether they can
// be, grafted makes the section the rank's state. Nothing here touches an index; see graft.go.

// log gives what is kept of the stream since the obligation began.
func (s *rankState) log() []*kvevents.Batch {
	if s.keeping {
		return s.kept.list
	}
	return s.held.list
}

// judge tells whether a section may become the rank's state, as things stand now. Verdict Grafted means that it may.
func (s *rankState) judge(v *snapshot.VettedRank, epoch uint64) (GraftVerdict, GraftReason) {
	if s.owed.Kind == 0 || epoch != s.owed.Epoch {
		return GraftStale, ReasonNone
	}
	w, format1 := s.watermark(v)
	if reason := s.trusts(w, format1); reason != ReasonNone {
		return GraftRejected, reason
	}
	if s.leavesGap(w.Seq) && (format1 || !s.boot() || !s.replays) {
		return GraftGap, ReasonNone
	}
	if s.cursor.Proof != ProofUnknown && s.reach(w.Seq) < max(s.cursor.Seq, s.owed.Goal) {
		return GraftRejected, ReasonBelow
	}
	return Grafted, ReasonNone
}

// boot tells whether the obligation is that of a pending rank.
func (s *rankState) boot() bool { return s.owed.Kind == OwedBoot || s.owed.Kind == OwedGapRetry }

// watermark is the section's cursor in our terms, and whether it is one of format 1: that has no time and no start.
func (s *rankState) watermark(v *snapshot.VettedRank) (w Cursor, format1 bool) {
	w = v.Cursor
	w.Incarnation.Worker = s.worker
	return w, w.Time == 0 && w.Hash == 0 && !w.Incarnation.Start.Known
}

// trusts tells what speaks against a section: it must be of the life the connection leads to, contradict nothing that is
// held (H3, H4) and not our own cursor, and where the rank has a state already be better than that.
func (s *rankState) trusts(w Cursor, format1 bool) GraftReason {
	switch {
	case s.epoch == 0, !s.start.bound.Known:
		return ReasonUnbound
	case w.Proof == Untrusted, w.Proof == ProofUnknown:
		return ReasonUntrusted
	case !format1 && w.Incarnation.Start != s.start.bound:
		return ReasonOtherIncarnation
	case s.cursor.Proof != ProofUnknown && w.Contradicts(s.cursor):
		return ReasonOtherIncarnation
	}
	log := s.log()
	for _, b := range log {
		if (Cursor{}).At(b).Contradicts(w) {
			return ReasonOtherIncarnation
		}
	}
	switch {
	case format1 && !s.boot():
		return ReasonWeak
	case format1 && (len(log) == 0 || w.Seq > log[len(log)-1].Seq+maxHeldBatches):
		return ReasonUnheld
	case s.boot(), s.cursor.Proof == ProofUnknown:
	case w.Proof != Origin && w.Proof != Proven, w.Partial && (s.owed.Kind == OwedHeal || !s.cursor.Partial):
		return ReasonWeak
	}
	return ReasonNone
}

// leavesGap tells whether batches are missing between a watermark and what is held.
func (s *rankState) leavesGap(watermark int64) bool {
	log := s.log()
	return watermark == math.MaxInt64 || len(log) > 0 && log[0].Seq > watermark+1
}

// reach gives the seq that a section comes to with what is kept.
func (s *rankState) reach(seq int64) int64 {
	for _, b := range s.log() {
		if b.Seq == seq+1 {
			seq++
		}
	}
	return seq
}

// beyond gives the kept batch that follows a seq, nil if there is none.
func (s *rankState) beyond(seq int64) *kvevents.Batch {
	log := s.log() // ascending
	at, ok := slices.BinarySearchFunc(log, seq+1, func(b *kvevents.Batch, seq int64) int { return cmp.Compare(b.Seq, seq) })
	if !ok {
		return nil
	}
	return log[at]
}

// graftedAt gives the cursor a rank has with a section, before anything that is kept is applied to it.
func (s *rankState) graftedAt(v *snapshot.VettedRank) Cursor {
	w, format1 := s.watermark(v)
	w.Incarnation.Start = s.start.bound
	w.Proof = w.Proof.Weaker(Proven)
	overlap := s.cursor.Proof != ProofUnknown && s.cursor.Seq == w.Seq
	for _, b := range s.log() {
		overlap = overlap || b.Seq == w.Seq
	}
	if format1 || !w.Incarnation.Start.Named() && !overlap && (len(s.log()) > 0 || s.cursor.Proof != ProofUnknown) {
		w.Proof = w.Proof.Weaker(Unwitnessed) // adjacency proves nothing without an identity (H5)
	}
	return w
}

// grafted makes a section, with what was kept and follows it, the rank's state. The index has it already.
type grafted struct {
	section *snapshot.VettedRank
	at      Cursor // reached
}

func (m grafted) tell(s *rankState) {
	kind, log := s.owed.Kind, s.log()
	fresh := s.cursor.Proof == ProofUnknown
	s.closeQuestion()
	held := s.held.take()
	s.seeded, s.walkedTo, s.audit = m.section.SeededFrom, m.section.WalkedTo, audit{}
	s.healed = kind == OwedHeal && fresh
	awaits := fresh && (len(log) == 0 || s.leavesGap(m.section.Cursor.Seq) || len(held) > 0 && held[0].Seq > m.at.Seq+1)
	epoch := s.owed.Epoch
	s.prove(m.at.Proof)
	s.cursor = m.at
	s.become(Following, "a sibling's section, "+kind.String())
	switch {
	case awaits:
		s.awaiting = &Awaiting{Epoch: epoch, Watermark: m.at, Since: s.now, SeededFrom: m.section.SeededFrom}
	case fresh:
		s.settle(s.warmth())
	case kind == OwedRepair:
		s.tally.Repairs[RepairGraft]++
	}
	if kind == OwedHeal {
		s.tally.Heals++
	}
	s.unowe()
	for len(held) > 0 && held[0].Seq <= m.at.Seq {
		s.discard(held[0])
		held = held[1:]
	}
	s.again(held)
}

// unspliced says that a section leaves a hole that nobody can fill: a pending rank tries once more.
type unspliced struct{ epoch uint64 }

func (m unspliced) tell(s *rankState) {
	if s.boot() && m.epoch == s.owed.Epoch {
		s.unowe()
		s.failSplice("the section ends before what is held")
	}
}

// refused says that the index has no room for the rank.
type refused struct{ epoch uint64 }

func (m refused) tell(s *rankState) {
	if s.boot() && m.epoch == s.owed.Epoch {
		s.fail(OutcomeTreeRejected, "the index has no room")
	}
}
