package bootstrap

import (
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// gap has a following rank at seq 20 hold batches from 30 on.
func (r *rig) gap(worker string) {
	r.pump.follow(worker, life(worker, "p1", 20, cursor.Proven))
	r.pump.owe(worker, ingest.OwedRepair, func(o *ingest.Owed) {
		o.FirstHeld, o.Deadline = 30, time.Now().Add(15*time.Second)
	})
}

func TestAGapIsRepairedFromASiblingBeyondIt(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("e1")}, func(r *rig) {
		r.know("b")
		r.gap("e1")
		r.after(time.Second)
		r.expect("at once", "graft uid-e1 from b: grafted")
		if wants := r.client.peer("b").wants; wants[0].MaxAge > time.Second {
			t.Fatalf("the export may be %v old", wants[0].MaxAge)
		}
	})
}

func TestARepairTakesOnlyASolidStateOfTheSameLifeBeyondTheGap(t *testing.T) {
	for name, row := range map[string]snapshot.TableRow{
		"behind the gap":   holds("e1", life("e1", "p1", 28, cursor.Proven)),
		"unwitnessed":      holds("e1", life("e1", "p1", 40, cursor.Unwitnessed)),
		"untrusted":        holds("e1", life("e1", "p1", 40, cursor.Untrusted)),
		"partial":          holds("e1", life("e1", "p1", 40, cursor.Proven), partial),
		"another life":     holds("e1", life("e1", "p2", 40, cursor.Proven)),
		"a life not known": holds("e1", life("e1", "p1", 40, cursor.Proven), func(r *snapshot.TableRow) { r.Cursor.Incarnation.Start = cursor.Start{} }),
		"not exported":     holds("e1", life("e1", "p1", 40, cursor.Proven), func(r *snapshot.TableRow) { r.Exportable = false }),
	} {
		t.Run(name, func(t *testing.T) {
			run(t, map[string]*fakePeer{"b": {ready: true, rows: []snapshot.TableRow{row}}}, func(r *rig) {
				r.know("b")
				r.gap("e1")
				r.after(5 * time.Second)
				r.expect("nobody can help", "abandon [uid-e1]: nothing_to_recover")
				if got := r.client.peer("b").asked; got != repairSurveys {
					t.Fatalf("asked %d times", got)
				}
			})
		})
	}
	run(t, map[string]*fakePeer{"b": {ready: true, rows: []snapshot.TableRow{holds("e1", life("e1", "p1", 29, cursor.Proven))}}}, func(r *rig) {
		r.know("b")
		r.gap("e1")
		r.after(time.Second)
		r.expect("just at the gap", "graft uid-e1 from b: grafted")
	})
}

func TestARepairMustReachItsGoal(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("e1")}, func(r *rig) {
		r.know("b")
		r.pump.follow("e1", life("e1", "p1", 20, cursor.Proven))
		r.pump.owe("e1", ingest.OwedRepair, func(o *ingest.Owed) { o.Goal = 41 })
		r.after(5 * time.Second)
		r.expect("a sibling was further already", "abandon [uid-e1]: nothing_to_recover")
	})
}

func TestARepairWithoutSiblingsIsGivenUpAtOnce(t *testing.T) {
	run(t, nil, func(r *rig) {
		r.know()
		r.gap("e1")
		r.after(100 * time.Millisecond)
		r.expect("batches must not be held for nobody", "abandon [uid-e1]: no_peers")
	})
}

func TestARepairDoesNotWaitForABootsFetch(t *testing.T) {
	slow := warm("e2")
	slow.delay = 4 * time.Second
	run(t, map[string]*fakePeer{"slow": slow, "b": warm("e1")}, func(r *rig) {
		r.know("slow", "b")
		r.pump.boot("e2", true)
		r.after(4500 * time.Millisecond) // the boot's body is under way
		r.gap("e1")
		r.client.set("slow", func(p *fakePeer) { p.delay = 0 })
		r.after(2 * time.Second)
		r.expect("the gap first", "graft uid-e1 from b: grafted")
		r.after(3 * time.Second)
		r.expect("then the boot", "graft uid-e2 from slow: grafted")
	})
}

func TestAFailedRepairIsTriedAtTheNextSibling(t *testing.T) {
	dying := warm("e1")
	dying.breaks = true
	run(t, map[string]*fakePeer{"dying": dying, "other": warm("e1")}, func(r *rig) {
		r.client.set("other", func(p *fakePeer) { p.builds = 9 })
		r.know("dying", "other")
		r.gap("e1")
		r.after(3 * time.Second)
		r.expect("the next", "graft uid-e1 from other: grafted")
	})
}
