package component

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/test/enginesim/publish"
)

// vllmKinds are the dialects vLLM has spoken, with hashes nobody can compute and with those the router computes as well.
var vllmKinds = []kvKind{
	{dialect: publish.VLLMMap, hash: publish.Opaque, scheme: "tokens"},
	{dialect: publish.VLLMArray, hash: publish.Opaque, scheme: "tokens"},
	{dialect: publish.VLLMInt, hash: publish.Opaque, scheme: "tokens"},
	{dialect: publish.VLLMMap, hash: publish.SHA256CBOR, scheme: "vllm-sha256-cbor"},
	{dialect: publish.VLLMArray, hash: publish.SHA256CBOR, scheme: "vllm-sha256-cbor"},
}

// forVLLM runs a test for each of them.
func forVLLM(t *testing.T, f func(t *testing.T, kind kvKind)) {
	for _, kind := range vllmKinds {
		t.Run(kind.String(), func(t *testing.T) { f(t, kind) })
	}
}

// withMembers adds members to a body: `"user":"u",`.
func withMembers(body, members string) string { return "{" + members + body[1:] }

// of is the body for another model.
func of(model, body string) string {
	return strings.Replace(body, `"model":"m"`, fmt.Sprintf("\"model\":%q", model), 1)
}

// lists answers GET /v1/models with models; "a<b" is an adapter a of b.
func lists(engine http.Handler, models ...string) http.Handler {
	var data []string
	for _, m := range models {
		name, parent, _ := strings.Cut(m, "<")
		entry := fmt.Sprintf(`{"id":%q,"object":"model","owned_by":"vllm"`, name)
		if parent != "" {
			entry += fmt.Sprintf(`,"parent":%q`, parent)
		}
		data = append(data, entry+"}")
	}
	list := `{"object":"list","data":[` + strings.Join(data, ",") + `]}`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			engine.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, list)
	})
}

// matched are the blocks each worker holds of a prompt, by the decision table.
func (r *kvRouter) matched(body string) map[string]int {
	r.t.Helper()
	out := map[string]int{}
	for _, row := range r.explain(body).Candidates {
		out[row.Worker] = row.MatchedBlocks
	}
	return out
}

// missOf is why a prompt has no keys, and how many blocks of it are matched all the same.
func (r *kvRouter) missOf(body string) (miss string, blocks int) {
	r.t.Helper()
	status, text := r.explainWith(adminToken, body)
	var table struct {
		policy.Table
		KeyMiss string `json:"keyMiss"`
	}
	if err := json.Unmarshal([]byte(text), &table); err != nil || status != 200 {
		r.t.Fatalf("explain: %d %q: %v", status, text, err)
	}
	return table.KeyMiss, table.Candidates[0].MatchedBlocks
}

// kvBlocks is how many blocks a prompt has.
const kvBlocks = kvPrompt / kvPage

// kv-events 4, the LoRA name in the chunk: engine a has the model, engine b an adapter of it beside. Equal tokens are two
// prefixes, and requests for the adapter go to b only.
func TestAnAdaptersBlocksAreNotTheModels(t *testing.T) {
	forVLLM(t, func(t *testing.T, kind kvKind) {
		f := newKVFleet(t, kind, 2, 1000, func(f *kvFleet) {
			f.model = func(i int) string { return []string{"m", "sql"}[i] }
			f.tells = func(i int, o *publish.Options) { o.LoRA = []string{"", "sql"}[i] }
			f.front = func(i int, engine http.Handler) http.Handler {
				if i == 0 {
					return engine
				}
				return lists(engine, "m", "sql<m")
			}
		})
		r := f.router(f.options(), 0)
		for p := 1; p <= 4; p++ {
			adapter := of("sql", kvBody(p))
			if cached := r.ask(adapter); cached != 0 {
				t.Errorf("prompt %d was never sent to the adapter, %d tokens are cached", p, cached)
			}
			f.engines[0].give(t, kvBody(p+2)) // two of the prompts are cached for the model, too
		}
		r.caughtUp()
		for p := 1; p <= 6; p++ {
			want := map[string]int{"b": 0}
			if p <= 4 {
				want["b"] = kvBlocks
			}
			if got := r.matched(of("sql", kvBody(p))); len(got) != 1 || got["b"] != want["b"] {
				t.Errorf("prompt %d for the adapter: %v, want %v", p, got, want)
			}
			want = map[string]int{"a": 0, "b": 0}
			if p > 2 {
				want["a"] = kvBlocks
			}
			if got := r.matched(kvBody(p)); len(got) != 2 || got["a"] != want["a"] || got["b"] != 0 {
				t.Errorf("prompt %d for the model: %v, want %v", p, got, want)
			}
		}
		if cached := r.ask(of("sql", kvBody(1))); cached != kvReusable {
			t.Errorf("the adapter's prompt again: %d tokens are cached, want %d", cached, kvReusable)
		}
		r.wantMetric(`routerfleet_tokenization_miss_total{reason="lora"}`, 0)
		r.wantMetric(fmt.Sprintf(`routerfleet_kv_index_nodes{index="m/%s/%d"}`, kind.scheme, kvPage), float64(8*kvBlocks))
	})
}

// SGLang's hashes leave the adapter out: such a request has no keys and is counted.
func TestAnAdapterOfSGLangIsAMissThatIsCounted(t *testing.T) {
	f := newKVFleet(t, kvKinds[0], 1, 1000, func(f *kvFleet) {
		f.model = func(int) string { return "sql" }
		f.front = func(_ int, engine http.Handler) http.Handler { return lists(engine, "m", "sql<m") }
	})
	r := f.router(f.options(), 0)
	r.ask(of("sql", kvBody(1)))
	r.caughtUp()
	if miss, blocks := r.missOf(of("sql", kvBody(1))); miss != "lora" || blocks != 0 {
		t.Errorf("miss %q, %d blocks matched", miss, blocks)
	}
	r.wantMetric(`routerfleet_tokenization_miss_total{reason="lora"}`, 1)
}

// kv-events 4, the root parent has the cache salt: with another salt, or without, equal tokens are another prefix.
func TestACacheSaltIsAPrefixOfItsOwn(t *testing.T) {
	for _, kind := range append([]kvKind{kvKinds[0], kvKinds[1]}, vllmKinds...) {
		t.Run(kind.String(), func(t *testing.T) {
			f := newKVFleet(t, kind, 2, 1000)
			r := f.router(f.options(), 0)
			salted := func(salt string) string { return withMembers(kvBody(1), fmt.Sprintf(`"cache_salt":%q,`, salt)) }
			if cached := r.ask(salted("one")); cached != 0 {
				t.Errorf("%d tokens of what was never sent are cached", cached)
			}
			r.caughtUp()
			for what, c := range map[string]struct {
				body  string
				holds bool
			}{
				"the same salt": {salted("one"), true}, "another": {salted("two"), false}, "none": {kvBody(1), false},
				"an empty one": {salted(""), false},
			} {
				if got := r.owner(c.body); (got != "") != c.holds {
					t.Errorf("%s: %q holds it", what, got)
				}
			}
			for _, body := range []string{salted("one"), kvBody(1), salted("")} { // without a salt and with an empty one are one
				r.ask(body)
				r.caughtUp()
			}
			for _, body := range []string{salted("one"), kvBody(1), salted("")} {
				if cached := r.ask(body); cached != kvReusable {
					t.Errorf("%d tokens of %.40s are cached, want %d", cached, body, kvReusable)
				}
			}
		})
	}
}

// What a request has that keys do not contain keeps it from having any; each is counted under its reason.
func TestRequestsWithOtherThanTextHaveNoKeys(t *testing.T) {
	f := newKVFleet(t, vllmKinds[0], 1, 1000)
	r := f.router(f.options(), 0)
	r.ask(kvBody(1))
	r.caughtUp()
	for i, members := range []string{
		`"multi_modal_data":{"image":"data:image/png;base64,AAAA"},`, `"image_data":"https://example.com/a.png",`,
		`"audio_data":["x"],`, `"prompt_embeds":"AAAA",`,
	} {
		if miss, blocks := r.missOf(withMembers(kvBody(1), members)); miss != "media" || blocks != 0 {
			t.Errorf("%s miss %q, %d blocks matched", members, miss, blocks)
		}
		r.post(t.Context(), completionsPath, withMembers(kvBody(1), members))
		r.wantMetric(`routerfleet_tokenization_miss_total{reason="media"}`, float64(i+1))
	}
	if got := r.owner(kvBody(1)); got != "a" {
		t.Errorf("the same tokens as text: %q holds them", got)
	}
}

// kv-events 4, groups: a hybrid model's depth is an upper bound, believed by half until 32 answers measured it.
func TestAHybridModelIsBelievedByHalfUntilItIsMeasured(t *testing.T) {
	forVLLM(t, func(t *testing.T, kind kvKind) {
		f := newKVFleet(t, kind, 1, 1000, func(f *kvFleet) { f.tells = func(_ int, o *publish.Options) { o.Hybrid = true } })
		r := f.router(f.options(), 0)
		r.ask(kvBody(1))
		r.caughtUp()
		row := r.explain(kvBody(1, 9)).Candidates[0]
		if row.Trust != "upper_bound" || row.TrustPercent != 50 || row.MatchedBlocks != kvBlocks || row.CreditTokens != kvPrompt/2 {
			t.Errorf("before any answer: %+v", row)
		}
		for s := range 32 {
			if cached := r.ask(kvBody(1, 100+s)); cached != kvPrompt {
				t.Fatalf("%d tokens are cached", cached)
			}
		}
		r.wantSum("routerfleet_policy_observed_answers_total", 33)
		row = r.explain(kvBody(1, 9)).Candidates[0]
		if row.TrustPercent != 100 || row.CreditTokens != kvPrompt {
			t.Errorf("after 32 answers that held what was promised: %+v", row)
		}
		if s := r.bootstrap(); len(s.Problems) != 0 {
			t.Errorf("a hybrid model is no problem: %+v", s.Problems)
		}
	})
}

// kv-events 4, groups: a window group's blocks are evicted all the time, and take none of full attention's with them.
func TestARemovalInOneGroupTakesNoBlockOfAnother(t *testing.T) {
	forVLLM(t, func(t *testing.T, kind kvKind) {
		f := newKVFleet(t, kind, 1, 40)
		if err := f.engines[0].events.Publisher().Set(publish.Fault{Name: publish.ForeignGroup}); err != nil {
			t.Fatal(err)
		}
		r := f.router(f.options(), 0)
		held := 0
		for p := range 12 {
			r.ask(kvBody(1 + p))
			r.heardAll()
			for q := range p + 1 {
				if row := r.explain(kvBody(1 + q)).Candidates[0]; row.MatchedBlocks > 0 {
					held++
				}
			}
		}
		r.caughtUp() // to the block: what the engine holds of full attention, and nothing else
		if held == 0 {
			t.Error("nothing was ever held: the test proves nothing")
		}
		if row := r.explain(kvBody(12)).Candidates[0]; row.MatchedBlocks != kvBlocks || row.Trust != "upper_bound" {
			t.Errorf("the last prompt: %+v", row)
		}
	})
}

// kv-events 4: vLLM announces a block once for each copy, and it leaves with its last one.
func TestABlockStaysUntilItsLastCopyIsRemoved(t *testing.T) {
	forVLLM(t, func(t *testing.T, kind kvKind) {
		f := newKVFleet(t, kind, 1, 40)
		if err := f.engines[0].events.Publisher().Set(publish.Fault{Name: publish.Copies}); err != nil {
			t.Fatal(err)
		}
		r := f.router(f.options(), 0)
		r.ask(kvBody(1))
		r.caughtUp()
		if got := r.matched(kvBody(1)); got["a"] != kvBlocks {
			t.Errorf("one copy of two was removed: %v", got)
		}
		for p := range 12 { // evicts the first
			r.ask(kvBody(10 + p))
		}
		r.heardAll()
		r.caughtUp()
		if got := r.matched(kvBody(1)); got["a"] != 0 {
			t.Errorf("the last copy was removed: %v", got)
		}
		r.wantSum("routerfleet_kv_contradictions_total", 0)
	})
}

// kv-events 4, orphans: who comes late to engines that repeat nothing holds blocks without a beginning, which answer no
// query; a scheme whose keys are the engine's hashes knows no orphans and heals.
func TestWhoComesLateToEnginesThatDoNotRepeatStaysBlindByTokens(t *testing.T) {
	forVLLM(t, func(t *testing.T, kind kvKind) {
		f := newKVFleet(t, kind, 1, 1000)
		early := f.router(f.options(), 0)
		early.ask(kvBody(1))
		early.caughtUp()
		o := f.options()
		o.KVEventsReplayPort = 0
		late := f.router(o, 0)
		eventually(t, "the publisher knows both subscribers", func() bool { return f.engines[0].events.Subscriptions(0) == 2 })
		suffix := make([]int, 3*kvPage)
		for i := range suffix {
			suffix[i] = 90_000 + i
		}
		if cached := late.ask(kvBody(1, suffix...)); cached != kvPrompt { // there is one engine to go to
			t.Errorf("%d tokens are cached", cached)
		}
		early.caughtUp()
		late.wantMetric(`routerfleet_kv_batches_total{worker="a"}`, 1)
		orphans := late.metric(`routerfleet_kv_orphans{worker="a"}`)
		table := late.explain(kvBody(1, suffix...))
		if row := table.Candidates[0]; kind.scheme == "tokens" {
			if orphans != 3 || row.MatchedBlocks != 0 {
				t.Errorf("by tokens: %v orphans, %d blocks matched", orphans, row.MatchedBlocks)
			}
		} else if orphans != 0 || row.MatchedBlocks != kvBlocks+3 {
			t.Errorf("by the engine's hashes: %v orphans, %d blocks matched", orphans, row.MatchedBlocks)
		}
		late.ask(kvBody(2)) // a chain from its root is known from the first block on
		late.wantMetric(`routerfleet_kv_batches_total{worker="a"}`, 2)
		if got := late.matched(kvBody(2)); got["a"] != kvBlocks {
			t.Errorf("a prompt sent since: %v", got)
		}
	})
}
