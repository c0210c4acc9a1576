package bootstrap

import (
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/peers"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

const (
	unknown   = "0"
	noAdvance = "1"
	advanced  = "2"
)

// graftedAt has a rank follow a graft whose seam is not proven, made now.
func (r *rig) graftedAt(worker string, seq int64) {
	r.pump.follow(worker, life(worker, "p1", seq, cursor.Proven), func(k *Rank) {
		r.pump.epochs++
		k.SeededFrom, k.Outcome = "gone", ingest.OutcomeNone
		k.Awaiting = &ingest.Awaiting{Epoch: r.pump.epochs, Watermark: k.Cursor, Since: time.Now()}
	})
}

// witness is a sibling whose cursor of a rank stands somewhere.
func witness(worker string, seq int64, more ...func(*snapshot.TableRow)) *fakePeer {
	return &fakePeer{ready: true, rows: []snapshot.TableRow{holds(worker, life(worker, "p1", seq, cursor.Proven), more...)}}
}

func TestProbeJudgesWhatWitnessesSay(t *testing.T) {
	for name, c := range map[string]struct {
		siblings map[string]*fakePeer
		want     string
	}{
		"reports no advance when the best witness is at the watermark": {map[string]*fakePeer{"b": witness("e1", 5), "c": witness("e1", 3)}, noAdvance},
		"reports advance when a witness is past the watermark":         {map[string]*fakePeer{"b": witness("e1", 5), "c": witness("e1", 6)}, advanced},
		"ignores a witness below the watermark":                        {map[string]*fakePeer{"b": witness("e1", 4)}, unknown},
		"ignores a body that does not name the rank":                   {map[string]*fakePeer{"b": witness("other", 9)}, unknown},
		"ignores a peer that does not answer":                          {map[string]*fakePeer{"b": {err: errDown}}, unknown},
		"ignores a witness of another life": {map[string]*fakePeer{"b": witness("e1", 9, func(r *snapshot.TableRow) {
			r.Cursor.Incarnation.Start.ID = "p2"
		})}, unknown},
		"ignores a witness whose time contradicts": {map[string]*fakePeer{"b": witness("e1", 9, func(r *snapshot.TableRow) {
			r.Cursor.Time = kvevents.Stamp(1)
		})}, unknown},
		"ignores a witness without a start": {map[string]*fakePeer{"b": witness("e1", 9, func(r *snapshot.TableRow) {
			r.Cursor.Incarnation.Start = cursor.Start{}
		})}, unknown},
		"takes no word of rest from who is proving itself": {map[string]*fakePeer{"b": witness("e1", 5, func(r *snapshot.TableRow) {
			r.Exportable = false
		})}, unknown},
		"takes no word of rest from who descends from us": {map[string]*fakePeer{"b": witness("e1", 5, func(r *snapshot.TableRow) {
			r.SeededFrom = "me"
		})}, unknown},
		"believes a descendant that is ahead": {map[string]*fakePeer{"b": witness("e1", 6, func(r *snapshot.TableRow) {
			r.SeededFrom = "me"
		})}, advanced},
		"believes a format without times in nothing": {map[string]*fakePeer{"b": func() *fakePeer {
			p := witness("e1", 6)
			p.format = 1
			return p
		}()}, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, c.siblings, func(r *rig) {
				r.know("b", "c")
				r.after(time.Second)
				r.told()
				r.graftedAt("e1", 5)
				r.after(2500 * time.Millisecond)
				r.expect("before its time")
				r.after(8 * time.Second)
				r.expect("at its time", "witness uid-e1 at 5: "+c.want)
			})
		})
	}
}

func TestAProbeIsAskedThreeSecondsAfterTheGraftAndThenEveryThirty(t *testing.T) {
	run(t, map[string]*fakePeer{"b": witness("e1", 4)}, func(r *rig) {
		r.know("b")
		r.graftedAt("e1", 5)
		count := func(when string, want int) {
			t.Helper()
			if got := len(r.told()); got != want {
				t.Fatalf("%s: %d questions, want %d\n%s", when, got, want, r.log)
			}
		}
		r.after(5 * time.Second)
		count("after 5 s", 1)
		r.after(25 * time.Second)
		count("after 30 s", 0)
		r.after(5 * time.Second)
		count("after 35 s", 1)
		r.after(60 * time.Second)
		count("after 95 s", 2)
	})
}

func TestProbePassJudgesEveryTargetFromOneFetch(t *testing.T) {
	b := witness("e1", 5)
	b.rows = append(b.rows, witness("e2", 9).rows...)
	run(t, map[string]*fakePeer{"b": b}, func(r *rig) {
		r.know("b")
		r.graftedAt("e1", 5)
		r.graftedAt("e2", 5)
		r.after(5 * time.Second)
		r.expect("both", "witness uid-e1 at 5: "+noAdvance, "witness uid-e2 at 5: "+advanced)
		if got := r.client.peer("b").asked; got != 1 {
			t.Fatalf("it was asked %d times", got)
		}
	})
}

func TestProbePassGivesUpOnAHungPeerWithinItsBudget(t *testing.T) {
	hung := witness("e1", 9)
	hung.delay = time.Hour
	run(t, map[string]*fakePeer{"hung": hung, "b": witness("e1", 5)}, func(r *rig) {
		r.know("hung", "b")
		r.graftedAt("e1", 5)
		r.after(4*time.Second + askTimeout)
		r.expect("the one that answered", "witness uid-e1 at 5: "+noAdvance)
	})
	if surveyBudget >= probeEvery {
		t.Fatal("two passes could overlap")
	}
}

func TestAGraftWithoutAnySiblingLeftIsUnwitnessed(t *testing.T) {
	run(t, nil, func(r *rig) {
		r.know()
		r.graftedAt("e1", 5)
		r.after(70 * time.Second)
		r.expect("three times nobody", "witness uid-e1 at 5: "+unknown, "witness uid-e1 at 5: "+unknown, "witness uid-e1 at 5: "+unknown)
	})
}

// A graft made while peers are being asked is not judged by answers from before.
func TestProbeVerdictsAreOfAfterTheGraft(t *testing.T) {
	slow := witness("e1", 5)
	slow.rows = append(slow.rows, witness("e2", 5).rows...)
	slow.delay = 4 * time.Second
	run(t, map[string]*fakePeer{"b": slow}, func(r *rig) {
		r.know("b")
		r.graftedAt("e1", 5)
		r.after(5 * time.Second) // e1 is being asked about
		r.graftedAt("e2", 5)
		r.after(3 * time.Second)
		r.expect("e1 alone", "witness uid-e1 at 5: "+noAdvance)
	})
}

// A question that cannot be judged yet is not asked in a loop.
func TestSurveysKeepALeastDistance(t *testing.T) {
	run(t, map[string]*fakePeer{"b": witness("e1", 4)}, func(r *rig) {
		r.know("b")
		r.graftedAt("e1", 5)
		r.pump.with("e1", func(k *Rank) {
			awaiting := *k.Awaiting
			awaiting.Since = time.Now().Add(time.Hour) // a clock that is ahead
			k.Awaiting = &awaiting
		})
		memory := &rankMemory{probeEpoch: r.pump.epochs, probeAt: time.Now(), behindAt: -1, named: map[string]naming{}}
		r.Coordinator.mu.Lock()
		r.machine.mem[r.pump.rank("e1").Rank] = memory
		r.Coordinator.mu.Unlock()
		before := r.client.peer("b").asked
		r.after(10 * time.Second)
		if got := r.client.peer("b").asked - before; got > 101 {
			t.Fatalf("asked %d times in ten seconds", got)
		}
	})
}

func TestASeamThatIsNotProvenBlocksTheVerdictAndNotReadiness(t *testing.T) {
	run(t, map[string]*fakePeer{"b": witness("e1", 4)}, func(r *rig) {
		r.know("b")
		r.graftedAt("e1", 5)
		r.after(2 * time.Second)
		if ok, why := r.Ready(); !ok {
			t.Fatalf("not ready: %s", why)
		}
		if s := r.status(); s.Ranks.Proving != 1 || s.State != status.StateSettled {
			t.Fatalf("got %+v", s)
		}
	})
}

func TestAReplicaThatIsNoPodTakesStrangersNamesForItsOwn(t *testing.T) {
	m := &machine{world: world{set: peers.Set{Peers: []peers.Peer{{ID: "http://b:1", Name: "b:1", URL: "http://b:1"}}}}}
	for name, want := range map[string]bool{"": false, "b:1": false, "http://b:1": false, "c:1": true} {
		if got := m.descends(name); got != want {
			t.Errorf("%q: got %v", name, got)
		}
	}
}
