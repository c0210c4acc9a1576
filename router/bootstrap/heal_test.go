package bootstrap

import (
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// cold has a rank serve what it saw from the middle of its stream on.
func (r *rig) cold(worker string, more ...func(*Rank)) {
	r.pump.follow(worker, life(worker, "p1", 20, cursor.Proven), append([]func(*Rank){func(k *Rank) {
		k.Cursor.Partial, k.Outcome = true, ingest.OutcomeAbandoned
	}}, more...)...)
	r.pump.owe(worker, ingest.OwedHeal)
}

func TestAFailedRankIsSweptAgainWhileASiblingHoldsIt(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("e1")}, func(r *rig) {
		r.know("b")
		r.after(10 * time.Second)
		r.cold("e1")
		r.after(20 * time.Second)
		r.expect("before its time")
		r.after(20 * time.Second)
		r.expect("afterwards", "keep [uid-e1]", "graft uid-e1 from b: grafted")
		if wants := r.client.peer("b").wants; len(wants) != 1 || wants[0].MaxAge > 2*time.Second {
			t.Fatalf("the export must be younger than what is kept: %+v", wants)
		}
		if got := r.count("bootstrap_resweep_total", "grafted"); got != 1 {
			t.Fatalf("counted %v times", got)
		}
		if got := r.count("bootstrap_sweep_total", "found"); got != 0 {
			t.Fatal("a heal was counted as a sweep")
		}
	})
}

func TestHealsBackOffFromHalfAMinuteToTen(t *testing.T) {
	run(t, map[string]*fakePeer{"b": {err: errDown}}, func(r *rig) {
		r.know("b")
		r.after(10 * time.Second)
		r.cold("e1")
		before := r.client.peer("b").asked
		r.after(90 * time.Minute)
		// Audits ask once a minute; heals after 30 s, 60 s, 2, 4, 8, 10, 10 .. min, give or take a quarter.
		heals := r.count("bootstrap_resweep_total", "nothing_better")
		if heals < 10 || heals > 16 {
			t.Fatalf("%v heals in 90 minutes", heals)
		}
		if got := r.client.peer("b").asked - before; got > 150 {
			t.Fatalf("%d questions", got)
		}
		r.expect("nobody has better")
	})
}

func TestANewSiblingIsAskedSoon(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("e1")}, func(r *rig) {
		r.know()
		r.cold("e1")
		r.after(30 * time.Minute)
		r.told()
		r.know("b")
		r.after(10 * time.Second)
		r.expect("soon", "keep [uid-e1]", "graft uid-e1 from b: grafted")
	})
}

func TestWhatIsBetterForAHeal(t *testing.T) {
	old := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	whole := func(p cursor.Proof) snapshot.TableRow { return holds("e1", life("e1", "p1", 40, p)) }
	part := holds("e1", life("e1", "p1", 40, cursor.Proven), partial)
	complete := func(p cursor.Proof) func(*Rank) {
		return func(k *Rank) { k.Cursor.Partial, k.Cursor.Proof, k.SeededFrom = false, p, "gone" }
	}
	for name, c := range map[string]struct {
		row   snapshot.TableRow
		since time.Time
		mine  func(*Rank)
		want  bool
	}{
		"complete for partial":            {whole(cursor.Proven), time.Time{}, func(*Rank) {}, true},
		"unwitnessed for partial":         {whole(cursor.Unwitnessed), time.Time{}, func(*Rank) {}, false},
		"proven for unwitnessed":          {whole(cursor.Proven), time.Time{}, complete(cursor.Unwitnessed), true},
		"unwitnessed for unwitnessed":     {whole(cursor.Unwitnessed), time.Time{}, complete(cursor.Unwitnessed), false},
		"proven for untrusted":            {whole(cursor.Proven), time.Time{}, complete(cursor.Untrusted), true},
		"partial for untrusted":           {part, old, complete(cursor.Untrusted), false},
		"older partial for never grafted": {part, old, func(*Rank) {}, true},
		"partial of unknown age":          {part, time.Time{}, func(*Rank) {}, false},
		"partial for nothing at all": {part, time.Time{}, func(k *Rank) {
			k.Following, k.Cold, k.Blocks, k.Life = false, true, 0, 0
			k.Cursor = cursor.Cursor{Incarnation: k.Cursor.Incarnation}
		}, true},
		"as young a partial":                    {part, time.Date(2000, 1, 1, 0, 0, 3, 0, time.UTC), func(*Rank) {}, false},
		"older partial for a grafted one":       {part, old, func(k *Rank) { k.SeededFrom = "gone" }, false},
		"older partial that descends from us":   {holds("e1", life("e1", "p1", 40, cursor.Proven), partial, func(r *snapshot.TableRow) { r.SeededFrom = "me" }), old, func(*Rank) {}, false},
		"complete, but of another life":         {holds("e1", life("e1", "p2", 40, cursor.Proven)), old, func(*Rank) {}, false},
		"complete, but of a life nobody named":  {holds("e1", cursor.Cursor{Seq: 40, Proof: cursor.Proven}), old, func(*Rank) {}, false},
		"complete, but it holds nothing at all": {holds("e1", life("e1", "p1", 40, cursor.Proven), func(r *snapshot.TableRow) { r.Blocks = 0 }), old, func(*Rank) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, map[string]*fakePeer{"b": {ready: true, since: c.since, rows: []snapshot.TableRow{c.row}}}, func(r *rig) {
				r.know("b")
				r.cold("e1", c.mine)
				r.after(50 * time.Second)
				got := false
				for _, told := range r.told() {
					got = got || told == "keep [uid-e1]"
				}
				if got != c.want {
					t.Fatalf("swept again: %v, want %v\n%s", got, c.want, r.log)
				}
			})
		})
	}
}

// What the pump keeps for a heal is memory: an attempt that failed ends it.
func TestAFailedHealEndsWhatIsKeptForIt(t *testing.T) {
	b := warm("e1")
	b.fetchErr = errDown
	run(t, map[string]*fakePeer{"b": b}, func(r *rig) {
		r.know("b")
		r.cold("e1")
		r.after(45 * time.Second)
		r.expect("given up", "keep [uid-e1]", "abandon [uid-e1]: uncovered")
	})
}
