package bootstrap

import (
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/peers"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

func graftedRank(worker string, p cursor.Proof) Rank {
	return Rank{Rank: named(worker), Following: true, Cursor: cursor.Cursor{Proof: p}, SeededFrom: "b", Blocks: 1}
}

func TestTheVerdictIsTheFirstLineThatHolds(t *testing.T) {
	known := peers.Set{Peers: []peers.Peer{{ID: "b"}}, Synced: true, EverHad: true}
	said := func(a Answer, ours bool) []asked { return []asked{{answer: a, ours: ours}} }
	cov := func(recovered, recoverable int) status.Coverage {
		return status.Coverage{Recovered: recovered, Recoverable: recoverable}
	}
	for name, c := range map[string]struct {
		f    facts
		want status.Verdict
	}{
		"not settled":                       {facts{ranks: []Rank{recoveredRank("a")}, coverage: cov(1, 1)}, status.VerdictUnknown},
		"all recovered":                     {facts{settled: true, set: known, ranks: []Rank{graftedRank("a", cursor.Proven)}, coverage: cov(1, 1)}, status.VerdictWarm},
		"every rank origin, nobody asked":   {facts{settled: true, ranks: []Rank{recoveredRank("a")}, coverage: cov(1, 1)}, status.VerdictWarm},
		"only thanks to unwitnessed ranks":  {facts{settled: true, set: known, ranks: []Rank{graftedRank("a", cursor.Unwitnessed)}, coverage: cov(1, 1)}, status.VerdictWarmUnwitnessed},
		"less than was to be had":           {facts{settled: true, set: known, answers: said(AnswerWarm, true), ranks: []Rank{graftedRank("a", cursor.Proven), failedRank("b")}, coverage: cov(1, 2)}, status.VerdictColdPartial},
		"a rank nobody could be asked for":  {facts{settled: true, set: known, answers: said(AnswerUnreachable, false), ranks: []Rank{recoveredRank("a"), failedRank("b")}, coverage: cov(1, 1)}, status.VerdictColdTimedOut},
		"a rank everybody has nothing of":   {facts{settled: true, set: known, answers: said(AnswerWarm, true), ranks: []Rank{recoveredRank("a"), failedRank("b")}, coverage: cov(1, 1)}, status.VerdictWarm},
		"alone":                             {facts{settled: true, alone: true, set: peers.Set{Synced: true}, ranks: []Rank{failedRank("a")}}, status.VerdictColdNoPeers},
		"everybody answered with nothing":   {facts{settled: true, set: known, answers: said(AnswerCold, false), ranks: []Rank{failedRank("a")}}, status.VerdictColdFleet},
		"somebody holds other ranks":        {facts{settled: true, set: known, answers: said(AnswerWarm, false), ranks: []Rank{failedRank("a")}}, status.VerdictColdFleet},
		"refused":                           {facts{settled: true, set: known, answers: said(AnswerRefused, false), ranks: []Rank{failedRank("a")}}, status.VerdictColdTimedOut},
		"unreadable":                        {facts{settled: true, set: known, answers: said(AnswerUnreadable, false), ranks: []Rank{failedRank("a")}}, status.VerdictColdTimedOut},
		"never asked":                       {facts{settled: true, set: known, answers: said(AnswerNone, false), ranks: []Rank{failedRank("a")}}, status.VerdictColdTimedOut},
		"nobody was told":                   {facts{settled: true, ranks: []Rank{failedRank("a")}}, status.VerdictColdTimedOut},
		"the siblings are gone for now":     {facts{settled: true, set: peers.Set{Synced: true, EverHad: true}, ranks: []Rank{failedRank("a")}}, status.VerdictColdTimedOut},
		"no ranks at all and nobody asked":  {facts{settled: true}, status.VerdictColdTimedOut},
		"no ranks at all, and alone":        {facts{settled: true, alone: true}, status.VerdictColdNoPeers},
		"nineteen of twenty is warm enough": {facts{settled: true, set: known, answers: said(AnswerWarm, true), ranks: many(19, 1), coverage: cov(19, 20)}, status.VerdictWarm},
		"nine of ten is not":                {facts{settled: true, set: known, answers: said(AnswerWarm, true), ranks: many(9, 1), coverage: cov(9, 10)}, status.VerdictColdPartial},
	} {
		if got := c.f.verdict(); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func many(good, bad int) (out []Rank) {
	for range good {
		out = append(out, graftedRank("a", cursor.Proven))
	}
	for range bad {
		out = append(out, failedRank("b"))
	}
	return out
}

// A replica that could not ask is never warm, whatever it follows.
func TestNothingAskedIsNeverWarm(t *testing.T) {
	warmVerdict := func(v status.Verdict) bool { return v == status.VerdictWarm || v == status.VerdictWarmUnwitnessed }
	answers := []Answer{AnswerNone, AnswerUnreachable, AnswerRefused, AnswerUnreadable}
	ranks := map[string][]Rank{
		"none": nil, "one failed": {failedRank("a")}, "one origin, one failed": {recoveredRank("a"), failedRank("b")},
		"one pending": {pendingRank("a")},
	}
	for _, synced := range []bool{true, false} {
		for _, answer := range answers {
			for name, list := range ranks {
				m := newMachine(Options{Rand: func() uint64 { return 1 }, Timeout: time.Minute}, nil, at(0))
				f := facts{
					settled: true, ranks: list, coverage: m.coverage(list), answers: []asked{{answer: answer}},
					set: peers.Set{Synced: synced, EverHad: true, Peers: []peers.Peer{{ID: "b"}}},
				}
				if got := f.verdict(); warmVerdict(got) {
					t.Errorf("synced %v, answer %q, %s: %s", synced, answer, name, got)
				}
			}
		}
	}
	run(t, map[string]*fakePeer{"b": {err: errDown}}, func(r *rig) {
		r.know("b")
		r.pump.follow("e1", life("e1", "p1", 3, cursor.Origin))
		r.pump.boot("e2", true)
		r.after(2 * time.Minute)
		r.expectVerdict("its only sibling is silent", status.VerdictColdTimedOut)
	})
	run(t, nil, func(r *rig) {
		r.pump.boot("e1", true)
		r.after(2 * time.Minute)
		r.expectVerdict("nobody told who the siblings are", status.VerdictColdTimedOut)
	})
}

// The first replica of a fleet and the one it taught: neither lacks what the other has.
func TestTheFirstReplicaIsNotColdPartialForWhatItTaughtOthers(t *testing.T) {
	run(t, map[string]*fakePeer{}, func(r *rig) {
		r.know()
		r.pump.boot("e1", true)
		r.after(2 * time.Second)
		r.pump.with("e1", func(k *Rank) {
			k.Cursor, k.Blocks, k.Life = life("e1", "p1", 20, cursor.Proven), 10, 1
			k.Cursor.Partial = true
		})
		r.after(2 * time.Second)
		r.expectVerdict("alone", status.VerdictColdNoPeers)
		since := r.status().SeedableSince
		pupil := &fakePeer{ready: true, since: since, rows: []snapshot.TableRow{
			holds("e1", life("e1", "p1", 20, cursor.Proven), partial, func(r *snapshot.TableRow) { r.SeededFrom = "me" }),
		}}
		r.client.mu.Lock()
		r.client.peers["pupil"] = pupil
		r.client.mu.Unlock()
		r.know("pupil")
		r.after(10 * time.Minute)
		if s := r.status(); s.Verdict == status.VerdictColdPartial || s.Coverage.Recoverable != 0 {
			t.Fatalf("got %s, %+v", s.Verdict, s.Coverage)
		}
		if got := r.status().SeedableSince; !got.Equal(since) {
			t.Fatalf("its content grew younger: %v, was %v", got, since)
		}
	})
}

func TestAWholeGraftInheritsTheAgeOfItsSource(t *testing.T) {
	old := time.Date(1999, 5, 5, 0, 0, 0, 0, time.UTC)
	b := warm("e1", "e2")
	b.since = old
	run(t, map[string]*fakePeer{"b": b}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.pump.boot("e2", true)
		r.after(2 * time.Second)
		if s := r.status(); !s.Seedable || !s.SeedableSince.Equal(old) {
			t.Fatalf("got %v, want %v", s.SeedableSince, old)
		}
	})
	half := warm("e1")
	half.since = old
	half.rows = append(half.rows, holds("e2", life("e2", "p1", 40, cursor.Proven)))
	half.hides = []string{"e2"}
	run(t, map[string]*fakePeer{"b": half}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.pump.boot("e2", true)
		r.after(2 * time.Minute)
		if s := r.status(); s.Verdict != status.VerdictColdPartial || s.SeedableSince.Equal(old) {
			t.Fatalf("half a graft is %s and claims to be of %v", s.Verdict, s.SeedableSince)
		}
	})
}

func TestLosingWhatWasHeldSetsSettledAtAnew(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("e1")}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.after(time.Minute)
		first := r.status().SettledAt
		r.pump.with("e1", func(k *Rank) { k.Cursor.Proof = cursor.Untrusted })
		r.after(2 * time.Second)
		s := r.status()
		if !s.SettledAt.After(first.Add(30 * time.Second)) {
			t.Fatalf("settled at %v before and %v after the loss", first, s.SettledAt)
		}
		if s.Verdict != status.VerdictColdPartial || s.Ranks.Untrusted != 1 {
			t.Fatalf("got %s, %+v", s.Verdict, s.Ranks)
		}
	})
	run(t, map[string]*fakePeer{"b": warm("e1")}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.after(time.Minute)
		first := r.status().SettledAt
		r.pump.with("e1", func(k *Rank) { // its engine restarted
			k.Cursor, k.Life, k.Blocks, k.Outcome, k.SeededFrom = life("e1", "p2", 0, cursor.Origin), 9, 0, ingest.OutcomeFromOrigin, ""
		})
		r.after(2 * time.Second)
		if got := r.status().SettledAt; !got.Equal(first) {
			t.Fatalf("an engine's restart moved it to %v", got)
		}
	})
}

// A boot is not over while an engine was not asked for its events: its ranks may be all there is.
func TestABootWaitsForEnginesThatWereNotAsked(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("e1")}, func(r *rig) {
		r.setComplete(false)
		r.know("b")
		r.pump.boot("e1", true)
		r.after(10 * time.Second)
		if ok, _ := r.Ready(); ok {
			t.Fatal("ready although an engine was not asked")
		}
		r.setComplete(true)
		r.after(2 * time.Second)
		if ok, why := r.Ready(); !ok {
			t.Fatalf("not ready: %s", why)
		}
	})
}

func TestReadinessLatchesAndWaitsForTheBoot(t *testing.T) {
	run(t, map[string]*fakePeer{"b": {err: errDown}}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.after(59 * time.Second)
		if ok, _ := r.Ready(); ok {
			t.Fatal("ready before the boot ended")
		}
		r.after(2 * time.Second)
		if ok, why := r.Ready(); !ok {
			t.Fatalf("not ready after its budget: %s", why)
		}
		r.Admit()
		r.pump.boot("e2", true)
		r.after(time.Second)
		if ok, why := r.Ready(); !ok {
			t.Fatalf("a later rank took readiness back: %s", why)
		}
	})
}

func TestASeedThatIsRequiredIsWaitedForThreeTimeoutsAtMost(t *testing.T) {
	required := func(o *Options) { o.SeedRequired = true }
	run(t, map[string]*fakePeer{"b": {err: errDown}}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.after(70 * time.Second)
		if ok, why := r.Ready(); ok || why == "" {
			t.Fatal("ready without a seed")
		}
		r.after(105 * time.Second)
		if ok, _ := r.Ready(); ok {
			t.Fatal("ready before the bound")
		}
		r.after(10 * time.Second)
		if ok, why := r.Ready(); !ok {
			t.Fatalf("not ready after the bound: %s", why)
		}
	}, required)
	run(t, nil, func(r *rig) {
		r.know()
		r.pump.boot("e1", true)
		r.after(2 * time.Second)
		if ok, why := r.Ready(); !ok {
			t.Fatalf("a replica without siblings waits for a seed: %s", why)
		}
	}, required)
}

func TestKVBootstrapSeriesReportStateAndVerdicts(t *testing.T) {
	run(t, map[string]*fakePeer{"b": warm("e1")}, func(r *rig) {
		r.know("b")
		r.pump.boot("e1", true)
		r.pump.boot("e2", false)
		gauges := func() map[string]float64 {
			families, err := r.metrics.Gather()
			if err != nil {
				t.Fatal(err)
			}
			out := map[string]float64{}
			for _, f := range families {
				for _, m := range f.Metric {
					if m.Gauge == nil {
						continue
					}
					name := f.GetName()
					for _, l := range m.Label {
						name += " " + l.GetValue()
					}
					out[name] = m.Gauge.GetValue()
				}
			}
			return out
		}
		r.after(2 * time.Second)
		got := gauges()
		for name, want := range map[string]float64{
			"routerfleet_kv_bootstrap_settled": 0, "routerfleet_kv_bootstrap_seed_failed": 0,
			"routerfleet_kv_bootstrap_state 0 e1": 1, "routerfleet_kv_bootstrap_state 0 e2": 0,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s: got %v, want %v", name, v, want)
			}
		}
		r.after(time.Minute)
		got = gauges()
		if got["routerfleet_kv_bootstrap_settled"] != 1 || got["routerfleet_kv_bootstrap_state 0 e2"] != 2 {
			t.Errorf("after the boot: got %v", got)
		}
		r.pump.change(func() { r.pump.ranks = r.pump.ranks[:1] })
		if _, ok := gauges()["routerfleet_kv_bootstrap_state 0 e2"]; ok {
			t.Error("the series of a forgotten rank stays")
		}
	})
}

func TestOptionsAreCheckedAsAWhole(t *testing.T) {
	pump, client, registry := &fakePump{}, &fakeClient{}, peers.NewRegistry(nil, true, nil)
	good := Options{Pump: pump, Client: client, Peers: registry}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"no pump": func(o *Options) { o.Pump = nil }, "no client": func(o *Options) { o.Client = nil }, "no peers": func(o *Options) { o.Peers = nil },
		"timeout": func(o *Options) { o.Timeout = MaxTimeout + 1 }, "cap below": func(o *Options) { o.FetchCap = MinFetchCap - 1 },
		"cap above": func(o *Options) { o.FetchCap = MaxFetchCap + 1 }, "upstream without peers": func(o *Options) { o.Upstream = true },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestTheVerdictOfABootIsLoggedOnce(t *testing.T) {
	run(t, map[string]*fakePeer{"b": {err: errDown}}, func(r *rig) {
		r.know("b")
		r.pump.boot("e2", true)
		r.after(5 * time.Minute)
		if got := strings.Count(r.log.String(), `msg="boot settled" from=unknown verdict=cold_timed_out`); got != 1 {
			t.Errorf("the verdict is logged %d times, want once:\n%s", got, r.log)
		}
	})
}
