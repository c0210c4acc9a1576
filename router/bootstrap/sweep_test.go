package bootstrap

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/peers"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

var errDown = errors.New("connection refused")

// warm is a sibling that holds ranks completely and proven.
func warm(workers ...string) *fakePeer {
	p := &fakePeer{ready: true}
	for _, w := range workers {
		p.rows = append(p.rows, holds(w, life(w, "p1", 40, cursor.Proven)))
	}
	return p
}

// hollow is a sibling that is subscribed to ranks and holds nothing of anything.
func hollow(workers ...string) *fakePeer { return &fakePeer{empty: workers} }

func partial(r *snapshot.TableRow) { r.Cursor.Partial = true }

func TestANewReplicaIsGraftedFromAWarmSibling(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("e1", "e2")}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.pump.boot("e2", true)
		r.after(2 * time.Second)
		r.expect("after the sweep", "graft uid-e1 from b: grafted", "graft uid-e2 from b: grafted")
		r.expectVerdict("after the sweep", status.VerdictWarm)
		s := r.status()
		if s.State != status.StateSettled || *s.Coverage.Percent != 100 || s.SeededFrom != "b" || !s.Seedable || s.Ranks.Warm != 2 || s.Peers.Warm != 1 {
			t.Fatalf("got %+v", s)
		}
		if got := r.count("bootstrap_sweep_total", "found"); got != 1 {
			t.Fatalf("the sweep was counted %v times", got)
		}
		if got := r.count("peer_snapshot_total", "accepted"); got != 1 {
			t.Fatalf("%v fetches for one sibling", got)
		}
		if got := r.count("bootstrap_rank_total", "warm"); got != 2 {
			t.Fatalf("%v ranks were counted warm", got)
		}
	})
}

// I2: an export must be newer than our subscription, and than what the peer gave before.
func TestARefetchDemandsAnExportNewerThanThePeersLastAnswer(t *testing.T) {
	b := warm("e1")
	b.hides = []string{"e1"}
	run(t, map[string]*fakePeer{"b": b}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.after(20 * time.Second)
		b := r.client.peer("b")
		if len(b.wants) < 3 {
			t.Fatalf("%d fetches\n%s", len(b.wants), r.log)
		}
		if b.wants[0].MaxAge > time.Second {
			t.Errorf("the first export may be %v old, and the subscription is younger", b.wants[0].MaxAge)
		}
		for i := 1; i < len(b.wants); i++ {
			if since := b.wantsAt[i].Sub(b.wantsAt[i-1]); b.wants[i].MaxAge > since {
				t.Errorf("export %d may be %v old, %v after the last: it would be the same again", i, b.wants[i].MaxAge, since)
			}
		}
	})
}

func TestSweepSettlesEarlyWhenEveryPeerIsCold(t *testing.T) {
	run(t, map[string]*fakePeer{"b": hollow("e1"), "c": hollow()}, func(r *rig) {
		r.know("b", "c")
		r.pump.boot("e1", true)
		r.after(time.Second)
		r.expect("at once", "abandon [uid-e1]: fleet_cold")
		r.expectVerdict("at once", status.VerdictColdFleet)
	})
}

func TestSweepSettlesEarlyWhenEveryPeerIsPermanentlyRejected(t *testing.T) {
	unknown := &fakePeer{err: &snapshot.Rejection{Reason: snapshot.UnknownFormat}}
	run(t, map[string]*fakePeer{"b": unknown}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.after(time.Second)
		r.expect("at once", "abandon [uid-e1]: fleet_cold")
		r.expectVerdict("nothing could be read", status.VerdictColdTimedOut)
		if got := r.client.peer("b").asked; got != 1 {
			t.Fatalf("it was asked %d times", got)
		}
	})
}

func TestSweepWaitsOutTheDeadlineWhenAPeerIsUnreachable(t *testing.T) {
	run(t, map[string]*fakePeer{"b": hollow("e1"), "c": {err: errDown}}, func(r *rig) {
		r.know("b", "c")
		r.pump.boot("e1", true)
		r.after(59 * time.Second)
		r.expect("before the deadline")
		r.expectVerdict("before the deadline", status.VerdictUnknown)
		r.after(2 * time.Second)
		r.expect("after it", "abandon [uid-e1]: timed_out")
		r.expectVerdict("after it", status.VerdictColdTimedOut)
		if n := r.client.peer("c").asked; n < 4 || n > 12 {
			t.Fatalf("the silent one was asked %d times: it should be left alone ever longer", n)
		}
	})
}

func TestSweepWaitsOutTheDeadlineWhenAPeerIsWarmButUncovering(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("other")}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.after(59 * time.Second)
		r.expect("before the deadline")
		r.after(2 * time.Second)
		r.expect("after it", "abandon [uid-e1]: timed_out")
		r.expectVerdict("after it", status.VerdictColdFleet) // it answered, and holds nothing of our ranks
	})
}

func TestAWarmAnswerErasesAPeersColdWitness(t *testing.T) {
	run(t, map[string]*fakePeer{"b": hollow(), "c": {err: errDown}}, func(r *rig) {
		r.know("b", "c")
		r.pump.boot("e1", true)
		r.after(time.Second)
		r.client.set("b", func(p *fakePeer) { *p = *warm("other") })
		r.client.set("c", func(p *fakePeer) { *p = *hollow() })
		r.after(10 * time.Second)
		r.expect("one is cold, the other no longer")
	})
}

func TestFleetIsColdOnlyWhenEveryCandidateProvedHopeless(t *testing.T) {
	rejected := func() *fakePeer { return &fakePeer{err: &snapshot.Rejection{Reason: snapshot.UnknownFormat}} }
	for name, c := range map[string]struct {
		siblings map[string]*fakePeer
		cold     bool
	}{
		"both cold":             {map[string]*fakePeer{"b": hollow(), "c": hollow()}, true},
		"one cold, one refused": {map[string]*fakePeer{"b": hollow(), "c": rejected()}, true},
		"one is silent":         {map[string]*fakePeer{"b": hollow(), "c": {err: errDown}}, false},
		"one boots with blocks": {map[string]*fakePeer{"b": hollow(), "c": {rows: warm("x").rows}}, false},
		"one has other ranks":   {map[string]*fakePeer{"b": hollow(), "c": warm("x")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, c.siblings, func(r *rig) {
				r.know("b", "c")
				r.pump.boot("e1", true)
				r.after(3 * time.Second)
				if got := slices.Contains(r.told(), "abandon [uid-e1]: fleet_cold"); got != c.cold {
					t.Fatalf("cold %v, want %v\n%s", got, c.cold, r.log)
				}
			})
		})
	}
}

// B10 and the invariant of package peers: an empty set nobody told is not an empty set.
func TestANobodyWasToldReplicaWaits(t *testing.T) {
	run(t, nil, func(r *rig) {
		r.pump.boot("e1", true)
		r.after(30 * time.Second)
		r.expect("without a set")
		r.know()
		r.after(time.Second)
		r.expect("with an empty set", "abandon [uid-e1]: no_peers")
		r.expectVerdict("alone", status.VerdictColdNoPeers)
	})
}

func TestATransientlyEmptySetDoesNotEndASweep(t *testing.T) {
	run(t, map[string]*fakePeer{"b": {err: errDown}}, func(r *rig) {
		r.know("b")
		r.after(time.Second)
		r.know()
		r.pump.boot("e1", true)
		r.after(30 * time.Second)
		r.expect("there was a sibling once")
		r.client.set("b", func(p *fakePeer) { *p = *warm("e1") })
		r.know("b")
		r.after(2 * time.Second)
		r.expect("it is back", "graft uid-e1 from b: grafted")
	})
}

func TestSweepWaitsForASiblingThatIsStillBootstrapping(t *testing.T) {
	b := warm("e1")
	b.ready = false
	for i := range b.rows {
		b.rows[i].Exportable = false
	}
	run(t, map[string]*fakePeer{"b": b}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.after(20 * time.Second)
		r.expect("while it boots")
		r.client.set("b", func(p *fakePeer) { *p = *warm("e1") })
		r.after(17 * time.Second) // the longest it sits out by now
		r.expect("afterwards", "graft uid-e1 from b: grafted")
	})
}

func TestCoolingSitsOutExactlyTheConfiguredPasses(t *testing.T) {
	m := &memory{}
	for i, want := range []int{4, 8, 16, 32, 64, 120, 120} {
		if m.cool(0); m.coolingFor != want {
			t.Errorf("strike %d: sits out %d passes, want %d", i+1, m.coolingFor, want)
		}
	}
	run(t, map[string]*fakePeer{"b": {err: errDown}}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.after(100 * time.Millisecond)
		before := r.client.peer("b").asked
		r.after(passEvery*coolingPasses - 100*time.Millisecond)
		if got := r.client.peer("b").asked; got != before {
			t.Fatalf("it was asked %d times within %d passes", got, coolingPasses)
		}
		r.after(3 * passEvery)
		if got := r.client.peer("b").asked; got != before+1 {
			t.Fatalf("it was asked %d times afterwards", got)
		}
	})
}

func TestCooldownBacksOffExponentiallyPerPeerUpToTheCap(t *testing.T) {
	run(t, map[string]*fakePeer{"b": {err: errDown}, "c": warm("x")}, func(r *rig) {
		r.know("b", "c")
		r.pump.boot("e1", true)
		r.after(59 * time.Second)
		// 0, 1.25, 3.5, 7.75, 16, 32.25 s
		if got := r.client.peer("b").asked; got < 5 || got > 7 {
			t.Fatalf("asked %d times in a minute", got)
		}
	})
	m := &memory{}
	m.cool(20 * time.Second)
	if m.coolingFor != 80 {
		t.Errorf("a peer that asked for 20 s sits out %d passes", m.coolingFor)
	}
	if m.cool(time.Hour); m.coolingFor != maxCooling {
		t.Errorf("a peer that asked for an hour sits out %d passes", m.coolingFor)
	}
}

func TestSweepSurvivesASameLengthMembershipSwapMidPass(t *testing.T) {
	slow := hollow("e1")
	slow.delay = time.Second
	late := warm("e1")
	late.delay = time.Second
	run(t, map[string]*fakePeer{"b": slow, "c": late}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.after(500 * time.Millisecond)
		r.know("c") // while b is being asked
		r.after(time.Second)
		r.expect("the pass said nothing of c")
		r.after(5 * time.Second)
		r.expect("c was asked", "graft uid-e1 from c: grafted")
	})
}

func TestSweepSettlesARankEveryPeerHoldsNothingFor(t *testing.T) {
	b := warm("old")
	b.empty = []string{"new"}
	run(t, map[string]*fakePeer{"b": b}, func(r *rig) {
		r.know("b")
		r.pump.boot("new", true)
		r.after(time.Second)
		r.expect("at once", "abandon [uid-new]: nothing_to_recover")
		if got := r.count("bootstrap_sweep_total", "ranks_resolved"); got != 1 {
			t.Fatalf("the sweep was counted %v times", got)
		}
	})
}

func TestSweepSettlesOnlyTheRanksEveryPeerHoldsNothingFor(t *testing.T) {
	b, c := warm("x"), warm("y")
	b.empty, c.empty = []string{"new", "half"}, []string{"new"}
	run(t, map[string]*fakePeer{"b": b, "c": c}, func(r *rig) {
		r.know("b", "c")
		r.pump.boot("new", true)
		r.pump.boot("half", true)
		r.after(5 * time.Second)
		r.expect("one of the two", "abandon [uid-new]: nothing_to_recover")
	})
}

func TestSweepKeepsWaitingOnARankWhileAnyPeerIsSilentOnIt(t *testing.T) {
	b, c := warm("x"), warm("y")
	b.empty = []string{"new"}
	run(t, map[string]*fakePeer{"b": b, "c": c}, func(r *rig) {
		r.know("b", "c")
		r.pump.boot("new", true)
		r.after(30 * time.Second)
		r.expect("c says nothing of it")
		r.client.set("c", func(p *fakePeer) { p.empty = []string{"new"} })
		r.after(31 * time.Second)
		if got := r.told(); len(got) != 1 || !strings.HasPrefix(got[0], "abandon [uid-new]") {
			t.Fatalf("told %q", got)
		}
	})
}

func TestNothingToRecoverNeedsEveryCandidateToSpeakForTheRank(t *testing.T) {
	b := warm("x")
	b.empty = []string{"new"}
	run(t, map[string]*fakePeer{"b": b, "c": {err: errDown}}, func(r *rig) {
		r.know("b", "c")
		r.pump.boot("new", true)
		r.after(10 * time.Second)
		r.expect("c is silent")
	})
}

// A peer that does not trust its own state has nothing to teach; waiting for it would hold the boot for its whole budget.
func TestWhatEveryPeerDistrustsIsNotWaitedFor(t *testing.T) {
	b := &fakePeer{ready: true, rows: []snapshot.TableRow{holds("e1", life("e1", "p1", 40, cursor.Untrusted))}}
	run(t, map[string]*fakePeer{"b": b}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.after(2 * time.Second)
		r.expect("at once", "abandon [uid-e1]: nothing_to_recover")
		if got := r.status(); got.Verdict != status.VerdictColdTimedOut && got.Verdict != status.VerdictColdPartial {
			t.Fatalf("verdict %s although a sibling holds something", got.Verdict)
		}
	})
}

// H7, reading 7: while the rank's own connection is not up, its obligation stays, whatever siblings say.
func TestARankWithoutAConnectionIsNotGivenUpBeforeTheDeadline(t *testing.T) {
	run(t, map[string]*fakePeer{"b": hollow("e1")}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", false)
		r.after(59 * time.Second)
		r.expect("while it is not connected")
		r.after(2 * time.Second)
		r.expect("at the deadline", "abandon [uid-e1]: timed_out")
	})
}

func TestStalePeerWithHigherCursorOfOldIncarnationIsNeverGrafted(t *testing.T) {
	dead := life("e1", "", 900, cursor.Origin)
	dead.Time -= 1 << 40 // some 18 minutes before what its seq would say
	dead.Time = life("e1", "", 10, cursor.Origin).Time
	alive := life("e1", "", 40, cursor.Proven)
	stale := &fakePeer{ready: true, rows: []snapshot.TableRow{holds("e1", dead)}}
	fresh := &fakePeer{ready: true, rows: []snapshot.TableRow{holds("e1", alive)}}
	run(t, map[string]*fakePeer{"stale": stale, "fresh": fresh}, func(r *rig) {
		r.know("stale", "fresh")
		r.pump.boot("e1", true)
		r.pump.with("e1", func(r *Rank) { r.Cursor.Incarnation.Start = cursor.Start{Known: true} })
		r.after(2 * time.Second)
		r.expect("of two lives", "graft uid-e1 from fresh: grafted")
	})
}

func TestASectionOfAnotherStartIsNotEvenFetched(t *testing.T) {
	old := &fakePeer{ready: true, rows: []snapshot.TableRow{holds("e1", life("e1", "p0", 900, cursor.Origin))}}
	run(t, map[string]*fakePeer{"b": old}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.after(10 * time.Second)
		r.expect("it is of another process")
		if got := len(r.client.peer("b").wants); got != 0 {
			t.Fatalf("%d fetches", got)
		}
	})
}

// B3: ranks one peer does not cover are asked of the next in the same sweep.
func TestRanksOnePeerDoesNotCoverAreAskedOfTheNext(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("e1", "e2", "e3"), "c": warm("e4")}, func(r *rig) {
		r.know("b", "c")
		for i := range 4 {
			r.pump.boot(fmt.Sprint("e", i+1), true)
		}
		r.after(3 * time.Second)
		r.expect("both", "graft uid-e1 from b: grafted", "graft uid-e2 from b: grafted", "graft uid-e3 from b: grafted", "graft uid-e4 from c: grafted")
		if wants := r.client.peer("c").wants; len(wants) != 1 || len(wants[0].Local) != 1 || len(wants[0].Local[0].Ranks) != 1 {
			t.Fatalf("c was asked for %+v", wants)
		}
		if got := r.count("bootstrap_sweep_total", "found"); got != 1 {
			t.Fatalf("the sweep was counted %v times", got)
		}
	})
}

func TestAStrongerProofIsPreferredToAHigherSeq(t *testing.T) {
	for name, c := range map[string]struct{ worse, better snapshot.TableRow }{
		"proven before unwitnessed":           {holds("e1", life("e1", "p1", 900, cursor.Unwitnessed)), holds("e1", life("e1", "p1", 40, cursor.Proven))},
		"origin before proven":                {holds("e1", life("e1", "p1", 900, cursor.Proven)), holds("e1", life("e1", "p1", 40, cursor.Origin))},
		"complete before partial":             {holds("e1", life("e1", "p1", 900, cursor.Proven), partial), holds("e1", life("e1", "p1", 40, cursor.Proven))},
		"partial and proven before unproven":  {holds("e1", life("e1", "p1", 900, cursor.Unwitnessed)), holds("e1", life("e1", "p1", 40, cursor.Proven), partial)},
		"higher seq where proofs are equal":   {holds("e1", life("e1", "p1", 40, cursor.Proven)), holds("e1", life("e1", "p1", 900, cursor.Proven))},
		"partial origin is proven, not whole": {holds("e1", life("e1", "p1", 900, cursor.Origin), partial), holds("e1", life("e1", "p1", 40, cursor.Proven))},
	} {
		t.Run(name, func(t *testing.T) {
			siblings := map[string]*fakePeer{"worse": {ready: true, rows: []snapshot.TableRow{c.worse}}, "better": {ready: true, rows: []snapshot.TableRow{c.better}}}
			run(t, siblings, func(r *rig) {
				r.know("worse", "better")
				r.pump.boot("e1", true)
				r.after(2 * time.Second)
				r.expect("the better", "graft uid-e1 from better: grafted")
			})
		})
	}
}

// Reading 10: what is complete and proven is taken at once, what is less only when everybody was asked.
func TestPartialSectionsWaitUntilThePassHasAskedEverybody(t *testing.T) {
	quick := &fakePeer{ready: true, rows: []snapshot.TableRow{holds("e1", life("e1", "p1", 40, cursor.Proven), partial)}}
	slow := warm("e1")
	slow.delay = 2 * time.Second
	run(t, map[string]*fakePeer{"quick": quick, "slow": slow}, func(r *rig) {
		r.know("quick", "slow")
		r.pump.boot("e1", true)
		r.after(1900 * time.Millisecond)
		r.expect("while one was not heard")
		r.after(4 * time.Second)
		r.expect("the complete one", "graft uid-e1 from slow: grafted")
	})
}

func TestACompleteSectionIsTakenWhileAHungPeerIsBeingAsked(t *testing.T) {
	hung := warm("e1")
	hung.delay = time.Hour
	run(t, map[string]*fakePeer{"quick": warm("e1"), "hung": hung}, func(r *rig) {
		r.know("quick", "hung")
		r.pump.boot("e1", true)
		r.after(2 * time.Second)
		r.expect("at once", "graft uid-e1 from quick: grafted")
	})
}

// B10: terminating siblings teach, and of equals the less busy one is asked.
func TestATerminatingSiblingTeachesAndALessBusyOneIsPreferred(t *testing.T) {
	busy := warm("e1")
	busy.builds = 3
	run(t, map[string]*fakePeer{"busy": busy, "idle": warm("e1")}, func(r *rig) {
		r.know("busy", "idle")
		r.pump.boot("e1", true)
		r.after(2 * time.Second)
		r.expect("of equals", "graft uid-e1 from idle: grafted")
	})
	run(t, map[string]*fakePeer{"leaving": warm("e1")}, func(r *rig) {
		r.registry.Replace([]peers.Peer{{ID: "leaving", UID: "leaving", Name: "leaving", URL: "http://leaving", Terminating: true}})
		r.pump.boot("e1", true)
		r.after(2 * time.Second)
		r.expect("the only one", "graft uid-e1 from leaving: grafted")
	})
}

func TestAPeerThatDiesInTheMiddleOfABodyIsReplacedByTheNext(t *testing.T) {
	dying := warm("e1")
	dying.breaks = true
	other := warm("e1")
	other.builds = 5 // asked second
	run(t, map[string]*fakePeer{"dying": dying, "other": other}, func(r *rig) {
		r.know("dying", "other")
		r.pump.boot("e1", true)
		r.after(5 * time.Second)
		r.expect("the next", "graft uid-e1 from other: grafted")
		if got := r.count("peer_snapshot_total", "unreachable"); got != 1 {
			t.Fatalf("%v broken bodies", got)
		}
	})
}

func TestARankThatGraftingRefusedIsTriedAtTheNextPeer(t *testing.T) {
	other := warm("e1")
	other.builds = 5
	run(t, map[string]*fakePeer{"first": warm("e1"), "other": other}, func(r *rig) {
		r.pump.graft = func(p *fakePump, s Section, owed []ingest.RankEpoch) ([]ingest.GraftResult, error) {
			if s.(*fakeSection).from == "first" {
				return []ingest.GraftResult{{RankEpoch: owed[0], Verdict: ingest.GraftRejected, Reason: ingest.ReasonOtherIncarnation}}, nil
			}
			return p.take(s, owed), nil
		}
		r.know("first", "other")
		r.pump.boot("e1", true)
		r.after(5 * time.Second)
		r.expect("the next", "graft uid-e1 from other: grafted")
		if got := len(r.client.peer("first").wants); got != 1 {
			t.Fatalf("the refused one was asked %d times", got)
		}
	})
}

// A rank that is redialled while a body is under way holds other batches: the body is not for it (H1).
func TestABodyIsNotGraftedOnARankThatWasRedialledMeanwhile(t *testing.T) {
	b := warm("e1")
	b.delay = time.Second
	run(t, map[string]*fakePeer{"b": b}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.after(1500 * time.Millisecond) // asked, and the body is under way
		first := r.pump.epochs
		r.pump.with("e1", func(k *Rank) {
			r.pump.epochs++
			k.Owed = &ingest.Owed{Epoch: r.pump.epochs, Kind: ingest.OwedBoot, Since: time.Now(), LateJoin: true}
		})
		r.after(700 * time.Millisecond)
		r.expect("the old body", "graft uid-e1 from b: stale")
		r.after(10 * time.Second)
		r.expect("the next", "graft uid-e1 from b: grafted")
		if first == r.pump.epochs {
			t.Fatal("there was no redial")
		}
	})
}

func TestDrainReadyMergesArrivalsFromDuringTheSweep(t *testing.T) {
	b := warm("e1", "e2")
	b.delay = time.Second
	run(t, map[string]*fakePeer{"b": b}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.pump.boot("e2", false)
		r.after(1500 * time.Millisecond) // the body is under way
		r.pump.with("e2", func(k *Rank) {
			r.pump.epochs++
			k.Owed = &ingest.Owed{Epoch: r.pump.epochs, Kind: ingest.OwedBoot, Since: time.Now(), LateJoin: true, FirstHeld: ingest.NothingHeld}
		})
		r.after(time.Second)
		r.expect("one body", "graft uid-e1 from b: grafted", "graft uid-e2 from b: grafted")
		if got := len(r.client.peer("b").wants); got != 1 {
			t.Fatalf("%d bodies", got)
		}
	})
}

func TestDrainReadyDefersAGapRetryTheSweepCannotSpeakFor(t *testing.T) {
	b := warm("e1", "e2")
	b.delay = time.Second
	run(t, map[string]*fakePeer{"b": b}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.pump.boot("e2", false)
		r.after(1500 * time.Millisecond)
		r.pump.with("e2", func(k *Rank) {
			r.pump.epochs++
			k.Owed = &ingest.Owed{Epoch: r.pump.epochs, Kind: ingest.OwedGapRetry, Since: time.Now(), LateJoin: false, FirstHeld: 50}
		})
		r.after(700 * time.Millisecond)
		r.expect("the body under way", "graft uid-e1 from b: grafted")
		r.after(5 * time.Second)
		r.expect("a body of its own", "graft uid-e2 from b: grafted")
	})
}

// A gap after a graft is retried with an export from after it.
func TestAGappedRankIsSweptAgainWithAFresherExport(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("e1")}, func(r *rig) {
		r.pump.graft = func(p *fakePump, s Section, owed []ingest.RankEpoch) ([]ingest.GraftResult, error) {
			if p.rank("e1").Owed.Kind == ingest.OwedGapRetry {
				return p.take(s, owed), nil
			}
			p.change(func() {
				p.epochs++
				p.rank("e1").Owed = &ingest.Owed{Epoch: p.epochs, Kind: ingest.OwedGapRetry, Since: time.Now(), FirstHeld: 60}
			})
			return []ingest.GraftResult{{RankEpoch: owed[0], Verdict: ingest.GraftGap}}, nil
		}
		r.know("b")
		r.pump.boot("e1", true)
		r.after(10 * time.Second)
		r.expect("the retry", "graft uid-e1 from b: grafted")
		wants := r.client.peer("b").wants
		if len(wants) != 2 || wants[1].MaxAge > 2*time.Second {
			t.Fatalf("got %+v", wants)
		}
	})
}

func TestARankSettledColdMidSweepIsNotSweptAgain(t *testing.T) {
	run(t, map[string]*fakePeer{"b": {err: errDown}}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.pump.boot("e2", true)
		r.after(time.Second)
		r.pump.with("e1", func(k *Rank) { k.Owed, k.Following, k.Outcome = nil, true, ingest.OutcomeOverflow })
		r.client.set("b", func(p *fakePeer) { *p = *warm("e1", "e2") })
		r.after(10 * time.Second)
		r.expect("the other alone", "graft uid-e2 from b: grafted")
	})
}

func TestABatchEveryRankLeftBeforeItsSweepStillRecordsAVerdict(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("x")}, func(r *rig) {
		r.know("b")
		r.pump.follow("e1", life("e1", "p1", 3, cursor.Origin))
		r.after(2 * time.Second)
		if got := r.count("bootstrap_sweep_total", "ranks_resolved"); got != 1 {
			t.Fatalf("counted %v times", got)
		}
		if ok, why := r.Ready(); !ok {
			t.Fatalf("not ready: %s", why)
		}
	}, func(o *Options) { o.SeedRequired = true })
}

func TestAnEmptiedBatchLeavesTheVerdictToARankStillPending(t *testing.T) {
	run(t, map[string]*fakePeer{"b": {err: errDown}}, func(r *rig) {
		r.know("b")
		r.pump.follow("e1", life("e1", "p1", 3, cursor.Origin))
		r.pump.boot("e2", true)
		r.after(2 * time.Second)
		if got := r.count("bootstrap_sweep_total", "ranks_resolved"); got != 0 {
			t.Fatalf("counted %v times while a rank is pending", got)
		}
	})
}

func TestDeliverBootstrapRecordsTheSweepVerdictOnce(t *testing.T) {
	run(t, map[string]*fakePeer{"b": hollow("e1", "e2")}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.pump.boot("e2", true)
		r.after(10 * time.Second)
		r.expect("both at once", "abandon [uid-e1 uid-e2]: fleet_cold")
		if got := r.count("bootstrap_sweep_total", "fleet_cold"); got != 1 {
			t.Fatalf("counted %v times", got)
		}
	})
}

// Whatever the pump does with it, an obligation is given up once for one reason.
func TestAnObligationIsGivenUpOnce(t *testing.T) {
	run(t, map[string]*fakePeer{"b": hollow("e1")}, func(r *rig) {
		r.pump.deaf = true
		r.know("b")
		r.pump.boot("e1", true)
		r.after(30 * time.Second)
		r.expect("told once", "abandon [uid-e1]: fleet_cold")
	})
}

func TestTheSweepRefusesToVetOnAHalfPublishedHashConfig(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("e1")}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.pump.with("e1", func(k *Rank) { k.Section.BlockSize = 0 })
		r.after(5 * time.Second)
		if got := len(r.client.peer("b").wants); got != 0 {
			t.Fatalf("%d fetches", got)
		}
	})
}

func TestLateWorkersStillBootstrap(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("e1")}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.after(2 * time.Minute)
		r.told()
		r.client.set("b", func(p *fakePeer) { p.rows = append(p.rows, warm("e2").rows...) })
		r.pump.boot("e2", true)
		r.after(2 * time.Second)
		r.expect("long after it settled", "graft uid-e2 from b: grafted")
		r.pump.boot("e3", true)
		r.after(59 * time.Second)
		for _, told := range r.told() {
			if strings.Contains(told, "abandon") {
				t.Fatalf("a late rank has a budget of its own: %s", told)
			}
		}
	})
}

func TestASweepOfALargeFleetHearsEverybodyInSomePasses(t *testing.T) {
	siblings, ids := map[string]*fakePeer{}, []string(nil)
	for i := range 3*surveyWidth + 1 {
		id := fmt.Sprintf("p%03d", i)
		siblings[id], ids = hollow("e1"), append(ids, id)
	}
	run(t, siblings, func(r *rig) {
		r.know(ids...)
		r.pump.boot("e1", true)
		r.after(200 * time.Millisecond)
		r.expect("not everybody was heard")
		r.after(5 * time.Second)
		r.expect("everybody was heard", "abandon [uid-e1]: fleet_cold")
		for id := range siblings {
			if got := r.client.peer(id).asked; got == 0 || got > 4 {
				t.Fatalf("%s was asked %d times", id, got)
			}
		}
	})
}

func TestMigrationAsksAnUpstreamRouterOnceWithAllTheTimeThatIsLeft(t *testing.T) {
	migrating := func(o *Options) {
		o.Upstream, o.UpstreamPeers = true, peers.NewRegistry([]peers.Peer{{ID: "up", Name: "up", URL: "http://up"}}, false, nil)
	}
	run(t, map[string]*fakePeer{"up": {ready: true, rows: warm("e1").rows}}, func(r *rig) {
		r.know()
		r.pump.boot("e1", true)
		r.after(2 * time.Second)
		r.expect("from upstream", "graft uid-e1 from up: grafted")
		if got := r.client.peer("up").asked; got != 0 {
			t.Fatalf("its cursors were asked for %d times", got)
		}
	}, migrating)
	slow := &fakePeer{ready: true, rows: warm("e1", "e2").rows, delay: 3 * time.Second}
	run(t, map[string]*fakePeer{"up": slow}, func(r *rig) {
		r.know()
		r.pump.boot("e1", true)
		r.pump.boot("e2", false)
		r.after(2 * time.Second)
		r.pump.with("e2", func(k *Rank) {
			r.pump.epochs++
			k.Owed = &ingest.Owed{Epoch: r.pump.epochs, Kind: ingest.OwedBoot, Since: time.Now(), FirstHeld: ingest.NothingHeld}
		})
		r.after(2 * time.Second)
		r.expect("while it is being asked")
		r.after(2 * time.Second)
		r.expect("all ranks at once", "graft uid-e1 from up: grafted", "graft uid-e2 from up: grafted")
	}, migrating)
	run(t, map[string]*fakePeer{"up": {fetchErr: errDown}}, func(r *rig) {
		r.know()
		r.pump.boot("e1", true)
		r.after(2 * time.Second)
		r.expect("one attempt", "abandon [uid-e1]: no_peers")
	}, migrating)
}

func TestProgressIsLoggedEveryTwoSecondsAndInTheStatus(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("e1")}, func(r *rig) {
		release := make(chan struct{})
		r.pump.graft = func(p *fakePump, s Section, owed []ingest.RankEpoch) ([]ingest.GraftResult, error) {
			<-release
			return p.take(s, owed), nil
		}
		r.know("b")
		r.pump.boot("e1", true)
		r.after(10*time.Second + 500*time.Millisecond)
		s := r.status()
		if s.Progress == nil || s.Progress.Bytes != 1000 || s.Progress.BytesTotal != 4000 || s.Progress.SecondsLeft == 0 || s.State != status.StateBootstrapping {
			t.Fatalf("got %+v", s.Progress)
		}
		if n := strings.Count(r.log.String(), "msg=bootstrap "); n < 4 || n > 6 {
			t.Fatalf("%d lines of progress in ten seconds\n%s", n, r.log)
		}
		close(release)
		r.after(time.Second)
		if r.status().Progress != nil {
			t.Fatal("progress after the end")
		}
	})
}
