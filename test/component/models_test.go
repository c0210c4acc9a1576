package component

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/app"
)

// severalModels is a fleet of four engines: a and b serve llama, b an adapter beside, c the next llama, d qwen.
const severalModels = `
models:
- {name: llama, aliases: [small], selector: app=llama}
- {name: llama-next, selector: app=next}
- {name: qwen, aliases: [code], selector: app=qwen}
- {name: poet, aliases: [bard], selector: app=llama}
- {name: llama-3, split: [{model: llama, weight: 80}, {model: llama-next, weight: 20}]}
`

// several starts the fleet and a router with the models file.
func several(t *testing.T, kind kvKind) (*kvFleet, *kvRouter) {
	t.Helper()
	f := newKVFleet(t, kind, 4, 20_000, func(f *kvFleet) {
		f.model = func(i int) string { return []string{"llama", "llama", "llama-next", "qwen"}[i] }
		f.front = func(i int, engine http.Handler) http.Handler {
			if i == 1 {
				return lists(lends(engine, "poet", "llama"), "llama", "poet<llama")
			}
			return engine
		}
	})
	return f, f.router(modelsOptions(t, f, severalModels, "llama", "llama", "next", "qwen"), 0)
}

// modelsOptions are those of a router with a models file, whose workers a, b and so on have these labels app.
func modelsOptions(t *testing.T, f *kvFleet, file string, apps ...string) app.Options {
	t.Helper()
	o := f.options()
	o.ModelsFile = filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(o.ModelsFile, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, app := range apps {
		o.WorkerLabels = append(o.WorkerLabels, workerOf(i)+"=app="+app)
	}
	return o
}

// lends has an engine of one model answer for an adapter, too.
func lends(engine http.Handler, adapter, model string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		body = bytes.Replace(body, fmt.Appendf(nil, `"model":%q`, adapter), fmt.Appendf(nil, `"model":%q`, model), 1)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		engine.ServeHTTP(w, r)
	})
}

// served is how many requests each worker answered.
func (r *kvRouter) served() map[string]int {
	r.t.Helper()
	out := map[string]int{}
	for i := range r.fleet.engines {
		if n := r.metric(fmt.Sprintf(`routerfleet_worker_requests_total{outcome="success",worker=%q}`, workerOf(i))); n > 0 {
			out[workerOf(i)] = int(n)
		}
	}
	return out
}

// numbered is one of many prompts: they differ in their first token, and so in all blocks.
func numbered(model string, n int) string {
	return of(model, strings.Replace(kvBody(1), "1000,", fmt.Sprintf("%d,", n), 1))
}

var modelsKinds = []kvKind{kvKinds[0], kvKinds[2], kvKinds[4]}

// Equal prompts to two models are two prompts: what the engines of one hold is nothing for the other.
func TestTwoModelsAreServedByTheirOwnEnginesAndShareNoCache(t *testing.T) {
	for _, kind := range modelsKinds {
		t.Run(kind.String(), func(t *testing.T) {
			f, r := several(t, kind)
			const prompts = 6
			for p := range prompts {
				if cached := r.ask(of("small", kvBody(1+p))); cached != 0 {
					t.Errorf("prompt %d was never sent, %d of its tokens are cached", p, cached)
				}
			}
			r.caughtUp()
			if got := r.served(); got["a"]+got["b"] != prompts || len(got) > 2 {
				t.Errorf("requests for llama went to %v", got)
			}
			for p := range prompts {
				if got := r.matched(of("llama", kvBody(1+p))); len(got) != 2 || got["a"]+got["b"] != kvBlocks {
					t.Errorf("prompt %d of llama: %v", p, got)
				}
				if got := r.matched(of("code", kvBody(1+p))); len(got) != 1 || got["d"] != 0 {
					t.Errorf("the same for qwen, which never had it: %v", got)
				}
			}
			if cached := r.ask(of("qwen", kvBody(1))); cached != 0 {
				t.Errorf("%d tokens are cached for qwen", cached)
			}
			r.caughtUp()
			if cached := r.ask(of("code", kvBody(1))); cached != kvReusable {
				t.Errorf("by the alias: %d tokens are cached, want %d", cached, kvReusable)
			}
			if cached := r.ask(of("small", kvBody(1))); cached != kvReusable {
				t.Errorf("of llama: %d tokens are cached, want %d", cached, kvReusable)
			}
			for model, want := range map[string]float64{"llama": prompts * kvBlocks, "qwen": kvBlocks, "llama-next": 0} {
				r.wantMetric(fmt.Sprintf(`routerfleet_kv_index_nodes{index="%s/%s/%d"}`, model, kind.scheme, kvPage), want)
			}
			if n := f.engines[3].held(t); n != kvBlocks {
				t.Errorf("engine d holds %d blocks", n)
			}
		})
	}
}

// Within four standard deviations; the prompts are always the same ones.
func TestACanaryGetsItsShareAndEachPromptItsSide(t *testing.T) {
	_, r := several(t, kvKinds[2])
	const prompts, share = 300, 0.2
	for p := range prompts {
		if cached := r.ask(numbered("llama-3", 2000+p)); cached != 0 {
			t.Fatalf("prompt %d was never sent, %d of its tokens are cached", p, cached)
		}
	}
	got := r.served()
	if off := math.Abs(float64(got["c"]) - prompts*share); off > 4*math.Sqrt(prompts*share*(1-share)) || got["a"]+got["b"]+got["c"] != prompts {
		t.Errorf("of %d requests went %v", prompts, got)
	}
	r.wantMetric(`routerfleet_split_requests_total{by="weight",model="llama-3",target="llama-next"}`, float64(got["c"]))
	r.wantMetric(`routerfleet_split_requests_total{by="weight",model="llama-3",target="llama"}`, float64(got["a"]+got["b"]))
	r.caughtUp()
	for p := range 40 {
		if cached := r.ask(numbered("llama-3", 2000+p)); cached != kvReusable {
			t.Errorf("prompt %d again: %d tokens are cached, want %d: it changed its side", p, cached, kvReusable)
		}
	}
	before := r.served()
	for p := range 40 { // whatever the prompt, one user has one model
		r.ask(withMembers(numbered("llama-3", 4000+p), `"user":"u1",`))
	}
	after := r.served()
	if next := after["c"] - before["c"]; next != 0 && next != 40 {
		t.Errorf("%d of the 40 requests of one user went to the canary", next)
	}
}

func TestAnAdapterIsServedWhereItIsLoaded(t *testing.T) {
	_, r := several(t, kvKinds[2])
	for p := range 10 {
		r.ask(of([]string{"poet", "bard"}[p%2], kvBody(1+p)))
	}
	if got := r.served(); got["b"] != 10 || len(got) != 1 {
		t.Errorf("requests for the adapter went to %v", got)
	}
}

func TestTheListOfModelsIsWhatMayBeAskedFor(t *testing.T) {
	_, r := several(t, kvKinds[0])
	resp, err := r.client.Get(r.data + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct {
		Data []struct {
			ID, Object, Parent string
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
		if want := map[string]string{"poet": "llama", "bard": "llama"}[m.ID]; m.Parent != want || m.Object != "model" {
			t.Errorf("%+v: want parent %q", m, want)
		}
		if got := r.post(context.Background(), completionsPath, of(m.ID, kvBody(1))); got.status != 200 {
			t.Errorf("%s is listed and answers %d %s", m.ID, got.status, got.body)
		}
	}
	slices.Sort(ids)
	if got := strings.Join(ids, " "); got != "bard code llama llama-3 llama-next poet qwen small" {
		t.Errorf("listed are %s", got)
	}
	got := r.post(context.Background(), completionsPath, of("gpt-5", kvBody(1)))
	if got.status != 404 || !strings.Contains(got.body, `"code":"model_not_found"`) || !strings.Contains(got.body, `"type":"invalid_request_error"`) {
		t.Errorf("an unknown model: %d %s", got.status, got.body)
	}
}

func TestAWorkerThatNoModelSelectsServesNothingAndIsReported(t *testing.T) {
	f := newKVFleet(t, kvKinds[0], 3, 1000, func(f *kvFleet) {
		f.model = func(i int) string { return []string{"llama", "llama", "other"}[i] }
	})
	o := modelsOptions(t, f, "models: [{name: llama, selector: app=llama}]", "llama", "spare", "llama")
	var urls []string
	for _, e := range f.engines {
		urls = append(urls, e.URL)
	}
	r := &kvRouter{router: bootRouter(t, o, urls...), fleet: f}
	r.wantMetric(`routerfleet_workers{state="in_rotation"}`, 1)
	r.wantMetric(`routerfleet_workers{state="unselected"}`, 1)
	r.wantMetric(`routerfleet_workers{state="other_model"}`, 1)
	eventually(t, "the one worker's events are followed", func() bool {
		return r.metric(`routerfleet_kv_ranks_flagged{flag="connected"}`) == 1
	})
	for p := range 6 {
		r.ask(of("llama", kvBody(1+p)))
	}
	if got := r.served(); got["a"] != 6 || len(got) != 1 {
		t.Errorf("requests went to %v", got)
	}
	s := r.bootstrap()
	if len(s.Problems) != 1 || s.Problems[0].Code != "workers_unselected" || s.Problems[0].Count != 1 || !strings.HasPrefix(s.Problems[0].Example, "b: ") {
		t.Errorf("problems %+v", s.Problems)
	}
	if s.Workers.Discovered != 3 || s.Workers.Usable != 1 || s.Workers.Subscribed != 1 {
		t.Errorf("workers %+v", s.Workers)
	}
	for i := 1; i < 3; i++ {
		if n := f.engines[i].events.Subscriptions(0); n != 0 {
			t.Errorf("engine %s serves nothing and has %d subscribers", workerOf(i), n)
		}
	}
}
