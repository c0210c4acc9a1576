package component

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/routerfleet/routerfleet/router/app"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/publish"
)

// Wrong is worse than cold, and cold is no failure: whatever engines, clients or operators do to what is known of caches, a
// request that an engine can serve is served.

// tee tells several.
type tee []enginesim.Observer

// Observe tells each.
func (t tee) Observe(s enginesim.Step) {
	for _, o := range t {
		o.Observe(s)
	}
}

// give sends a prompt straight to an engine.
func (e *kvEngine) give(t *testing.T, body string) {
	t.Helper()
	resp, err := http.Post(e.URL+completionsPath, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
		t.Fatalf("got %d %s %v", resp.StatusCode, text, err)
	}
}

// Engine a announces as its own whatever b caches. What its answers report gives it away.
func TestAnEngineThatClaimsAnothersBlocksIsFoundOut(t *testing.T) {
	f := newKVFleet(t, kvKinds[0], 2, 4000, func(f *kvFleet) {
		f.hears = func(i int, own *publish.Server) enginesim.Observer {
			if i == 0 {
				return tee{} // it tells nothing of its own
			}
			return tee{own, f.engines[0].events}
		}
	})
	r := f.router(f.options(), 0)
	const prompts = 120
	for p := range prompts {
		f.engines[1].give(t, kvBody(1+p))
	}
	held := float64(f.engines[1].held(t))
	for _, w := range []string{"a", "b"} {
		eventually(t, "both are said to hold everything", func() bool {
			return r.metric(`routerfleet_kv_blocks{tier="device",worker="`+w+`"}`) == held
		})
	}
	wrong := 0
	for p := range prompts {
		if r.ask(kvBody(1+p)) == 0 {
			wrong++
		}
	}
	if wrong < 32 {
		t.Fatalf("%d prompts went to the liar: the test proves too little", wrong)
	}
	r.wantMetric(`routerfleet_policy_suspect_ranks{worker="a"}`, 1)
	r.wantMetric(`routerfleet_policy_suspect_ranks{worker="b"}`, 0)
	for p := range prompts {
		body := kvBody(1+p, 7)
		if best := r.explain(body).Candidates[0]; best.Worker != "b" || best.TrustPercent != 100 {
			t.Fatalf("found out, the liar is still believed: %+v", best)
		}
		if cached := r.ask(body); cached != kvPrompt {
			t.Errorf("prompt %d: %d tokens are cached", p, cached)
		}
	}
}

func TestMoreModelsThanIndexesAreServedAll(t *testing.T) {
	const models, indexes = 20, 16
	f := newKVFleet(t, kvKinds[0], models, 100, func(f *kvFleet) {
		f.model = func(i int) string { return fmt.Sprint("model-", i) }
	})
	r := f.router(f.options(), models-indexes)
	body := func(i, p int) string { return strings.Replace(kvBody(1+p), `"m"`, `"`+f.modelOf(i)+`"`, 1) }
	for i := range models {
		for p := range 3 {
			if got := r.post(context.Background(), completionsPath, body(i, p)); got.status != 200 {
				t.Errorf("model %d: got %d %s", i, got.status, got.body)
			}
		}
	}
	eventually(t, "engines without an index are named", func() bool {
		for _, p := range r.bootstrap().Problems {
			if p.Code == status.CodeEventSettings {
				return p.Count == models-indexes && strings.Contains(p.Example, "16 indexes already")
			}
		}
		return false
	})
	r.wantMetric("routerfleet_panics_total", 0)
}

// A router may come before its engines, and some engines publish nothing.
func TestARouterThatCameFirstServesWhoeverComes(t *testing.T) {
	hosts := []string{kvHost(), kvHost(), kvHost()}
	var urls []string
	for _, h := range hosts {
		urls = append(urls, "http://"+h+":"+kvHTTPPort)
	}
	f := newKVFleet(t, kvKinds[0], 0, 0, func(f *kvFleet) { f.hosts = hosts })
	r := &kvRouter{router: bootRouter(t, f.options(), urls...), fleet: f}
	if got := r.post(context.Background(), completionsPath, kvBody(1)); got.status != 503 || got.header.Get("X-RouterFleet-Error-Code") != "no_healthy_workers" {
		t.Errorf("before there is an engine: got %d %s", got.status, got.body)
	}
	silent := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 200, okAnswer) })
	mixed := &kvRouter{router: bootRouter(t, f.options(), append(urls, silent.URL)...), fleet: f}
	for i := range hosts {
		f.engines = append(f.engines, f.start(i, 1000))
	}
	for _, one := range []*kvRouter{r, mixed} {
		eventually(t, "every engine's events are followed", func() bool {
			return one.metric(`routerfleet_kv_ranks_flagged{flag="connected"}`) == float64(len(hosts))
		})
		eventually(t, "requests reach every engine", func() bool { return one.readyz() == 200 })
	}
	eventually(t, "all are in rotation", func() bool {
		return r.metric(`routerfleet_workers{state="in_rotation"}`) == 3 && mixed.metric(`routerfleet_workers{state="in_rotation"}`) == 4
	})
	for p := range 12 {
		r.ask(kvBody(1 + p))
	}
	for _, one := range []*kvRouter{r, mixed} {
		one.caughtUp()
		for p := range 12 {
			if cached := one.ask(kvBody(1+p, 9)); cached != kvPrompt {
				t.Errorf("prompt %d: %d tokens are cached", p, cached)
			}
		}
	}
	for p := range 40 { // of prompts nobody holds, the engine that publishes nothing gets its part
		if got := mixed.post(context.Background(), completionsPath, kvBody(100+p)); got.status != 200 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
	if silent.count() == 0 {
		t.Error("the engine without events got no request")
	}
}

// Connections break again and again, also while batches are on their way: at the end all is as the engine says, and what a
// storm costs is gone.
func TestAReconnectStormLeavesNothingBehind(t *testing.T) {
	f := newKVFleet(t, kvKinds[0], 2, 1000)
	r := f.router(f.options(), 0)
	before := r.metric("go_goroutines")
	for n := range 30 {
		fault(t, f.engines[0].Server, `{"name":"restart","cut":true}`)
		if got := r.post(context.Background(), completionsPath, kvBody(1+n)); got.status != 200 {
			t.Errorf("round %d: got %d %s", n, got.status, got.body)
		}
	}
	for p := range 8 {
		r.ask(kvBody(100 + p))
	}
	r.caughtUp()
	for p := range 8 {
		if cached := r.ask(kvBody(100+p, 9)); cached != kvPrompt {
			t.Errorf("prompt %d after the storm: %d tokens are cached", p, cached)
		}
	}
	eventually(t, "no memory of batches is held", func() bool { return r.metric(`routerfleet_kv_budget_used_bytes`) == 0 })
	eventually(t, "the goroutines are gone", func() bool {
		r.client.CloseIdleConnections()
		return r.metric("go_goroutines") < before+20
	})
	if s := r.bootstrap(); len(s.Problems) != 0 {
		t.Errorf("after the storm: %+v", s.Problems)
	}
}

// None of this is worth more than an error of the client's, and none changes where an engine computes.
func TestHostileRequestsAreTheClientsOwnTrouble(t *testing.T) {
	f := newKVFleet(t, kvKinds[0], 2, 1000)
	r := f.router(f.options(), 0)
	r.ask(kvBody(1))
	r.caughtUp()
	many := func(n int) string { return `{"model":"m","max_tokens":1,"prompt":[` + strings.Repeat("7,", n) + `7]}` }
	bodies := map[string]string{
		"a giant prompt":         many(1 << 20),
		"a prompt too long":      many(20_000),
		"ids beyond 32 bits":     `{"model":"m","prompt":[1,2,4294967296]}`,
		"ids beyond 64 bits":     `{"model":"m","prompt":[1,2,99999999999999999999999]}`,
		"negative ids":           `{"model":"m","prompt":[-1]}`,
		"fractions":              `{"model":"m","prompt":[1.5,2]}`,
		"no ids":                 `{"model":"m","prompt":[],"max_tokens":1}`,
		"depth":                  `{"model":"m","prompt":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`,
		"a salt that is no text": `{"model":"m","prompt":[1,2],"cache_salt":{"a":1},"max_tokens":1}`,
		"half a surrogate":       `{"model":"m","prompt":[1,2],"cache_salt":"\ud800","max_tokens":1}`,
		"a long salt":            `{"model":"m","prompt":[1,2],"cache_salt":"` + strings.Repeat("s", 1<<20) + `","max_tokens":1}`,
		"two prompts":            `{"model":"m","prompt":"x","prompt":[1,2],"max_tokens":1}`,
		"a rank of its own":      `{"model":"m","prompt":[1,2],"data_parallel_rank":5,"max_tokens":1}`,
	}
	for name, body := range bodies {
		for _, path := range []string{completionsPath, "/generate"} {
			if path == "/generate" {
				body = strings.ReplaceAll(body, `"prompt"`, `"input_ids"`)
			}
			req, err := http.NewRequest(http.MethodPost, r.data+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			for h, v := range map[string]string{
				"X-Data-Parallel-Rank": "1", "X-RouterFleet-Explain": "0", "X-RouterFleet-Token": "guess", "X-Fleet-Anything": "1",
				"Connection": "X-RouterFleet-Explain, X-Data-Parallel-Rank", "Idempotency-Key": "k", "Content-Type": "application/json",
			} {
				req.Header.Set(h, v)
			}
			if code, text := r.do(req); code >= 500 {
				t.Errorf("%s to %s: got %d %.200s", name, path, code, text)
			}
		}
	}
	got := 0
	for _, e := range f.engines {
		for _, header := range e.headers(t) {
			got++
			for name := range header {
				if name = http.CanonicalHeaderKey(name); strings.HasPrefix(name, "X-Routerfleet") || strings.HasPrefix(name, "X-Data-Parallel") || strings.HasPrefix(name, "X-Fleet") {
					t.Errorf("an engine got the client's %s", name)
				}
			}
		}
	}
	if got < 5 {
		t.Errorf("%d requests reached an engine: the test proves too little", got)
	}
	r.wantMetric("routerfleet_panics_total", 0)
	for _, w := range []string{"a", "b"} {
		r.wantMetric(`routerfleet_policy_suspect_ranks{worker="`+w+`"}`, 0)
	}
	if cached := r.ask(kvBody(1, 5)); cached != kvPrompt {
		t.Errorf("afterwards %d tokens of an honest prompt are cached", cached)
	}
}

// headers are those of the latest requests an engine got.
func (e *kvEngine) headers(t *testing.T) (all []http.Header) {
	t.Helper()
	resp, err := http.Get(e.URL + "/control/requests?limit=1000")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var doc struct {
		Requests []struct {
			Headers http.Header `json:"headers"`
		} `json:"requests"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatalf("read the engine's requests: %v", err)
	}
	for _, one := range doc.Requests {
		all = append(all, one.Headers)
	}
	return all
}

// An engine restarts while prompts of one prefix are on their way to it from many clients: none fails for that.
func TestPopularPrefixesOfAnEngineThatRestartsAreServed(t *testing.T) {
	f := newKVFleet(t, kvKinds[0], 3, 1000)
	o := app.Options{TokenDir: f.tokens()} // predicted credit is on
	r := f.router(o, 0)
	r.ask(kvBody(1))
	r.caughtUp()
	owner := f.engines[strings.Index("abc", r.owner(kvBody(1)))]
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for c := range 8 {
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if got := r.post(context.Background(), completionsPath, kvBody(1, 1000*c+n)); got.status != 200 {
					t.Errorf("got %d %s %v", got.status, got.body, got.err)
				}
			}
		})
	}
	for range 5 {
		served := r.metric(`routerfleet_requests_total{code="200",route="completions"}`)
		eventually(t, "clients are served", func() bool {
			return r.metric(`routerfleet_requests_total{code="200",route="completions"}`) > served+20
		})
		fault(t, owner.Server, `{"name":"restart","cut":true}`)
	}
	close(stop)
	clients.Wait()
}
