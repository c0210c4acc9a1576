package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/models"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/workers"
	"github.com/routerfleet/routerfleet/router/workers/workerstest"
)

const modelsFile = `
models:
- {name: llama, aliases: [gpt-4, "a \"quoted\" name"]}
- {name: llama-next}
- {name: canary, aliases: [try], split: [{model: llama, weight: 80}, {model: llama-next, weight: 20}]}
- {name: idle, split: [{model: gone, weight: 1}]}
- {name: gone}
`

func modelsOf(t testing.TB, text string) *models.Set {
	t.Helper()
	set, err := models.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// divided runs a router with a models file over engine a, which serves llama, and b, which serves llama-next. Both answer
// with their name and the body they were sent.
func divided(t *testing.T, test func(r *rig)) {
	bubble(t, Options{Models: modelsOf(t, modelsFile)}, nil, func(r *rig) {
		for _, name := range []string{"a", "b"} {
			r.engine(name, func(w http.ResponseWriter, req *http.Request) {
				body, _ := io.ReadAll(req.Body)
				writeAnswer(w, 200, name+":"+string(body))
			})
		}
		r.setEngines(true, true)
		test(r)
	})
}

// setEngines says which of a and b are ready.
func (r *rig) setEngines(a, b bool) {
	r.workers.Set(workerstest.Workers(r.t,
		workerstest.Worker{ID: "a", URL: "http://a:8000", Models: []string{"llama"}, NotReady: !a},
		workerstest.Worker{ID: "b", URL: "http://b:8000", Models: []string{"llama-next"}, NotReady: !b})...)
}

func TestABodyChangesWhereAnAliasDemandsItAndNowhereElse(t *testing.T) {
	divided(t, func(r *rig) {
		for sent, want := range map[string]string{
			` {"model" : "llama",` + "\n" + `"prompt":"x" } `:             ` {"model" : "llama",` + "\n" + `"prompt":"x" } `,
			` {"model" : "gpt-4",` + "\n" + `"prompt":"gpt-4" } `:         ` {"model" : "llama",` + "\n" + `"prompt":"gpt-4" } `,
			`{"prompt":"x","user":"gpt-4","model":"gpt-4"}`:               `{"prompt":"x","user":"gpt-4","model":"llama"}`,
			`{"model":"a \"quoted\" name","prompt":1}`:                    `{"model":"llama","prompt":1}`,
			`{"mod\u0065l":"gpt-4","nested":{"model":"gpt-4"}}`:           `{"mod\u0065l":"llama","nested":{"model":"gpt-4"}}`,
			`{"model":"other","prompt":"x","model":"gpt-4"}`:              `{"model":"llama","prompt":"x","model":"llama"}`,
			`{"model":"gpt-4","prompt":"` + strings.Repeat("é", 9) + `"}`: `{"model":"llama","prompt":"` + strings.Repeat("é", 9) + `"}`,
		} {
			if got := r.post("/v1/completions", sent); got.body != "a:"+want {
				r.t.Errorf("%s arrived as %s, want %s", sent, got.body, want)
			}
		}
	})
}

func TestNamesOutsideTheFileAre404(t *testing.T) {
	divided(t, func(r *rig) {
		for _, name := range []string{"nope", "LLAMA", "gpt-4 "} {
			r.wantError(r.post("/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"x"}`, name)), CodeModelNotFound)
		}
		for _, name := range []string{"gone", "idle"} { // known, without an engine
			r.wantError(r.post("/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"x"}`, name)), CodeNoWorkers)
		}
		r.wantError(r.post("/v1/completions", `{"prompt":"x"}`), CodeBadRequest) // which one?
	})
}

// Within four standard deviations; the prompts are seeded.
func TestADividedNameSendsByWeightAndTheSameWayEachTime(t *testing.T) {
	const n = 2000
	divided(t, func(r *rig) {
		rng := rand.New(rand.NewPCG(7, 8))
		b := 0
		for i := range n {
			body := fmt.Sprintf(`{"model":"canary","prompt":"%x"}`, rng.Uint64())
			got := r.post("/v1/completions", body)
			engine, sent, _ := strings.Cut(got.body, ":")
			if want := map[string]string{"a": `"llama"`, "b": `"llama-next"`}[engine]; sent != strings.Replace(body, `"canary"`, want, 1) {
				r.t.Fatalf("%s arrived as %s", body, got.body)
			}
			if engine == "b" {
				b++
			}
			if i%20 == 0 {
				if again := r.post("/v1/completions", strings.Replace(body, "canary", "try", 1)); again.body != got.body {
					r.t.Fatalf("the same prompt by an alias went elsewhere: %s and %s", got.body, again.body)
				}
			}
		}
		if off := math.Abs(float64(b) - n*0.2); off > 4*math.Sqrt(n*0.2*0.8) {
			r.t.Errorf("%d of %d went to the side of a fifth", b, n)
		}
		sum := gather(r.t, r.metrics)
		a := sum[`routerfleet_split_requests_total{by="weight",model="canary",target="llama"}`]
		if next := sum[`routerfleet_split_requests_total{by="weight",model="canary",target="llama-next"}`]; a+next != n+n/20 || next < float64(b) {
			r.t.Errorf("counted %v and %v of %d requests", a, next, n+n/20)
		}
	})
}

func TestASideWithoutAnEngineLeavesItsRequestsToTheOther(t *testing.T) {
	divided(t, func(r *rig) {
		ask := func() (a, b int) {
			for i := range 100 {
				switch got := r.post("/v1/completions", fmt.Sprintf(`{"model":"canary","prompt":"%d"}`, i)); got.body[:1] {
				case "a":
					a++
				case "b":
					b++
				default:
					r.t.Fatalf("got %d %s", got.status, got.body)
				}
			}
			return a, b
		}
		a, b := ask()
		if a == 0 || b == 0 {
			r.t.Fatalf("%d and %d of 100", a, b)
		}
		r.setEngines(true, false)
		if only, none := ask(); only != 100 || none != 0 {
			r.t.Errorf("%d and %d of 100", only, none)
		}
		r.wantMetric(`routerfleet_split_requests_total{by="failover",model="canary",target="llama"}`, float64(b))
		r.setEngines(false, false)
		r.wantError(r.post("/v1/completions", `{"model":"canary","prompt":"x"}`), CodeNoWorkers)
	})
}

func TestExplainSaysTheSideOfASplitAndCountsNothing(t *testing.T) {
	o := Options{Models: modelsOf(t, modelsFile), Access: func(string) Access { return AccessAdmin }}
	bubble(t, o, nil, func(r *rig) {
		r.setEngines(true, true)
		for i := range 20 {
			got := r.ask(fmt.Sprintf(`{"model":"try","prompt":"%d"}`, i), "X-RouterFleet-Explain", "1", "X-RouterFleet-Token", "t")
			if !strings.Contains(got.body, `"model":"llama"`) && !strings.Contains(got.body, `"model":"llama-next"`) {
				r.t.Errorf("got %d %s", got.status, got.body)
			}
		}
		for series := range gather(r.t, r.metrics) {
			if strings.HasPrefix(series, "routerfleet_split_requests_total") {
				r.t.Errorf("counted: %s", series)
			}
		}
	})
}

func TestASplitKeepsWhatBelongsTogetherTogether(t *testing.T) {
	chat := []string{"messages"}
	key := func(body string, prompt ...string) uint64 { return splitKey([]byte(body), prompt, "canary") }
	system := `{"role":"system","content":"be brief"}`
	turn := func(user string, more ...string) string {
		return `{"model":"x","messages":[` + strings.Join(append([]string{system, `{"content":"` + user + `","role":"user"}`}, more...), ",") + `]}`
	}
	long := strings.Repeat("a", leadBytes)
	for what, c := range map[string]struct {
		a, b   string
		prompt []string
		same   bool
	}{
		"the turns of a conversation": {turn("hello"), turn("hello", `{"role":"assistant","content":"hi"}`, `{"role":"user","content":"more"}`), chat, true},
		"two conversations":           {turn("hello"), turn("goodbye"), chat, false},
		"only system messages":        {`{"messages":[` + system + `]}`, `{"messages":[` + system + `,` + system + `]}`, chat, false},
		"one user":                    {`{"user":"u","prompt":"x"}`, `{"prompt":"y","user":"u"}`, []string{"prompt"}, true},
		"two users":                   {`{"user":"u","prompt":"x"}`, `{"user":"v","prompt":"x"}`, []string{"prompt"}, false},
		"no user":                     {`{"user":"","prompt":"x"}`, `{"prompt":"x"}`, []string{"prompt"}, true},
		"a text that grows":           {`{"prompt":"` + long + `b"}`, `{"prompt":"` + long + `cd"}`, []string{"prompt"}, true},
		"two texts":                   {`{"prompt":"a"}`, `{"prompt":"b"}`, []string{"prompt"}, false},
		"token ids that grow":         {`{"input_ids":[` + strings.Repeat("17,", leadBytes) + `1]}`, `{"input_ids":[` + strings.Repeat("17,", leadBytes) + `2,3]}`, []string{"input_ids", "text"}, true},
		"two lists of token ids":      {`{"input_ids":[1,2]}`, `{"input_ids":[1,3]}`, []string{"input_ids", "text"}, false},
		"the member that counts":      {`{"input_ids":[1],"text":"x"}`, `{"text":"y","input_ids":[1]}`, []string{"input_ids", "text"}, true},
		"a null":                      {`{"input_ids":null,"text":"x"}`, `{"text":"x"}`, []string{"input_ids", "text"}, true},
		"nothing":                     {`{"model":"x"}`, `{"model":"y"}`, chat, true},
		"no messages":                 {`{"messages":[]}`, `{"messages":[1]}`, chat, false},
	} {
		if same := key(c.a, c.prompt...) == key(c.b, c.prompt...); same != c.same {
			t.Errorf("%s: equal %v, want %v", what, same, c.same)
		}
	}
	if body := []byte(turn("hello")); splitKey(body, chat, "one") == splitKey(body, chat, "two") {
		t.Error("two splits divide the same requests alike")
	}
}

func TestTheListOfModelsHasAliasesAndDividedNames(t *testing.T) {
	divided(t, func(r *rig) {
		list := func() string {
			resp, err := r.client.Get("http://router/v1/models")
			if err != nil {
				r.t.Fatal(err)
			}
			defer resp.Body.Close()
			var list struct{ Data []struct{ ID, Object string } }
			if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
				r.t.Fatal(err)
			}
			var ids []string
			for _, m := range list.Data {
				if m.Object != "model" {
					r.t.Errorf("%s is a %q", m.ID, m.Object)
				}
				ids = append(ids, m.ID)
			}
			return strings.Join(ids, "|")
		}
		if got, want := list(), `llama|llama-next|canary|gpt-4|a "quoted" name|try`; got != want {
			r.t.Errorf("got %s, want %s", got, want)
		}
		r.workers.Set() // nobody is present
		if got := list(); got != "" {
			r.t.Errorf("got %s", got)
		}
	})
}

// The twin of withModel decodes and encodes the whole body, which is not what is wanted, but must mean the same.
func FuzzWithModel(f *testing.F) {
	for _, body := range []string{
		`{"model":"x"}`, `{"a":1}`, `{"model":"x","model":{"model":3}}`, ` {"b":[1,{"model":"x"}] , "model" : null }`, `{"model":"x","messages":[{"role":"user"}]}`,
	} {
		f.Add([]byte(body), "llama")
	}
	f.Fuzz(func(t *testing.T, body []byte, name string) {
		if object, err := members(body, func(_, _ []byte) {}); err != nil || !object {
			return
		}
		splitKey(body, []string{"messages", "prompt"}, name)
		got := withModel(body, name)
		var was, is map[string]any
		if json.Unmarshal(body, &was) != nil {
			return // numbers out of range, which the scanner leaves to the engine
		}
		if err := json.Unmarshal(got, &is); err != nil {
			t.Fatalf("%q became %q: %v", body, got, err)
		}
		if _, has := was["model"]; has {
			var clean string
			quoted, _ := json.Marshal(name)
			_ = json.Unmarshal(quoted, &clean)
			was["model"] = clean
		}
		if !reflect.DeepEqual(was, is) {
			t.Fatalf("%q became %q", body, got)
		}
	})
}

// BenchmarkResolve is what an alias and a split add to a request: a scan of its body, and a copy.
func BenchmarkResolve(b *testing.B) {
	registry := workerstest.RegistryWith(b, workers.Options{Models: modelsOf(b, modelsFile)},
		workerstest.Worker{ID: "a", URL: "http://a:8000", Models: []string{"llama"}}, workerstest.Worker{ID: "b", URL: "http://b:8000", Models: []string{"llama-next"}})
	p, err := policy.New(policy.NameRoundRobin, policy.Options{})
	if err != nil {
		b.Fatal(err)
	}
	h, err := New(Options{Models: modelsOf(b, modelsFile), Workers: registry, Policy: p})
	if err != nil {
		b.Fatal(err)
	}
	rt := &routes[0]
	for _, name := range []string{"llama", "gpt-4", "canary"} {
		for _, size := range []int{1 << 10, 48 << 10} {
			body := []byte(fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":%q},{"role":"user","content":"hi"}]}`, name, strings.Repeat("x", size)))
			b.Run(fmt.Sprintf("name=%s/bytes=%d", name, size), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					c := call{body: body, model: name}
					h.resolve(&c, rt, false)
				}
			})
		}
	}
}
