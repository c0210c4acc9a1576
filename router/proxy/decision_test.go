package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/tokens/chat"
	"github.com/routerfleet/routerfleet/router/workers"
)

// listening is a policy that counts on a cache and notes what it hears.
type listening struct {
	credit int
	space  policy.KeySpace

	mu        sync.Mutex // guards what follows
	asked     []policy.Request
	keys      [][]index.Key
	sent      []string
	unsent    []string
	observed  []int
	explained int
}

func (*listening) Name() string { return "listening" }

func (l *listening) Pick(policy.Request, []*workers.Rank) (*workers.Rank, bool) {
	panic("the proxy decides, it does not pick")
}

func (l *listening) Decide(r policy.Request, candidates []*workers.Rank) (policy.Decision, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, r)
	l.keys = append(l.keys, append([]index.Key(nil), r.Keys.Keys(l.space)...))
	return policy.Decision{Rank: candidates[0], CreditTokens: l.credit}, true
}

func (l *listening) Sent(d policy.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, d.Rank.Worker().Name())
}

func (l *listening) Unsent(d policy.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsent = append(l.unsent, d.Rank.Worker().Name())
}

func (l *listening) Observe(_ policy.Decision, cached int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observed = append(l.observed, cached)
}

func (l *listening) Explain(r policy.Request, candidates []*workers.Rank) policy.Table {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.explained++
	r.Keys.Keys(l.space)
	return policy.Table{Policy: "listening", Model: r.Model, PromptTokens: r.PromptTokens, Total: len(candidates), Candidates: []policy.Row{}}
}

// listen puts a listening policy into a rig.
func (r *rig) listen() *listening {
	l := &listening{credit: 5, space: policy.KeySpace{Model: model, Scheme: index.SchemeSGLang, BlockSize: 2}}
	r.handler.policy = l
	return l
}

var withKeys = Options{Keys: KeyOptions{Wanted: func() bool { return true }}}

func TestAnAttemptWaitsForWhatIsNotCounted(t *testing.T) {
	bubble(t, withKeys, []string{"a"}, func(r *rig) {
		l := r.listen()
		load := make(chan workers.Load, 1)
		r.engine("a", func(w http.ResponseWriter, _ *http.Request) {
			load <- r.workers.Snapshot().Workers()[0].Worker.Ranks()[0].Load()
			writeAnswer(w, 200, okAnswer)
		})
		r.post("/v1/completions", `{"model":"m","prompt":[1,2,3,4,5,6,7]}`)
		if got := <-load; got.QueuedPrefillTokens != 2 || got.Active != 1 {
			t.Errorf("load %+v; want the 2 of 7 tokens that are not counted on", got)
		}
		if len(l.asked) != 1 || l.asked[0].PromptTokens != 7 || len(l.keys[0]) != 4 {
			t.Errorf("asked %+v with keys %x", l.asked, l.keys)
		}
		if len(l.sent) != 1 {
			t.Errorf("sent to %v", l.sent)
		}
		r.wantIdle()
	})
}

// Every attempt is decided by itself, and only the one that answered is judged by the answer.
func TestARetryIsDecidedAnewAndOnlyTheAnswerIsObserved(t *testing.T) {
	bubble(t, withKeys, []string{"a", "b"}, func(r *rig) {
		l := r.listen()
		reported := `{"usage":{"prompt_tokens":4,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":3}}}`
		r.engine("a", func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 503, reported) })
		r.engine("b", func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 200, reported) })
		got := r.post("/v1/completions", `{"model":"m","prompt":[1,2,3,4]}`)
		if got.status != 200 || strings.Join(l.sent, " ") != "a b" {
			t.Errorf("got %d, sent to %v", got.status, l.sent)
		}
		if len(l.observed) != 1 || l.observed[0] != 3 || strings.Join(l.unsent, " ") != "a" {
			t.Errorf("observed %v, not taken by %v", l.observed, l.unsent)
		}
		if len(l.keys) != 2 || len(l.keys[0]) != 2 || l.keys[0][0] != l.keys[1][0] || l.keys[0][1] != l.keys[1][1] {
			t.Errorf("keys of the attempts: %x", l.keys)
		}
	})
}

// A client must not take from others what they are credited with.
func TestOnlyARefusalOfTheEnginesTakesASentPromptBack(t *testing.T) {
	for status, want := range map[int]int{200: 0, 400: 0, 404: 0, 422: 0, 429: 1, 500: 1, 503: 1} {
		bubble(t, withKeys, []string{"a"}, func(r *rig) {
			l := r.listen()
			r.engine("a", func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, status, okAnswer) })
			r.post("/v1/completions", `{"model":"m","prompt":[1,2,3,4]}`)
			if len(l.sent) != 1 || len(l.unsent) != want {
				t.Errorf("%d: sent to %v, taken back of %v, want %d", status, l.sent, l.unsent, want)
			}
		})
	}
	bubble(t, withKeys, []string{"a"}, func(r *rig) {
		l := r.listen()
		r.engine("a", func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			waitFor(req, time.Minute)
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r.postContext(ctx, "/v1/completions", `{"model":"m","prompt":[1,2,3,4]}`)
		<-time.After(time.Second) // inside the bubble: let the router hear of it
		synctest.Wait()
		if len(l.sent) != 1 || len(l.unsent) != 0 {
			t.Errorf("a client that left: sent to %v, taken back of %v", l.sent, l.unsent)
		}
	})
}

func TestOnlyACompleteAnswerThatSaysWhatWasCachedIsObserved(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":3,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2}}`
	stream := func(end string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { writeEvents(w, `{"choices":[]}`, `{`+usage+`}`, end) }
	}
	answers := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, status, body) }
	}
	for name, c := range map[string]struct {
		engine http.HandlerFunc
		want   []int
	}{
		"document":              {answers(200, `{`+usage+`}`), []int{2}},
		"zero":                  {answers(200, strings.Replace(`{`+usage+`}`, ":2}", ":0}", 1)), []int{0}},
		"stream":                {stream("[DONE]"), []int{2}},
		"generate":              {answers(200, `{"meta_info":{"prompt_tokens":3,"completion_tokens":1,"cached_tokens":1}}`), []int{1}},
		"silence":               {answers(200, `{"usage":{"prompt_tokens":3,"completion_tokens":1}}`), nil},
		"no details":            {answers(200, `{"usage":{"prompt_tokens":3,"prompt_tokens_details":null}}`), nil},
		"details without it":    {answers(200, `{"usage":{"prompt_tokens":3,"prompt_tokens_details":{"audio_tokens":0}}}`), nil},
		"silence of generate":   {answers(200, `{"meta_info":{"prompt_tokens":3}}`), nil},
		"no usage":              {answers(200, `{}`), nil},
		"negative":              {answers(200, strings.Replace(`{`+usage+`}`, ":2}", ":-2}", 1)), nil},
		"more than there is":    {answers(200, strings.Replace(`{`+usage+`}`, ":2}", ":4}", 1)), nil},
		"an error":              {answers(400, `{`+usage+`}`), nil},
		"an error in a stream":  {stream(`{"error":{"code":500}}`), nil},
		"another prompt":        {answers(200, strings.Replace(`{`+usage+`}`, `"prompt_tokens":3`, `"prompt_tokens":2`, 1)), nil},
		"a stream that was cut": {func(w http.ResponseWriter, r *http.Request) { stream("")(w, r); panic(http.ErrAbortHandler) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, withKeys, []string{"a"}, func(r *rig) {
				l := r.listen()
				r.engine("a", c.engine)
				r.post("/v1/completions", `{"model":"m","prompt":[1,2,3]}`)
				if len(l.observed) != len(c.want) || len(c.want) == 1 && l.observed[0] != c.want[0] {
					t.Errorf("observed %v, want %v", l.observed, c.want)
				}
			})
		})
	}
}

// ask posts a completion with headers.
func (r *rig) ask(body string, headers ...string) reply {
	r.t.Helper()
	return r.askPath("/v1/completions", body, headers...)
}

func (r *rig) askPath(path, body string, headers ...string) reply {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://router"+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(text), err: err}
}

func TestExplainAnswersTheTableAndForwardsNothing(t *testing.T) {
	o := withKeys
	o.Access = func(token string) Access {
		switch token {
		case "admin":
			return AccessAdmin
		case "view":
			return AccessOther
		}
		return AccessUnknown
	}
	bubble(t, o, []string{"a"}, func(r *rig) {
		l := r.listen()
		seen := make(chan http.Header, 8)
		r.engine("a", func(w http.ResponseWriter, req *http.Request) { seen <- req.Header; writeAnswer(w, 200, okAnswer) })
		const explain, token = "X-RouterFleet-Explain", "X-RouterFleet-Token"

		got := r.ask(`{"model":"m","prompt":[1,2,3]}`, explain, "1", token, "admin")
		var table struct {
			Policy       string
			PromptTokens int
			Total        int
			KeyMiss      string
		}
		if err := json.Unmarshal([]byte(got.body), &table); err != nil || got.status != 200 || got.header.Get("Content-Type") != "application/json" {
			t.Fatalf("%d %q: %v", got.status, got.body, err)
		}
		if table.Policy != "listening" || table.PromptTokens != 3 || table.Total != 1 || table.KeyMiss != "" {
			t.Errorf("table %+v", table)
		}
		if got := r.ask(`{"model":"m","prompt":"text"}`, explain, "1", token, "admin"); !strings.Contains(got.body, `"keyMiss":"text"`) {
			t.Errorf("of a text: %s", got.body)
		}
		if len(l.asked) != 0 || len(l.sent) != 0 || l.explained != 2 || len(seen) != 0 {
			t.Errorf("decided %d, sent %d, explained %d, forwarded %d", len(l.asked), len(l.sent), l.explained, len(seen))
		}
		r.wantMetric(`routerfleet_tokenization_miss_total{reason="text"}`, 0)

		r.wantError(r.ask(`{"model":"m","prompt":[1]}`, explain, "1"), CodeUnauthorized)
		r.wantError(r.ask(`{"model":"m","prompt":[1]}`, explain, "1", token, "guess"), CodeUnauthorized)
		r.wantError(r.ask(`{"model":"m","prompt":[1]}`, explain, "1", token, "view"), CodeForbidden)
		r.wantError(r.ask(`{"model":"other","prompt":[1]}`, explain, "1", token, "admin"), CodeModelNotFound)
		if l.explained != 2 || len(seen) != 0 {
			t.Error("a request that was refused was explained or forwarded")
		}

		r.ask(`{"model":"m","prompt":[1]}`, explain, "0", token, "admin")
		for name := range <-seen {
			if strings.HasPrefix(name, ownPrefix) {
				t.Errorf("the engine received %s", name)
			}
		}
		r.wantIdle()
	})
}

// A table of a text or a chat is that of the request itself: by its tokens, and saying who knew them.
func TestExplainReadsWordsAsTheRequestWould(t *testing.T) {
	m := toy(t)
	o := Options{Access: func(string) Access { return AccessAdmin }, Keys: KeyOptions{
		Wanted: func() bool { return true }, Chain: ownOnly(m),
		Readers: func(string) []Reader { return []Reader{{Dialect: chat.SGLang}} },
	}}
	bubble(t, o, []string{"a"}, func(r *rig) {
		l := r.listen()
		r.engine("a", func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 200, okAnswer) })
		const talk = `{"model":"m","messages":[{"role":"user","content":"hello you and the weather"}]}`
		ask := func(header ...string) reply { return r.askPath("/v1/chat/completions", talk, header...) }
		ids, err := m.Chat(nil, []byte(talk), chat.SGLang, today)
		if err != nil {
			t.Fatal(err)
		}
		got := ask("X-RouterFleet-Explain", "1", "X-RouterFleet-Token", "admin")
		for _, part := range []string{`"tokenization":"own"`, fmt.Sprintf(`"promptTokens":%d`, len(ids))} {
			if !strings.Contains(got.body, part) || strings.Contains(got.body, "keyMiss") {
				t.Errorf("no %s, or a miss, in %s", part, got.body)
			}
		}
		r.wantMetric(`routerfleet_tokenization_total{path="own"}`, 0)
		ask()
		if len(l.asked) != 1 || l.asked[0].PromptTokens != len(ids) || len(l.keys[0]) == 0 {
			t.Errorf("the request itself was decided by %+v with keys %x", l.asked, l.keys)
		}
		r.wantMetric(`routerfleet_tokenization_total{path="own"}`, 1)
	})
}

func TestNothingIsTokenizedThatNoEngineCanBeSent(t *testing.T) {
	o := Options{MaxConcurrent: 1, Keys: KeyOptions{
		Wanted: func() bool { return true }, Chain: ownOnly(shouting{t}),
		Readers: func(string) []Reader { return []Reader{{Dialect: chat.SGLang}} },
	}}
	const talk = `{"model":%q,"messages":[{"role":"user","content":"hello"}]}`
	bubble(t, o, []string{"a"}, func(r *rig) {
		r.wantError(r.post("/v1/chat/completions", fmt.Sprintf(talk, "other")), CodeModelNotFound)
		if !r.handler.admit() { // another request has the only slot
			t.Fatal("no slot")
		}
		defer r.handler.release()
		r.wantError(r.post("/v1/chat/completions", fmt.Sprintf(talk, "m")), CodeOverloaded)
	})
}

func TestWithoutTokensNobodyGetsATable(t *testing.T) {
	bubble(t, withKeys, []string{"a"}, func(r *rig) {
		got := r.ask(`{"model":"m","prompt":[1]}`, "X-RouterFleet-Explain", "1", "X-RouterFleet-Token", "")
		r.wantError(got, CodeUnauthorized)
		if !strings.Contains(got.body, "--token-dir") {
			t.Errorf("the answer does not say what to do: %s", got.body)
		}
	})
}
