package component

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

// clearFaults makes an engine honest again.
func clearFaults(t *testing.T, e *kvEngine) {
	t.Helper()
	req, err := http.NewRequest(http.MethodDelete, e.URL+"/control/faults", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// wantProblem waits until the router reports a problem with one worker or rank, and gives it.
func (r *kvRouter) wantProblem(code status.Code) status.Problem {
	r.t.Helper()
	var found status.Problem
	eventually(r.t, fmt.Sprintf("%s is reported of one", code), func() bool {
		for _, p := range r.bootstrap().Problems {
			if p.Code == code && p.Count == 1 {
				found = p
				return true
			}
		}
		return false
	})
	if !strings.HasPrefix(found.Example, "a: ") {
		r.t.Errorf("the example is not of the liar: %q", found.Example)
	}
	return found
}

// wantOthersUntouched sends prompts whose beginnings the honest engines b and c hold.
func (r *kvRouter) wantOthersUntouched() {
	r.t.Helper()
	for _, w := range []string{"b", "c"} {
		r.wantMetric(`routerfleet_policy_suspect_ranks{worker="`+w+`"}`, 0)
		r.wantMetric(`routerfleet_kv_gaps_total{worker="`+w+`"}`, 0)
		r.wantMetric(`routerfleet_kv_contradictions_total{worker="`+w+`"}`, 0)
	}
	hits := 0
	for p := range 12 {
		row := r.explain(kvBody(1+p, 5)).Candidates[0]
		if row.Worker == "a" || row.MatchedBlocks == 0 {
			continue
		}
		hits++
		if row.Trust != "trusted" || row.TrustPercent != 100 {
			r.t.Errorf("%s is believed less: %+v", row.Worker, row)
		}
		if cached := r.ask(kvBody(1+p, 5)); cached != kvPrompt {
			r.t.Errorf("prompt %d on %s: %d tokens are cached", p, row.Worker, cached)
		}
	}
	if hits == 0 {
		r.t.Error("the honest engines hold nothing: the test proves too little")
	}
}

func TestAnEngineThatLiesInItsAdvertisementRoutesWithoutCache(t *testing.T) {
	for spec, want := range map[string]status.Code{
		`{"name":"kv_advertise","host":"10.1.2.3"}`:    status.CodeForeignEventHost,
		`{"name":"kv_advertise","dp_size":60000}`:      status.CodeEventSettings,
		`{"name":"kv_advertise","event_port":70000}`:   status.CodeEventSettings,
		`{"name":"kv_advertise","block_size":1000000}`: status.CodeEventSettings,
	} {
		t.Run(spec, func(t *testing.T) {
			f := newKVFleet(t, kvKinds[0], 3, 1000)
			fault(t, f.engines[0].Server, spec)
			r := f.router(f.options(), 1)
			r.wantProblem(want)
			for p := range 12 {
				r.ask(kvBody(1 + p))
			}
			for i, e := range f.engines[1:] {
				series := fmt.Sprintf(`routerfleet_kv_blocks{tier="device",worker=%q}`, workerOf(i+1))
				eventually(t, "the index has what the honest hold", func() bool { return r.metric(series) == float64(e.held(t)) })
			}
			if s := r.bootstrap(); s.Workers.Subscribed != 2 || s.Workers.Usable != 3 || s.Ranks.Total != 2 {
				t.Errorf("bootstrap: %+v", s)
			}
			if n := f.engines[0].events.Subscriptions(0); n != 0 {
				t.Errorf("the liar has %d subscribers", n)
			}
			r.wantOthersUntouched()
		})
	}
}

// The first engine misbehaves on the wire. What it says counts for less, or its messages are dropped; the others serve as
// before, and memory is as it was.
func TestAnEngineThatBabblesIsDiscountedAndNobodyElse(t *testing.T) {
	for name, c := range map[string]struct {
		fault  string
		series string // counts it
	}{
		"garbage":         {`{"name":"kv_garbage","bytes":4096}`, `routerfleet_kv_batches_damaged_total{worker="a"}`},
		"torn":            {`{"name":"kv_torn"}`, `routerfleet_kv_batches_damaged_total{worker="a"}`},
		"a short seq":     {`{"name":"kv_short_seq"}`, `routerfleet_kv_subscription_malformed_total{worker="a"}`},
		"endless frames":  {`{"name":"kv_frames","frames":60000}`, `routerfleet_kv_subscription_connects_total{worker="a"}`},
		"unknown events":  {`{"name":"kv_unknown_event"}`, `routerfleet_kv_batches_damaged_total{worker="a"}`},
		"holes":           {`{"name":"kv_drop","batches":3}`, `routerfleet_kv_gaps_total{worker="a"}`},
		"contradictions":  {`{"name":"kv_contradict"}`, `routerfleet_kv_contradictions_total{worker="a"}`},
		"cycles":          {`{"name":"kv_cycle"}`, `routerfleet_kv_contradictions_total{worker="a"}`},
		"another rank":    {`{"name":"kv_wrong_rank","dp_rank":7}`, `routerfleet_kv_subscription_foreign_rank_total{worker="a"}`},
		"block sizes":     {`{"name":"kv_block_size","block_size":16}`, `routerfleet_kv_event_blocks_dropped_total{reason="block_size",worker="a"}`},
		"made-up hashes":  {`{"name":"kv_long_hashes","count":70000}`, `routerfleet_kv_batches_damaged_total{worker="a"}`},
		"a flood":         {`{"name":"kv_babble","batches":60,"count":1000}`, `routerfleet_kv_index_evicted_total{index="m/sglang/8"}`},
		"a flood of seqs": {`{"name":"kv_babble","batches":20000,"count":1}`, `routerfleet_kv_batches_total{worker="a"}`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newKVFleet(t, kvKinds[0], 3, 1000)
			o := f.options()
			o.IndexMaxBlocks = 20_000
			r := f.router(o, 0)
			for p := range 12 {
				r.ask(kvBody(1 + p))
			}
			r.caughtUp()
			before := r.metric(c.series)
			fault(t, f.engines[0].Server, c.fault)
			for s := range 40 { // the faulty engine publishes as well
				for p := range 12 {
					r.ask(kvBody(1+p, 50_000+100*s, 50_001, 50_002, 50_003, 50_004, 50_005, 50_006, 50_007))
				}
				if r.metric(c.series) > before {
					break
				}
			}
			eventually(t, "it is counted in "+c.series, func() bool { return r.metric(c.series) > before })
			// A batch may pass the cap by what one call does not evict; the pump's next turn takes that back.
			eventually(t, "the index is within its cap", func() bool {
				return r.metric(`routerfleet_kv_index_nodes{index="m/sglang/8"}`) <= 20_000
			})
			eventually(t, "no memory of batches is held", func() bool { return r.metric(`routerfleet_kv_budget_used_bytes`) == 0 })
			r.wantOthersUntouched()
			if got := r.metric("routerfleet_panics_total"); got != 0 {
				t.Errorf("%v panics", got)
			}
		})
	}
}

func TestARankWhoseStreamHasAHoleIsReportedUntilItBeginsAnew(t *testing.T) {
	for _, spec := range []string{`{"name":"kv_drop","batches":2}`, `{"name":"kv_garbage","bytes":100,"batches":1}`, `{"name":"kv_cycle"}`} {
		t.Run(spec, func(t *testing.T) {
			f := newKVFleet(t, kvKinds[0], 3, 1000)
			r := f.router(f.options(), 0)
			for p := range 12 {
				r.ask(kvBody(1 + p))
			}
			r.caughtUp()
			fault(t, f.engines[0].Server, spec)
			for s := range 12 {
				for p := range 12 {
					r.ask(kvBody(1+p, 50_000+100*s, 50_001, 50_002, 50_003, 50_004, 50_005, 50_006, 50_007))
				}
			}
			r.wantProblem(status.CodeKVStreamUntrusted)
			discounted := false
			for p := range 12 {
				for _, row := range r.explain(kvBody(1 + p)).Candidates {
					if row.Worker == "a" {
						discounted = true
						// What is suspect counts by what its engine was measured to deliver, which was all.
						if row.Trust == "trusted" || row.Trust == "untrusted" && row.TrustPercent != 50 {
							t.Fatalf("the rank is believed: %+v", row)
						}
					}
				}
			}
			if !discounted {
				t.Error("the rank is in no table")
			}
			r.wantOthersUntouched()
			clearFaults(t, f.engines[0])
			fault(t, f.engines[0].Server, `{"name":"clear_cache"}`)
			eventually(t, "the rank is believed again", func() bool { return len(r.bootstrap().Problems) == 0 })
		})
	}
}
