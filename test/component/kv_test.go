package component

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Prompts that go on differently from one beginning would spread by their own keys: what keeps them together is what
// the engines said of their caches.
func TestPromptsOfOneBeginningGoWhereItIsCached(t *testing.T) {
	for _, kind := range kvKinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := newKVFleet(t, kind, 3, 1000)
			r := f.router(f.options(), 0)
			r.wantMetric(fmt.Sprintf(`routerfleet_kv_index_nodes{index="m/%s/%d"}`, kind.scheme, kvPage), 0)
			const prompts = 12
			for p := range prompts {
				if cached := r.ask(kvBody(1 + p)); cached != 0 {
					t.Errorf("prompt %d was never sent, %d of its tokens are cached", p, cached)
				}
			}
			r.caughtUp()
			owners := map[string]int{}
			for p := range prompts {
				owner := r.owner(kvBody(1 + p))
				owners[owner]++
				if cached := r.ask(kvBody(1 + p)); cached != kvReusable {
					t.Errorf("prompt %d again: %d tokens are cached, want %d", p, cached, kvReusable)
				}
				for s := range 4 {
					if cached := r.ask(kvBody(1+p, 70_000+s, 80_000+s)); cached != kvPrompt {
						t.Errorf("prompt %d going on %d: %d tokens are cached, want %d", p, s, cached, kvPrompt)
					}
				}
			}
			if len(owners) != 3 || owners[""] != 0 {
				t.Errorf("owners of %d prompts: %v; they should spread", prompts, owners)
			}
			s := r.bootstrap()
			if s.Workers.Subscribed != 3 || s.Ranks.Total != 3 || len(s.Problems) != 0 {
				t.Errorf("bootstrap: %+v", s)
			}
			if got := r.metric(`routerfleet_policy_decisions_total{policy="cache_aware",reason="cache_hit"}`); got != 5*prompts {
				t.Errorf("%v decisions by the cache, want %d", got, 5*prompts)
			}
			r.wantSum("routerfleet_policy_observed_answers_total", 6*prompts)
			r.wantSum("routerfleet_policy_predicted_cached_tokens_total", prompts*(kvReusable+4*kvPrompt))
			r.wantSum("routerfleet_policy_reported_cached_tokens_total", prompts*(kvReusable+4*kvPrompt))
		})
	}
}

// Two that heard the same decide alike without talking, and so does one that started late beside engines that repeat.
func TestRoutersThatHeardTheSameDecideAlike(t *testing.T) {
	for _, kind := range []kvKind{kvKinds[0], kvKinds[2], kvKinds[4]} {
		t.Run(kind.String(), func(t *testing.T) {
			f := newKVFleet(t, kind, 3, 1000)
			first, second := f.router(f.options(), 0), f.router(f.options(), 0)
			const prompts = 9
			for p := range prompts {
				first.ask(kvBody(1 + p))
			}
			late := f.router(f.options(), 0)
			for _, r := range []*kvRouter{first, second, late} {
				r.caughtUp()
			}
			for p := range 2 * prompts { // half of them nobody holds: the prompt decides
				want := first.explain(kvBody(1 + p)).Candidates[0]
				for name, r := range map[string]*kvRouter{"second": second, "late": late} {
					got := r.explain(kvBody(1 + p)).Candidates[0]
					if got.Worker != want.Worker || got.MatchedBlocks != want.MatchedBlocks || got.Trust != "trusted" {
						t.Errorf("prompt %d: the %s router chooses %+v, the first %+v", p, name, got, want)
					}
				}
			}
			for p := range prompts {
				if cached := late.ask(kvBody(1+p, 9)); cached != kvPrompt {
					t.Errorf("prompt %d through the late router: %d tokens are cached", p, cached)
				}
			}
		})
	}
}

func TestEvictionsOfAnEngineAreFollowed(t *testing.T) {
	for _, kind := range kvKinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := newKVFleet(t, kind, 2, 40) // four prompts each
			r := f.router(f.options(), 0)
			for p := range 30 {
				r.ask(kvBody(1 + p))
			}
			r.heardAll()
			evicted, kept := 0, 0
			for p := range 30 {
				row := r.explain(kvBody(1 + p)).Candidates[0]
				if row.MatchedBlocks == 0 {
					evicted++
					continue
				}
				kept++
				if cached := r.ask(kvBody(1 + p)); cached != min(kvReusable, kvPage*row.MatchedBlocks) {
					t.Errorf("prompt %d: %d tokens are cached, the index had %d blocks", p, cached, row.MatchedBlocks)
				}
				r.heardAll() // asking may have evicted others
			}
			if evicted == 0 || kept == 0 {
				t.Errorf("%d prompts evicted, %d kept: the test proves too little", evicted, kept)
			}
		})
	}
}

func TestAnEngineThatRestartsInPlaceLosesItsBlocks(t *testing.T) {
	for name, spec := range map[string]string{
		"at 0": `{"name":"restart","cut":true}`, "past the old cursor": `{"name":"restart","cut":true,"seq":1000}`,
		"with a goodbye": `{"name":"restart","end_seq":true,"cut":true}`,
	} {
		for _, kind := range []kvKind{kvKinds[0], kvKinds[2]} {
			t.Run(name+"/"+kind.String(), func(t *testing.T) {
				f := newKVFleet(t, kind, 2, 1000)
				r := f.router(f.options(), 0)
				for p := range 8 {
					r.ask(kvBody(1 + p))
				}
				r.caughtUp()
				held := f.engines[1].held(t)
				fault(t, f.engines[0].Server, spec)
				eventually(t, "the engine's blocks are gone", func() bool {
					return r.metric(`routerfleet_kv_blocks{tier="device",worker="a"}`) == 0
				})
				if got := r.metric(`routerfleet_kv_blocks{tier="device",worker="b"}`); held == 0 || got != float64(held) {
					t.Errorf("the other engine has %v blocks, want %d", got, held)
				}
				for p := range 8 {
					row := r.explain(kvBody(1 + p)).Candidates[0]
					if cached := r.ask(kvBody(1 + p)); cached != min(kvReusable, kvPage*row.MatchedBlocks) || row.MatchedBlocks > 0 && row.Worker != "b" {
						t.Errorf("prompt %d: %d tokens are cached; chosen was %+v", p, cached, row)
					}
				}
				r.caughtUp()
				eventually(t, "nothing is wrong", func() bool { return len(r.bootstrap().Problems) == 0 })
			})
		}
	}
}

func TestAReadinessFlapClearsNothing(t *testing.T) {
	f := newKVFleet(t, kvKinds[0], 2, 1000)
	r := f.router(f.options(), 0)
	for p := range 8 {
		r.ask(kvBody(1 + p))
	}
	r.caughtUp()
	held := float64(f.engines[0].held(t))
	fault(t, f.engines[0].Server, `{"name":"health_fail"}`)
	eventually(t, "the engine is out of rotation", func() bool { return r.metric(`routerfleet_workers{state="in_rotation"}`) == 1 })
	if got := r.metric(`routerfleet_kv_blocks{tier="device",worker="a"}`); held == 0 || got != held {
		t.Errorf("out of rotation it has %v blocks, want %v", got, held)
	}
	clearFaults(t, f.engines[0])
	eventually(t, "the engine is back", func() bool { return r.metric(`routerfleet_workers{state="in_rotation"}`) == 2 })
	for p := range 8 {
		if cached := r.ask(kvBody(1+p, 5)); cached != kvPrompt {
			t.Errorf("prompt %d: %d tokens are cached", p, cached)
		}
	}
	for _, how := range []string{"regress", "replay", "start", "end_seq", "settings"} {
		r.wantMetric(`routerfleet_kv_restarts_total{how="`+how+`",worker="a"}`, 0)
	}
}

func TestExplainShowsTheTableToTheAdminOnly(t *testing.T) {
	f := newKVFleet(t, kvKinds[0], 2, 1000)
	r := f.router(f.options(), 0)
	r.ask(kvBody(1))
	r.caughtUp()
	r.wantMetric(`routerfleet_requests_total{code="200",route="completions"}`, 1)
	table := r.explain(kvBody(1, 5))
	if table.Policy != "cache_aware" || table.Reason != "cache_hit" || table.PromptTokens != kvPrompt+1 || table.Total != 2 || len(table.Candidates) != 2 {
		t.Errorf("table: %+v", table)
	}
	best, other := table.Candidates[0], table.Candidates[1]
	if !best.Chosen || best.MatchedBlocks != kvPrompt/kvPage || best.CreditTokens != kvPrompt || best.Cost.Total != 1 || best.Trust != "trusted" {
		t.Errorf("best: %+v", best)
	}
	if other.Chosen || other.MatchedBlocks != 0 || other.Cost.Total != kvPrompt+1 || other.Space == nil || other.Space.Keys != kvPrompt/kvPage+1 {
		t.Errorf("other: %+v", other)
	}
	if testing.Verbose() {
		text, _ := json.MarshalIndent(table, "", "  ")
		t.Logf("%s", text)
	}
	for token, want := range map[string]int{"": 401, "no-token-of-this-fleet": 401, viewToken: 403} {
		if code, text := r.explainWith(token, kvBody(1)); code != want || strings.Contains(text, "candidates") {
			t.Errorf("token %q: %d %s", token, code, text)
		}
	}
	r.wantMetric(`routerfleet_requests_total{code="200",route="completions"}`, 2) // the table's, too
	states, err := f.engines[0].engine.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	others, err := f.engines[1].engine.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := states[0].Totals.Requests + others[0].Totals.Requests; n != 1 {
		t.Errorf("the engines were asked %d times, want once", n)
	}
}

func TestWithoutEventsRequestsGoByLoad(t *testing.T) {
	f := newKVFleet(t, kvKinds[0], 2, 1000)
	o, off := f.options(), false
	o.KVEvents = &off
	r := &kvRouter{router: startRouter(t, o, f.engines[0].URL, f.engines[1].URL), fleet: f}
	for p := range 20 {
		r.ask(kvBody(1 + p))
	}
	r.wantSum(`routerfleet_worker_requests_total{outcome="success"`, 20)
	for i := range f.engines {
		if n := r.metric(fmt.Sprintf(`routerfleet_worker_requests_total{outcome="success",worker=%q}`, workerOf(i))); n < 4 {
			t.Errorf("engine %s served %v of 20 requests", workerOf(i), n)
		}
	}
	r.wantMetric(`routerfleet_policy_decisions_total{policy="cache_aware",reason="no_index"}`, 20)
	if s := r.bootstrap(); s.Workers.Subscribed != 0 || len(s.Problems) != 0 {
		t.Errorf("bootstrap: %+v", s)
	}
	if n := f.engines[0].events.Subscriptions(0); n != 0 {
		t.Errorf("the engine has %d subscribers", n)
	}
}
