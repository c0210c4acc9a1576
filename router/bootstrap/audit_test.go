package bootstrap

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

func digest(d uint64) func(*snapshot.TableRow) {
	return func(r *snapshot.TableRow) { r.Digest = d }
}

// audited runs two minutes of audits of one rank at seq 5 with digest 7 against siblings, and gives what the pump was told.
func audited(t *testing.T, siblings map[string]*fakePeer, mine ...func(*Rank)) (told []string) {
	t.Helper()
	run(t, siblings, func(r *rig) {
		var ids []string
		for id := range siblings {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		r.know(ids...)
		r.pump.follow("e1", life("e1", "p1", 5, cursor.Proven), mine...)
		r.after(62 * time.Second)
		told = r.told()
	})
	return told
}

func expectTold(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnEqualAuditClearsASuspicionAndIsSilentOtherwise(t *testing.T) {
	same := func() map[string]*fakePeer { return map[string]*fakePeer{"b": witness("e1", 5)} }
	expectTold(t, audited(t, same()))
	expectTold(t, audited(t, same(), func(k *Rank) { k.Suspect = true }), "equal uid-e1 at 5")
}

func TestARankThatDiffersFromTheOnlySiblingIsAloneWithItsDoubt(t *testing.T) {
	expectTold(t, audited(t, map[string]*fakePeer{"b": witness("e1", 5, digest(8))}), "suspect uid-e1 at 5: 0")
}

func TestARankThatDiffersFromAllOfTwoIsInTheMinority(t *testing.T) {
	expectTold(t, audited(t, map[string]*fakePeer{"b": witness("e1", 5, digest(8)), "c": witness("e1", 5, digest(8))}), "suspect uid-e1 at 5: 1")
}

// The corrupt one is the sibling: whoever agrees with a third is not suspect.
func TestARankThatAgreesWithAThirdIsNotSuspect(t *testing.T) {
	for range 5 { // whichever is audited first
		expectTold(t, audited(t, map[string]*fakePeer{"b": witness("e1", 5, digest(8)), "c": witness("e1", 5)}))
	}
}

func TestTheWeakDoesNotAccuseTheStrong(t *testing.T) {
	weak := holds("e1", life("e1", "p1", 5, cursor.Unwitnessed), digest(8))
	expectTold(t, audited(t, map[string]*fakePeer{"b": {ready: true, rows: []snapshot.TableRow{weak}}}))
	strong := holds("e1", life("e1", "p1", 5, cursor.Origin), digest(8))
	expectTold(t, audited(t, map[string]*fakePeer{"b": {ready: true, rows: []snapshot.TableRow{strong}}}), "suspect uid-e1 at 5: 2")
}

func TestWhatCannotBeComparedMakesNobodySuspect(t *testing.T) {
	differs := func(more ...func(*snapshot.TableRow)) map[string]*fakePeer {
		return map[string]*fakePeer{"b": witness("e1", 5, append(more, digest(8))...)}
	}
	for name, c := range map[string]struct {
		siblings map[string]*fakePeer
		mine     func(*Rank)
	}{
		"another seq":               {map[string]*fakePeer{"b": witness("e1", 4, digest(8))}, func(*Rank) {}},
		"another life":              {differs(func(r *snapshot.TableRow) { r.Cursor.Incarnation.Start.ID = "p2" }), func(*Rank) {}},
		"another version":           {differs(func(r *snapshot.TableRow) { r.DigestVersion = 2 }), func(*Rank) {}},
		"a partial sibling":         {differs(partial), func(*Rank) {}},
		"a proving sibling":         {differs(func(r *snapshot.TableRow) { r.Exportable = false }), func(*Rank) {}},
		"a walked-into sibling":     {differs(func(r *snapshot.TableRow) { r.WalkedTo = 6 }), func(*Rank) {}},
		"an untrusted sibling":      {differs(func(r *snapshot.TableRow) { r.Cursor.Proof = cursor.Untrusted }), func(*Rank) {}},
		"ours is partial":           {differs(), func(k *Rank) { k.Cursor.Partial = true }},
		"ours is untrusted":         {differs(), func(k *Rank) { k.Cursor.Proof = cursor.Untrusted }},
		"ours is proving":           {differs(), func(k *Rank) { k.Following, k.Proving = false, true }},
		"ours was walked into":      {differs(), func(k *Rank) { k.WalkedTo = 6 }},
		"ours awaits its proof":     {differs(), func(k *Rank) { k.Awaiting = &ingest.Awaiting{Since: time.Now().Add(time.Hour)} }},
		"ours is not connected now": {differs(), func(k *Rank) { k.Connected = false }},
	} {
		t.Run(name, func(t *testing.T) { expectTold(t, audited(t, c.siblings, c.mine)) })
	}
}

func TestColdStartedReplicaBesideWarmOneMakesNobodySuspect(t *testing.T) {
	run(t, map[string]*fakePeer{"b": witness("e1", 5, digest(8))}, func(r *rig) {
		r.know("b")
		r.pump.follow("e1", life("e1", "p1", 5, cursor.Proven), func(k *Rank) { // it joined in mid-stream
			k.Cursor.Partial, k.Outcome, k.Blocks = true, ingest.OutcomeAbandoned, 3
		})
		r.after(10 * time.Minute)
		for _, told := range r.told() {
			if strings.HasPrefix(told, "suspect") {
				t.Fatalf("told %q", told)
			}
		}
		r.expectVerdict("beside a warm one", status.VerdictColdPartial)
	})
}

// H9: a lost tail shows only by a sibling that is ahead; the pump decides the second time running.
func TestASiblingThatIsAheadIsReportedWithEveryAudit(t *testing.T) {
	for name, row := range map[string]func(*snapshot.TableRow){
		"proven": func(*snapshot.TableRow) {}, "partial": partial,
		"untrusted": func(r *snapshot.TableRow) { r.Cursor.Proof = cursor.Untrusted },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, map[string]*fakePeer{"b": witness("e1", 9, row)}, func(r *rig) {
				r.know("b")
				r.pump.follow("e1", life("e1", "p1", 5, cursor.Proven))
				r.after(62 * time.Second)
				r.expect("once", "behind uid-e1 at 5 of 9")
				r.after(77 * time.Second)
				if got := r.told(); len(got) == 0 || got[0] != "behind uid-e1 at 5 of 9" {
					t.Fatalf("told %q", got)
				}
			})
		})
	}
}

func TestAuditRepairsAreTwoAMinuteAtMost(t *testing.T) {
	b := &fakePeer{ready: true}
	for i := range 6 {
		b.rows = append(b.rows, witness(fmt.Sprint("e", i), 9).rows...)
	}
	run(t, map[string]*fakePeer{"b": b}, func(r *rig) {
		r.know("b")
		for i := range 6 {
			w := fmt.Sprint("e", i)
			r.pump.follow(w, life(w, "p1", 5, cursor.Proven))
		}
		r.after(62 * time.Second)
		if got := len(r.told()); got != 6 {
			t.Fatalf("%d reports the first time: they begin nothing", got)
		}
		r.after(46 * time.Second)
		r.after(31 * time.Second)
		if got := len(r.told()); got < 2 || got > 4 {
			t.Fatalf("%d reports the second time", got)
		}
	})
}

func TestAuditsAskOneSiblingAMinute(t *testing.T) {
	siblings, ids := map[string]*fakePeer{}, []string(nil)
	for i := range 5 {
		id := fmt.Sprint("p", i)
		siblings[id], ids = witness("e1", 5), append(ids, id)
	}
	run(t, siblings, func(r *rig) {
		r.know(ids...)
		r.pump.follow("e1", life("e1", "p1", 5, cursor.Proven))
		r.after(time.Hour)
		sum := 0
		for _, id := range ids {
			n := r.client.peer(id).asked
			if sum += n; n == 0 {
				t.Errorf("%s was never asked", id)
			}
		}
		if sum < 45 || sum > 80 {
			t.Fatalf("%d questions in an hour", sum)
		}
	})
}
