package ingest

import (
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// boot is a replica that boots beside a sibling: one engine, "w", whose batch n stores block n+1 behind block n.
type boot struct {
	*still
	sibling *still
	r       *pumped
	scheme  index.Scheme
}

func newBoot(t *testing.T) *boot { return newBootOf(t, index.SchemeSGLang) }

func newBootOf(t *testing.T, scheme index.Scheme) *boot {
	b := &boot{still: newStill(t, Options{Bootstrap: true}), scheme: scheme}
	b.r = b.join(scheme, "w", "p1")
	return b
}

// stream gives batches from one seq to another of a process.
func stream(process int, from, to int64) (out []*kvevents.Batch) {
	for seq := from; seq <= to; seq++ {
		k := 1000*process + int(seq)
		out = append(out, says(process, seq, chain(k-1, k)))
	}
	return out
}

// says is one batch of a process.
func says(process int, seq int64, events ...kvevents.Event) *kvevents.Batch {
	if s, ok := events[0].(*kvevents.Stored); ok && seq == 0 {
		s.HasParent = false
	}
	return &kvevents.Batch{Seq: seq, Time: sec(float64(1000*process) + float64(seq)), Hash: uint64(1000*process) + uint64(seq) + 1,
		Rank: kvevents.NoRank, Events: events}
}

// block is the key of the block a process's batch stores.
func block(process int, seq int64) index.Key { return index.Key(1000*process + int(seq)) }

// teaches gives a section of a sibling that heard all up to a seq.
func (b *boot) teaches(process int, to int64) *section {
	b.t.Helper()
	b.sibling = newStill(b.t, Options{})
	b.sibling.join(b.scheme, "w", startOf(process))
	b.sibling.hear("w", stream(process, 0, to)...)
	return b.sibling.teach(nil)
}

func startOf(process int) string { return "p" + string(rune('0'+process)) }

func (b *boot) hears(process int, from, to int64) { b.hear("w", stream(process, from, to)...) }

func (b *boot) wantVerdict(v offer, want GraftVerdict, why GraftReason) {
	b.t.Helper()
	if got := b.graft(v); len(got) != 1 || got[0].Verdict != want || got[0].Reason != why {
		b.t.Fatalf("verdict %+v, want %v (%v)", got, want, why)
	}
}

func (b *boot) abandon(why AbandonWhy) { b.tell(abandoned{b.r.state.owed.Epoch, why}) }

func (b *boot) tell(m message) {
	b.step(b.r, m)
	b.settle()
}

func (b *boot) witness(word Testimony) {
	a := b.r.public.Status().Awaiting
	if a == nil {
		b.t.Fatal("no proof is awaited")
	}
	b.tell(witnessed{a.Epoch, a.Watermark, word})
}

// want checks where the rank stands and that it holds just the blocks of these seqs.
func (b *boot) want(state State, outcome Outcome, cursor int64, process int, from, to int64) {
	b.t.Helper()
	st := b.r.public.Status()
	if st.State != state || st.Outcome != outcome || cursor >= 0 && st.Cursor.Seq != cursor {
		b.t.Errorf("%v, outcome %v, at %d; want %v, %v, %d", st.State, st.Outcome, st.Cursor.Seq, state, outcome, cursor)
	}
	held := b.held("w")
	for seq := from; seq <= to; seq++ {
		if held[block(process, seq)] == 0 {
			b.t.Errorf("block %d of process %d is not held", seq, process)
		}
	}
	if len(held) != int(max(0, to-from+1)) {
		b.t.Errorf("%d blocks are held, want %d: %v", len(held), max(0, to-from+1), held)
	}
	if st.State == Pending && st.Owed == nil && !b.r.state.question.open {
		b.t.Error("pending, and nobody's obligation")
	}
}

func TestPumpHoldsBatchesWhileRankPending(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 5, 7)
	b.want(Pending, OutcomeNone, -1, 1, 0, -1)
	if st := b.r.public.Status(); st.Held != 3 || st.HeldBytes == 0 || st.Owed.FirstHeld != 5 || st.Owed.Kind != OwedBoot || st.Owed.Since.IsZero() {
		t.Errorf("held %d, %d bytes; owed %+v", st.Held, st.HeldBytes, st.Owed)
	}
}

func TestPumpSplicesSnapshotThenDrainsHeldBatches(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 5, 7)
	b.wantVerdict(b.teaches(1, 4), Grafted, ReasonNone)
	b.want(Following, OutcomeWarm, 7, 1, 0, 7)
	if st := b.r.public.Status(); st.Cursor.Proof != Proven || st.Owed != nil || st.Awaiting != nil || st.SeededFrom == "" || st.Held != 0 {
		t.Errorf("%+v", st)
	}
}

func TestPumpSeededCursorFiltersAlreadyReflectedBatches(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 3, 4)
	b.hear("w", says(1, 5, gone(1002))) // the sibling heard that, and that it is stored again
	b.sibling = newStill(t, Options{})
	b.sibling.join(b.scheme, "w", "p1")
	b.sibling.hear("w", stream(1, 0, 4)...)
	b.sibling.hear("w", says(1, 5, gone(1002)), says(1, 6, chain(1001, 1002)))
	b.wantVerdict(b.sibling.teach(nil), Grafted, ReasonNone)
	b.want(Following, OutcomeWarm, 6, 1, 0, 4)
	b.hear("w", says(1, 6, chain(1001, 1002))) // late
	b.want(Following, OutcomeWarm, 6, 1, 0, 4)
}

func TestPumpGapBoundaryIsExact(t *testing.T) {
	for _, c := range []struct {
		first int64
		state State
	}{{6, Following}, {7, Pending}} {
		b := newBoot(t)
		b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
		b.hears(1, c.first, c.first)
		if st := b.r.public.Status(); st.State != c.state {
			t.Errorf("watermark 5, batch %d: %v, want %v", c.first, st.State, c.state)
		}
	}
}

func TestPumpContiguousBatchAfterGraftKeepsSnapshot(t *testing.T) {
	b := newBoot(t)
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	b.want(Following, OutcomeNone, 5, 1, 0, 5)
	if b.r.public.Status().Exportable {
		t.Error("a graft without proof of its seam is exported")
	}
	b.hears(1, 6, 6)
	b.want(Following, OutcomeWarm, 6, 1, 0, 6)
	if !b.r.public.Status().Exportable {
		t.Error("a proven rank is not exported")
	}
}

// The reference fails a rank the peer did not cover at once; here the next peer is asked (B3), and whoever asks says when
// there is none.
func TestPumpSnapshotFailsRanksThePeerDidNotCover(t *testing.T) {
	b := newBoot(t)
	other := b.join(b.scheme, "other", "p1")
	v := b.teaches(1, 5)
	b.hear("other", stream(1, 3, 4)...)
	got := b.graft(v)
	if len(got) != 2 || got[0].Verdict != GraftUncovered || got[1].Verdict != Grafted {
		t.Fatalf("%+v", got)
	}
	if other.state.owed.Kind != OwedBoot {
		t.Fatalf("owed %v", other.state.owed)
	}
	b.step(other, abandoned{other.state.owed.Epoch, AbandonUncovered})
	b.settle()
	if st := other.public.Status(); st.State != Following || st.Outcome != OutcomeUncovered || !st.Cursor.Partial || st.Cursor.Seq != 4 {
		t.Errorf("%+v", st)
	}
	b.want(Following, OutcomeNone, 5, 1, 0, 5)
}

func TestPumpDetectsDeferredSequenceGapAndRunsCold(t *testing.T) {
	b := newBoot(t)
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	b.hears(1, 8, 8)
	b.want(Pending, OutcomeNone, -1, 1, 0, -1)
	b.abandon(AbandonFleetCold)
	b.want(Following, OutcomeAbandoned, 8, 1, 8, 8)
}

func TestPumpDetectsHeldQueueSequenceGapAndRunsCold(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 8, 9)
	b.wantVerdict(b.teaches(1, 5), GraftGap, ReasonNone)
	b.want(Pending, OutcomeNone, -1, 1, 0, -1)
	b.wantVerdict(b.teaches(1, 6), GraftGap, ReasonNone)
	b.want(Following, OutcomeGap, 9, 1, 8, 9)
	if st := b.r.public.Status(); !st.Cursor.Partial || st.Owed == nil || st.Owed.Kind != OwedHeal {
		t.Errorf("partial %v, owed %+v", st.Cursor.Partial, st.Owed)
	}
}

func TestPumpAbandonBootstrapReleasesHeldBatches(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 5, 7)
	b.abandon(AbandonNoPeers)
	b.want(Following, OutcomeAbandoned, 7, 1, 5, 7)
	if used := b.opt.Budget.Used(); used != 0 {
		t.Errorf("%d bytes of the budget are lost", used)
	}
}

func TestPumpOverflowingHeldQueueAbandonsBootstrap(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 5, 5+maxHeldBatches+1)
	b.want(Following, OutcomeOverflow, 5+maxHeldBatches+1, 1, 5, 5+maxHeldBatches+1)
	if tally := b.r.state.tally; tally.Lost != 0 || tally.Batches != maxHeldBatches+2 || tally.Missing != 0 {
		t.Errorf("%+v", tally)
	}
}

func TestPumpPublisherResetWhilePendingAbandonsBootstrap(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 5, 7)
	epoch := b.r.state.owed.Epoch
	b.deliver(kvevents.Delivery{Rank: b.r.Rank, Epoch: b.epoch[b.r.Rank], Kind: kvevents.Reset})
	b.settle()
	if b.r.state.tally.Outcomes[OutcomePublisherReset] != 1 {
		t.Errorf("outcomes %v", b.r.state.tally.Outcomes)
	}
	b.want(Pending, OutcomeNone, -1, 1, 0, -1)
	if o := b.r.state.owed; o.Epoch == epoch || o.Kind != OwedBoot || len(b.r.state.held.list) != 0 {
		t.Errorf("owed %+v, %d held", o, len(b.r.state.held.list))
	}
}

func TestPumpAbandonAfterSuccessfulGraftDoesNotUndoIt(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 5, 7)
	epoch := b.r.state.owed.Epoch
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	b.tell(abandoned{epoch, AbandonTimedOut})
	b.want(Following, OutcomeWarm, 7, 1, 0, 7)
}

func TestPumpAbandonFromAStaleIncarnationIsIgnored(t *testing.T) {
	b := newBoot(t)
	epoch := b.r.state.owed.Epoch
	b.step(b.r, forget{})
	b.forget(b.r)
	b.publish()
	b.r = b.join(b.scheme, "w", "p1")
	b.hears(1, 5, 7)
	b.tell(abandoned{epoch, AbandonTimedOut})
	b.want(Pending, OutcomeNone, -1, 1, 0, -1)
	if b.r.state.owed.Epoch == epoch {
		t.Error("a rank that was registered again has the old number")
	}
}

func TestPumpResolvesARankWhoseStreamStartsAtTheOrigin(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 0, 2)
	b.want(Following, OutcomeFromOrigin, 2, 1, 0, 2)
	if st := b.r.public.Status(); st.Cursor.Proof != Origin || st.Owed != nil {
		t.Errorf("%+v", st)
	}
}

func TestPumpKeepsHoldingUnlessTheHoldBeginsAtTheOrigin(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 1, 3)
	b.want(Pending, OutcomeNone, -1, 1, 0, -1)
	if n := len(b.r.state.held.list); n != 3 {
		t.Errorf("%d held", n)
	}
}

func TestPumpRestartWhileHoldingResolvesFromTheNewOrigin(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 40, 41)
	b.hears(2, 0, 1)
	b.want(Following, OutcomeFromOrigin, 1, 2, 0, 1)
}

// The reference runs such a rank cold although siblings may have the rest: here it is owed a section of the new life, and
// holds from the batch that showed it on.
func TestPumpRestartPastTheOriginWhileHoldingRunsCold(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 40, 41)
	epoch := b.r.state.owed.Epoch
	b.hears(2, 3, 3)
	b.want(Pending, OutcomeNone, -1, 1, 0, -1)
	if s := b.r.state; len(s.held.list) != 1 || s.held.list[0].Seq != 3 || s.owed.Epoch == epoch || s.tally.Outcomes[OutcomePublisherReset] != 1 {
		t.Errorf("%d held, owed %+v, outcomes %v", len(s.held.list), s.owed, s.tally.Outcomes)
	}
}

func TestPumpRegressionIsMeasuredAgainstTheHeldTailFirst(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 0, 50)
	b.hears(1, 55, 56)
	b.hear("w", says(2, 52, chain(root, 1)))
	st := b.r.public.Status()
	if st.State != Pending || st.Held != 1 || st.Owed.FirstHeld != 52 || st.Tally.Restarts[HowRegress] != 1 {
		t.Errorf("%v, %d held from %d on, restarts %v", st.State, st.Held, st.Owed.FirstHeld, st.Tally.Restarts)
	}
}

func TestPumpRegressionWithNothingHeldIsMeasuredAgainstTheCursor(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 0, 50)
	b.hears(2, 30, 30)
	if st := b.r.public.Status(); st.State != Pending || st.Held != 1 || st.Tally.Restarts[HowRegress] != 1 {
		t.Errorf("%v, %d held", st.State, st.Held)
	}
	b = newBoot(t)
	b.hears(1, 0, 50)
	b.hears(1, 30, 30)
	b.want(Following, OutcomeFromOrigin, 50, 1, 0, 50)
}

func TestPumpBatchZeroBehindAResolvedCursorReplacesTheRankState(t *testing.T) {
	b := newBoot(t)
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	b.hears(1, 6, 6)
	b.hears(2, 0, 1)
	b.want(Following, OutcomeFromOrigin, 1, 2, 0, 1)
}

func TestPumpRequeuesAGappedRankOnce(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 9, 9)
	first := b.r.state.owed
	b.tick(time.Second)
	b.wantVerdict(b.teaches(1, 5), GraftGap, ReasonNone)
	o := b.r.public.Status().Owed
	if o == nil || o.Kind != OwedGapRetry || o.Epoch == first.Epoch || o.LateJoin || !first.LateJoin || !o.Since.After(first.Since) || o.FirstHeld != 9 {
		t.Fatalf("owed %+v after %+v", o, first)
	}
	b.wantVerdict(b.teaches(1, 5), GraftGap, ReasonNone)
	if o := b.r.public.Status().Owed; o == nil || o.Kind != OwedHeal {
		t.Errorf("owed %+v", o)
	}
}

func TestGapRetryGraftDoesNotResurrectABlockTheStreamRemoved(t *testing.T) {
	b := newBoot(t)
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	b.hear("w", says(1, 7, gone(1005))) // 6 is missing
	b.want(Pending, OutcomeNone, -1, 1, 0, -1)
	b.wantVerdict(b.teaches(1, 6), Grafted, ReasonNone)
	if b.held("w")[block(1, 5)] != 0 {
		t.Error("the block that was removed is back")
	}
	if st := b.r.public.Status(); st.Cursor.Seq != 7 || st.Outcome != OutcomeWarm || st.Blocks[0] != 6 {
		t.Errorf("at %d, %v, blocks %v", st.Cursor.Seq, st.Outcome, st.Blocks)
	}
}

func TestPumpRestartDuringAGapRetryIsCaughtAgainstTheHeldQueue(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 9, 10)
	b.wantVerdict(b.teaches(1, 5), GraftGap, ReasonNone)
	epoch := b.r.state.owed.Epoch
	b.hears(2, 4, 4)
	if s := b.r.state; len(s.held.list) != 1 || s.held.list[0].Seq != 4 || s.owed.Epoch == epoch || s.owed.Kind != OwedBoot {
		t.Errorf("%d held, owed %+v", len(s.held.list), s.owed)
	}
}

func TestASecondGapFailsTheRankColdAndReplaysItsBatches(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 9, 11)
	b.wantVerdict(b.teaches(1, 5), GraftGap, ReasonNone)
	b.wantVerdict(b.teaches(1, 6), GraftGap, ReasonNone)
	b.want(Following, OutcomeGap, 11, 1, 9, 11)
}

func TestAbandonedGapRetryReplaysEveryHeldBatch(t *testing.T) {
	b := newBoot(t)
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	b.hears(1, 9, 11)
	b.abandon(AbandonTimedOut)
	b.want(Following, OutcomeAbandoned, 11, 1, 9, 11)
}

func TestPumpSpliceProbeAdvancedDiscardsGraftedState(t *testing.T) {
	b := newBoot(t)
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	b.witness(Advanced)
	b.want(Pending, OutcomeNone, -1, 1, 0, -1)
	if k := b.r.state.owed.Kind; k != OwedGapRetry {
		t.Errorf("owed %v", k)
	}
}

func TestPumpDropsAProbeVerdictAboutAGraftARestartReplaced(t *testing.T) {
	b := newBoot(t)
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	a := b.r.public.Status().Awaiting
	b.hears(2, 0, 1)
	b.tell(witnessed{a.Epoch, a.Watermark, Advanced})
	b.want(Following, OutcomeFromOrigin, 1, 2, 0, 1)
}

func TestPumpSpliceProbeNoAdvanceKeepsGraftedStateAndCountsWarm(t *testing.T) {
	b := newBoot(t)
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	b.witness(NoAdvance)
	b.want(Following, OutcomeWarm, 5, 1, 0, 5)
	if p := b.r.state.cursor.Proof; p != Proven {
		t.Errorf("proof %v", p)
	}
}

func TestPumpSpliceProbeUnknownLeavesTheQuestionOpen(t *testing.T) {
	b := newBoot(t)
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	b.witness(TestimonyUnknown)
	if a := b.r.public.Status().Awaiting; a == nil || a.Unknown != 1 {
		t.Errorf("awaiting %+v", a)
	}
	b.want(Following, OutcomeNone, 5, 1, 0, 5)
}

func TestPumpRepeatedUnknownProbesResolveAsUnwitnessed(t *testing.T) {
	b := newBoot(t)
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	for range maxUnknown {
		b.witness(TestimonyUnknown)
	}
	b.want(Following, OutcomeWarmUnwitnessed, 5, 1, 0, 5)
	if st := b.r.public.Status(); st.Cursor.Proof != Unwitnessed || st.Awaiting != nil {
		t.Errorf("%v, awaiting %+v", st.Cursor.Proof, st.Awaiting)
	}
}

func TestPumpSpliceProbeFromAStaleIncarnationIsIgnored(t *testing.T) {
	b := newBoot(t)
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	a := b.r.public.Status().Awaiting
	b.forget(b.r)
	b.r = b.join(b.scheme, "w", "p1")
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	b.tell(witnessed{a.Epoch, a.Watermark, Advanced})
	b.want(Following, OutcomeNone, 5, 1, 0, 5)
}

func TestPumpSpliceProbeAboutAPreviousGraftIsIgnored(t *testing.T) {
	b := newBoot(t)
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	a := b.r.public.Status().Awaiting
	b.witness(Advanced)
	b.wantVerdict(b.teaches(1, 6), Grafted, ReasonNone)
	b.tell(witnessed{a.Epoch, a.Watermark, Advanced})
	b.tell(witnessed{b.r.state.awaiting.Epoch, a.Watermark, Advanced})
	b.want(Following, OutcomeNone, 6, 1, 0, 6)
}

func TestStalePeerWithHigherCursorOfOldIncarnationIsNeverGrafted(t *testing.T) {
	b := newBoot(t)
	b.wantVerdict(b.teaches(2, 100), GraftRejected, ReasonOtherIncarnation)
	b.want(Pending, OutcomeNone, -1, 1, 0, -1)
	b.hears(1, 3, 3)
	b.wantVerdict(b.teaches(2, 100), GraftRejected, ReasonOtherIncarnation)
	b.wantVerdict(b.teaches(1, 2), Grafted, ReasonNone)
	b.want(Following, OutcomeWarm, 3, 1, 0, 3)
}

// H2 (ii): the answer comes from the next process while the dead socket still delivers the one before.
func TestTheNextProcessDoesNotLabelTheBatchesOfTheOneBefore(t *testing.T) {
	b := newBoot(t)
	link := b.r.Link.(*fakeLink)
	link.start = startNamed("p2")
	b.connect("w") // known before: p1
	b.hears(1, 16, 17)
	if st := b.r.public.Status(); st.Bound || st.Connected {
		t.Fatalf("bound %v, connected %v: a start that differs before and after is none", st.Bound, st.Connected)
	}
	if len(link.redials) != 1 {
		t.Fatalf("redials %v", link.redials)
	}
	b.wantVerdict(b.teaches(1, 17), GraftRejected, ReasonUnbound)
	b.connect("w")
	b.wantVerdict(b.teaches(1, 17), GraftRejected, ReasonOtherIncarnation)
	b.hears(2, 6, 6)
	b.wantVerdict(b.teaches(2, 5), Grafted, ReasonNone)
	b.want(Following, OutcomeWarm, 6, 2, 0, 6)
}

// H1: what is delivered under an older connection is neither held nor a restart.
func TestHeldBatchesBelongToOneConnection(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 0+1, 4)
	body, epoch := b.teaches(1, 3), b.r.state.owed.Epoch
	b.connect("w")
	b.deliver(kvevents.Delivery{Rank: b.r.Rank, Epoch: b.epoch[b.r.Rank] - 1, Kind: kvevents.Arrived, Batch: stream(1, 5, 5)[0]})
	b.settle()
	if st := b.r.public.Status(); st.Held != 0 || st.Tally.Late != 1 || st.Owed.Epoch == epoch {
		t.Fatalf("%d held, %d late, owed %+v", st.Held, st.Tally.Late, st.Owed)
	}
	got, err := graftBy(t.Context(), b.during, body, []RankEpoch{{b.r.Rank, epoch}})
	if err != nil || got[0].Verdict != GraftStale {
		t.Errorf("a body asked for under the older stamp: %+v, %v", got, err)
	}
	b.want(Pending, OutcomeNone, -1, 1, 0, -1)
}

// H12 (i): a source whose engine restarts during the walk and passes the old cursor has another life.
func TestARestartDuringTheWalkShowsInTheRowsLife(t *testing.T) {
	s := newStill(t, Options{})
	s.join(index.SchemeSGLang, "w", "p1")
	s.hear("w", stream(1, 0, 5)...)
	before := NewSource(s.Pump, SourceOptions{}).Sections()[0].Rows[0]
	s.hear("w", stream(2, 0, 9)...)
	after := NewSource(s.Pump, SourceOptions{}).Sections()[0].Rows[0]
	if after.Cursor.Seq <= before.Cursor.Seq || after.Life == before.Life || before.Life == 0 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// H12 (ii): what was walked beyond the cursor stands in the status until the cursor has passed it.
func TestAGraftRemembersHowFarItsSourceWasWalked(t *testing.T) {
	b := newBoot(t)
	b.sibling = newStill(t, Options{})
	b.sibling.join(b.scheme, "w", "p1")
	b.sibling.hear("w", stream(1, 0, 4)...)
	v := b.sibling.teach(func() { b.sibling.hear("w", stream(1, 5, 8)...) })
	b.wantVerdict(v, Grafted, ReasonNone)
	st := b.r.public.Status()
	if st.Cursor.Seq != 4 || st.WalkedTo != 8 {
		t.Fatalf("at %d, walked to %d", st.Cursor.Seq, st.WalkedTo)
	}
	if truth := b.sibling.ranks[b.r.Rank].public.Status(); st.Digest != truth.Digest {
		t.Fatalf("the walk did not see the batches that came meanwhile: %x, the sibling has %x", st.Digest, truth.Digest)
	}
	b.hears(1, 5, 9)
	b.sibling.hear("w", stream(1, 9, 9)...)
	if b.content("w") != b.sibling.content("w") {
		t.Errorf("%s, the sibling has %s", b.content("w"), b.sibling.content("w"))
	}
}

// A removal after a graft removes, although the block was never named here (scheme tokens).
func TestRemovalAfterGraftRemoves_Tokens(t *testing.T) {
	b := newBootOf(t, index.SchemeTokens)
	b.hears(1, 5, 5)
	b.wantVerdict(b.teaches(1, 4), Grafted, ReasonNone)
	if n := len(b.held("w")); n != 6 {
		t.Fatalf("%d blocks after the graft", n)
	}
	b.hear("w", says(1, 6, gone(1005, 1004)))
	if n := len(b.held("w")); n != 4 {
		t.Errorf("%d blocks after the removal", n)
	}
	b.hear("w", says(1, 7, chain(1003, 1006))) // a child of a block that came with the graft
	if n := len(b.held("w")); n != 5 {
		t.Errorf("%d blocks after a child of a grafted block", n)
	}
}

// Orphans travel too, and find their parents among what is grafted.
func TestOrphansTravelWithAGraft_Tokens(t *testing.T) {
	source := newStill(t, Options{})
	source.join(index.SchemeTokens, "w", "p1")
	source.hear("w", says(1, 0, chain(root, 1)), says(1, 1, chain(7, 8)))
	b := newBootOf(t, index.SchemeTokens)
	b.wantVerdict(source.teach(nil), Grafted, ReasonNone)
	if st := b.r.public.Status(); st.Orphans != 1 || st.Mapped != 1 {
		t.Fatalf("%d orphans, %d mapped", st.Orphans, st.Mapped)
	}
	b.hear("w", says(1, 2, chain(1, 7)))
	if st := b.r.public.Status(); st.Orphans != 0 || st.Mapped != 3 || st.Blocks[0] != 3 {
		t.Errorf("%d orphans, %d mapped, %v", st.Orphans, st.Mapped, st.Blocks)
	}
	b.hear("w", says(1, 3, gone(8)))
	if st := b.r.public.Status(); st.Blocks[0] != 2 {
		t.Errorf("%v", st.Blocks)
	}
}

// A replica that followed from the middle and one that was grafted hold different blocks; the partial one is no partner.
func TestColdStartedReplicaBesideWarmOneMakesNobodySuspect(t *testing.T) {
	cold := newBoot(t)
	cold.hears(1, 3, 3)
	cold.abandon(AbandonNoPeers)
	st := cold.r.public.Status()
	if !st.Cursor.Partial || st.Trust.Suspect || st.Trust.Untrusted {
		t.Errorf("%+v", st)
	}
	v := cold.teaches(1, 3)
	warm := newBoot(t)
	warm.hears(1, 4, 4)
	warm.wantVerdict(v, Grafted, ReasonNone)
	if w := warm.r.public.Status(); w.Cursor.Partial || w.Trust.Suspect || w.Digest == st.Digest {
		t.Errorf("%+v", w)
	}
}

// Peers bring nothing into another index, and nothing for ranks that were not asked for.
func TestASectionIsForItsOwnIndexAlone(t *testing.T) {
	b := newBoot(t)
	v := b.teaches(1, 5)
	v.key.BlockSize = 8
	b.wantVerdict(v, GraftUncovered, ReasonNone)
	other := newBoot(t)
	w := other.teaches(1, 5)
	w.ranks = append(w.ranks, snapshot.VettedRank{Rank: index.Rank{Worker: "stranger"}, Cursor: w.ranks[0].Cursor})
	other.wantVerdict(w, Grafted, ReasonNone)
	if len(other.ranks) != 1 || other.r.ledger.section.Index.Stats().Ranks != 1 {
		t.Error("a stranger's rank was made")
	}
}

// Nothing of a section that breaks off is seen, and what was held stays so.
func TestABrokenSectionLeavesNothing(t *testing.T) {
	b := newBoot(t)
	b.hears(1, 5, 7)
	v := b.teaches(1, 5)
	v.end = errCut
	if _, err := graftBy(t.Context(), b.during, v, b.owing()); err != errCut {
		t.Fatalf("error %v", err)
	}
	b.want(Pending, OutcomeNone, -1, 1, 0, -1)
	for b.r.ledger.section.Index.Work(1000) {
	}
	if s := b.r.ledger.section.Index.Stats(); s.Nodes != 0 || s.Ranks != 0 {
		t.Errorf("left in the index: %+v", s)
	}
	b.wantVerdict(b.teaches(1, 4), Grafted, ReasonNone)
	b.want(Following, OutcomeWarm, 7, 1, 0, 7)
}

// A graft whose rank begins anew while it is read is stale, for that rank alone.
func TestARestartWhileASectionIsReadMakesItStale(t *testing.T) {
	b := newBoot(t)
	other := b.join(b.scheme, "other", "p1")
	b.sibling = newStill(t, Options{})
	for _, w := range []string{"w", "other"} {
		b.sibling.join(b.scheme, w, "p1")
		b.sibling.hear(w, stream(1, 0, 5)...)
	}
	v := b.sibling.teach(nil)
	v.before = func(read int) {
		if read == 1 {
			b.hears(2, 0, 1)
		}
	}
	got := b.graft(v)
	if len(got) != 2 || got[0].Verdict != Grafted || got[1].Verdict != GraftStale {
		t.Fatalf("%+v", got)
	}
	b.want(Following, OutcomeFromOrigin, 1, 2, 0, 1)
	if n := len(b.held("other")); n != 6 || other.state.cursor.Seq != 5 {
		t.Errorf("%d blocks, at %d", n, other.state.cursor.Seq)
	}
	for b.r.ledger.section.Index.Work(1000) {
	}
	if s := b.r.ledger.section.Index.Stats(); s.Ranks != 2 {
		t.Errorf("%+v", s)
	}
}

// A rank that is forgotten while a section is read takes nothing with it.
func TestARankForgottenWhileASectionIsRead(t *testing.T) {
	b := newBoot(t)
	v := b.teaches(1, 5)
	v.before = func(read int) {
		if read == 1 {
			b.forget(b.r)
			b.publish()
		}
	}
	b.wantVerdict(v, GraftStale, ReasonNone)
	if len(b.ranks) != 0 || len(b.sections) != 0 {
		t.Errorf("%d ranks, %d sections", len(b.ranks), len(b.sections))
	}
}

func TestReregistrationAfterForgetMintsANewEpoch(t *testing.T) {
	b := newBoot(t)
	first := b.r.state.owed.Epoch
	b.forget(b.r)
	b.r = b.join(b.scheme, "w", "p1")
	if again := b.r.state.owed.Epoch; again <= first {
		t.Errorf("obligation %d after %d", again, first)
	}
}

func TestReregistrationOfAKnownRankOwesNothingNew(t *testing.T) {
	b := newBoot(t)
	before := b.r.state.owed
	if err := b.register(b.r.Registration); err != nil {
		t.Fatal(err)
	}
	if b.r.state.owed != before {
		t.Errorf("owed %+v, was %+v", b.r.state.owed, before)
	}
}

// Whoever waits for Changed looks at the view then: no change of what is owed goes by unseen.
func TestEveryChangeOfAnObligationIsSignalled(t *testing.T) {
	b := newBoot(t)
	signalled := func(what string, want bool) {
		t.Helper()
		select {
		case <-b.Changed():
			if !want {
				t.Errorf("%s: signalled", what)
			}
		default:
			if want {
				t.Errorf("%s: not signalled", what)
			}
		}
	}
	signalled("a pending rank", true)
	b.hears(1, 5, 5)
	signalled("the first held batch", true)
	b.hears(1, 6, 6)
	signalled("the second", false)
	b.wantVerdict(b.teaches(1, 5), Grafted, ReasonNone)
	signalled("a graft", true)
	b.hears(1, 7, 7)
	signalled("a batch of a warm rank", false)
	b.hears(1, 9, 9)
	signalled("a gap", true)
}

// Nothing is called grafted that was not, whatever the section turns out to have.
func TestASectionThatIsNotWhatItWasGraftsNothing(t *testing.T) {
	b := newBoot(t)
	v := fickle{b.teaches(1, 5)}
	b.wantVerdict(v, GraftUncovered, ReasonNone)
	b.want(Pending, OutcomeNone, -1, 1, 0, -1)
}

// fickle is a section that keeps other ranks than it was told to.
type fickle struct{ *section }

func (f fickle) Retain(func(index.Rank) bool) { f.ranks[0].Rank.Worker = "stranger" }
