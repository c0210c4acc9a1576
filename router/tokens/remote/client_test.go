package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/routerfleet/routerfleet/router/tokens/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine is a transport that answers by path.
type engine struct {
	mu     sync.Mutex
	asked  []string // path and body
	header http.Header
	routes map[string]func(body []byte) (int, string)
	delay  time.Duration
	broken error
}

func (e *engine) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.asked = append(e.asked, r.URL.Path+" "+string(body))
	e.header = r.Header
	delay, broken, route := e.delay, e.broken, e.routes[r.URL.Path]
	e.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if broken != nil {
		return nil, broken
	}
	code, text := http.StatusNotFound, "{}"
	if route != nil {
		code, text = route(body)
	}
	return &http.Response{StatusCode: code, Status: fmt.Sprint(code), Body: io.NopCloser(strings.NewReader(text))}, nil
}

func (e *engine) questions() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.asked)
}

// set changes the engine between questions.
func (e *engine) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

// byteTokens answers /tokenize with a token for each byte of the prompt.
func byteTokens(body []byte) (int, string) {
	var q struct {
		Prompt string `json:"prompt"`
	}
	if json.Unmarshal(body, &q) != nil {
		return http.StatusBadRequest, "{}"
	}
	ids := []uint32{}
	for _, b := range []byte(q.Prompt) {
		ids = append(ids, uint32(b))
	}
	answer, _ := json.Marshal(map[string]any{"tokens": ids, "count": len(ids), "max_model_len": 9})
	return http.StatusOK, string(answer)
}

func client(t *testing.T, e *engine, o Options) (*Client, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	o.Transport, o.Registerer = e, registry
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c, registry
}

func results(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "routerfleet_engine_tokenize_total" {
			for _, m := range f.GetMetric() {
				all[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return all
}

var vllm = Engine{ID: "a", URL: "http://a:1/base/", Dialect: chat.VLLM, APIKey: func() string { return "secret" }}

func TestATextIsAskedOnceAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{routes: map[string]func([]byte) (int, string){"/base" + pathTokenize: byteTokens}}
		c, registry := client(t, e, Options{})
		for range 3 {
			got, err := c.Tokens(t.Context(), vllm, Prompt{Model: "m", Text: "abc"})
			if err != nil || !slices.Equal(got, []uint32{'a', 'b', 'c'}) {
				t.Fatal(got, err)
			}
		}
		want := `/base/tokenize {"add_special_tokens":true,"model":"m","prompt":"abc"}`
		if asked := e.questions(); !slices.Equal(asked, []string{want}) {
			t.Errorf("asked %q, want %q", asked, want)
		}
		if got := e.header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("Authorization %q", got)
		}
		if _, err := c.Tokens(t.Context(), vllm, Prompt{Model: "m", Text: "abc", Bare: true}); err != nil {
			t.Fatal(err)
		}
		if asked := e.questions(); len(asked) != 2 || !strings.Contains(asked[1], `"add_special_tokens":false`) {
			t.Errorf("asked %q", asked)
		}
		if got := results(t, registry); got[resultOK] != 2 || got[resultCached] != 2 {
			t.Errorf("%v", got)
		}
		c.Close()
	})
}

func TestAChatIsRenderedWhereTheEngineCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := []byte(`{"messages":[{"role":"user","content":"x"}],"stream":true,"tools":null}`)
		e := &engine{routes: map[string]func([]byte) (int, string){"/base" + pathRender: func([]byte) (int, string) { return 200, `{"token_ids":[1,2],"request_id":"r"}` }}}
		c, _ := client(t, e, Options{})
		if got, err := c.Tokens(t.Context(), vllm, Prompt{Model: "m", Chat: body}); err != nil || !slices.Equal(got, []uint32{1, 2}) {
			t.Fatal(got, err)
		}
		if asked := e.questions(); !slices.Equal(asked, []string{"/base" + pathRender + " " + string(body)}) {
			t.Errorf("asked %q", asked)
		}
		c.Close()
	})
}

func TestAnOlderEngineIsAskedForTheChatByItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{routes: map[string]func([]byte) (int, string){"/base" + pathTokenize: func([]byte) (int, string) { return 200, `{"tokens":[7],"count":1}` }}}
		c, _ := client(t, e, Options{})
		body := []byte(`{"messages":[{"role":"user","content":"x"}],"stream":true,"chat_template_kwargs":{"b":1,"a":2},"temperature":1}`)
		if got, err := c.Tokens(t.Context(), vllm, Prompt{Model: "m", Chat: body}); err != nil || !slices.Equal(got, []uint32{7}) {
			t.Fatal(got, err)
		}
		want := `/base/tokenize {"chat_template_kwargs":{"b":1,"a":2},"messages":[{"role":"user","content":"x"}],"model":"m"}`
		if asked := e.questions(); len(asked) != 2 || asked[1] != want {
			t.Errorf("asked %q, want %q", asked, want)
		}
		// What /tokenize does not know cannot be asked there; the route that is missing is not tried again soon.
		_, err := c.Tokens(t.Context(), vllm, Prompt{Model: "m", Chat: []byte(`{"messages":[{"role":"user","content":"x"}],"documents":[{"text":"d"}]}`)})
		if !errors.Is(err, ErrUnsupported) || len(e.questions()) != 2 {
			t.Errorf("%v, asked %q", err, e.questions())
		}
		time.Sleep(unsupportedFor)
		e.set(func() { e.routes["/base"+pathRender] = func([]byte) (int, string) { return 200, `{"token_ids":[3]}` } })
		if got, err := c.Tokens(t.Context(), vllm, Prompt{Model: "m", Chat: []byte(`{"messages":[{"role":"user","content":"y"}]}`)}); err != nil || got[0] != 3 {
			t.Errorf("after the upgrade: %v, %v", got, err)
		}
		c.Close()
	})
}

func TestSGLangTokenizesTextsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{routes: map[string]func([]byte) (int, string){pathTokenize: byteTokens}}
		c, registry := client(t, e, Options{})
		sglang := Engine{ID: "s", URL: "http://s:1", Dialect: chat.SGLang}
		if _, err := c.Tokens(t.Context(), sglang, Prompt{Chat: []byte(`{"messages":[{"role":"user","content":"x"}]}`)}); !errors.Is(err, ErrUnsupported) {
			t.Error(err)
		}
		if got, err := c.Tokens(t.Context(), sglang, Prompt{Text: "x"}); err != nil || len(got) != 1 {
			t.Error(got, err)
		}
		if got := results(t, registry); got[resultUnsupported] != 1 || got[resultOK] != 1 {
			t.Errorf("%v", got)
		}
		c.Close()
	})
}

func TestEqualQuestionsAreOneAndOutliveWhoAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{delay: 50 * time.Millisecond, routes: map[string]func([]byte) (int, string){pathTokenize: byteTokens}}
		c, registry := client(t, e, Options{})
		target := Engine{ID: "a", URL: "http://a:1"}
		first, leave := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := c.Tokens(first, target, Prompt{Text: "x"}); !errors.Is(err, context.Canceled) {
				t.Errorf("the one who left: %v", err)
			}
		})
		synctest.Wait()
		for range 5 {
			group.Go(func() {
				if got, err := c.Tokens(t.Context(), target, Prompt{Text: "x"}); err != nil || len(got) != 1 {
					t.Error(got, err)
				}
			})
		}
		synctest.Wait()
		leave()
		group.Wait()
		c.Close()
		if asked := e.questions(); len(asked) != 1 {
			t.Errorf("asked %d times", len(asked))
		}
		if got := results(t, registry); got[resultShared] != 5 || got[resultOK] != 1 {
			t.Errorf("%v", got)
		}
	})
}

func TestAnEngineThatIsSlowOrFailsIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{delay: time.Hour, routes: map[string]func([]byte) (int, string){pathTokenize: byteTokens}}
		c, registry := client(t, e, Options{Timeout: 20 * time.Millisecond})
		target := Engine{ID: "a", URL: "http://a:1"}
		ask := func(text string) error {
			began := time.Now()
			_, err := c.Tokens(t.Context(), target, Prompt{Text: text})
			if took := time.Since(began); took > 20*time.Millisecond {
				t.Errorf("%q took %s", text, took)
			}
			return err
		}
		for i := range failures {
			if err := ask(fmt.Sprint(i)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("question %d: %v", i, err)
			}
		}
		if err := ask("more"); !errors.Is(err, ErrBusy) || len(e.questions()) != failures {
			t.Errorf("%v after %d questions", err, len(e.questions()))
		}
		time.Sleep(pauseFor)
		e.set(func() { e.delay, e.broken = 0, errors.New("refused") })
		if err := ask("again"); err == nil || errors.Is(err, ErrBusy) {
			t.Errorf("after the pause: %v", err)
		}
		e.set(func() { e.broken = nil })
		if err := ask("well"); err != nil {
			t.Error(err)
		}
		if got := results(t, registry); got[resultTimeout] != failures || got[resultBusy] != 1 || got[resultError] != 1 || got[resultOK] != 1 {
			t.Errorf("%v", got)
		}
		c.Close()
	})
}

func TestOnlySoManyQuestionsAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{delay: time.Second, routes: map[string]func([]byte) (int, string){pathTokenize: byteTokens}}
		c, _ := client(t, e, Options{Timeout: time.Minute})
		var group sync.WaitGroup
		for i := range maxAsked {
			group.Go(func() {
				if _, err := c.Tokens(t.Context(), Engine{ID: "a", URL: "http://a:1"}, Prompt{Text: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if _, err := c.Tokens(t.Context(), Engine{ID: "a", URL: "http://a:1"}, Prompt{Text: "one more"}); !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
		group.Wait()
		c.Close()
	})
}

func TestLongPromptsThatTakeTooLongPauseNoEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{delay: time.Second, routes: map[string]func([]byte) (int, string){pathTokenize: byteTokens}}
		c, _ := client(t, e, Options{})
		defer c.Close()
		target := Engine{ID: "a", URL: "http://a:1"}
		for i := range 2 * failures {
			if _, err := c.Tokens(t.Context(), target, Prompt{Text: strings.Repeat("x", excusedBytes+i)}); err == nil {
				t.Fatal("an engine that takes a second is not waited for")
			}
		}
		e.set(func() { e.delay = 0 })
		if got, err := c.Tokens(t.Context(), target, Prompt{Text: "short"}); err != nil || len(got) != len("short") {
			t.Errorf("a short prompt after them: %v, %v", got, err)
		}
	})
}

func TestAnAnswerThatCannotBeTrueIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, answer := range map[string]struct {
			code int
			text string
			want error
		}{
			"no JSON":          {200, "tokens", nil},
			"no tokens":        {200, `{"count":3}`, nil},
			"another count":    {200, `{"tokens":[1,2],"count":3}`, nil},
			"negative tokens":  {200, `{"tokens":[-1],"count":1}`, nil},
			"beyond 32 bits":   {200, `{"tokens":[4294967296],"count":1}`, nil},
			"too many":         {200, `{"tokens":[` + strings.Repeat("1,", maxTokens) + `1]}`, ErrTooLong},
			"too large":        {200, strings.Repeat(" ", maxAnswerBytes+1), ErrTooLong},
			"too large for it": {200, strings.Repeat(" ", answerBase+answerPerByte*100) + `{"tokens":[1],"count":1}`, ErrTooLong},
			"a client's error": {422, `{}`, errRefused},
			"not there":        {501, `{}`, ErrUnsupported},
			"no such route":    {404, `{"detail":"Not Found"}`, ErrUnsupported},
			"no such model":    {404, `{"error":{"message":"no such adapter","type":"NotFoundError","code":404}}`, errRefused},
			"a server's error": {500, `{}`, nil},
		} {
			e := &engine{routes: map[string]func([]byte) (int, string){pathTokenize: func([]byte) (int, string) { return answer.code, answer.text }}}
			c, _ := client(t, e, Options{})
			got, err := c.Tokens(t.Context(), Engine{ID: "a", URL: "http://a:1"}, Prompt{Text: "x"})
			if err == nil || answer.want != nil && !errors.Is(err, answer.want) {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			if n, _ := c.cache.size(); n != 0 {
				t.Errorf("%s was kept", name)
			}
			c.Close()
		}
	})
}

func TestAClosedClientAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{delay: time.Second, routes: map[string]func([]byte) (int, string){pathTokenize: byteTokens}}
		c, _ := client(t, e, Options{Timeout: time.Minute})
		target := Engine{ID: "a", URL: "http://a:1"}
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := c.Tokens(t.Context(), target, Prompt{Text: "begun"}); err != nil {
				t.Errorf("a question that was under way: %v", err)
			}
		})
		synctest.Wait()
		c.Close()
		if _, err := c.Tokens(t.Context(), target, Prompt{Text: "late"}); !errors.Is(err, ErrBusy) || len(e.questions()) != 1 {
			t.Errorf("%v, asked %q", err, e.questions())
		}
		group.Wait()
	})
}

func TestAPromptBeyondTheLimitIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		c, _ := client(t, e, Options{})
		p := Prompt{Text: strings.Repeat("x", maxQuestionBytes+1)}
		if _, err := c.Tokens(t.Context(), vllm, p); !errors.Is(err, ErrTooLong) || len(e.questions()) != 0 {
			t.Errorf("%v, asked %d times", err, len(e.questions()))
		}
		if _, err := c.Fresh(t.Context(), vllm, p); !errors.Is(err, ErrTooLong) {
			t.Error(err)
		}
		c.Close()
	})
}

func TestAFreshAnswerIsTheEnginesOwnOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		e := &engine{routes: map[string]func([]byte) (int, string){pathTokenize: func([]byte) (int, string) {
			n++
			return 200, fmt.Sprintf(`{"tokens":[%d],"count":1}`, n)
		}}}
		c, _ := client(t, e, Options{})
		for want := uint32(1); want < 4; want++ {
			if got, err := c.Fresh(t.Context(), Engine{ID: "a", URL: "http://a:1"}, Prompt{Text: "x"}); err != nil || got[0] != want {
				t.Errorf("%v, %v, want %d", got, err, want)
			}
		}
		c.Close()
	})
}

// The twin of the cache is a list that is searched.
func TestTheCacheKeepsWhatWasUsedLast(t *testing.T) {
	c := newCache(10 * entryBytes)
	type kept struct {
		k key
		n int
	}
	var twin []kept // the latest used first
	for i := range 2000 {
		k := key{Lo: uint64(i*7919) % 23}
		at := slices.IndexFunc(twin, func(t kept) bool { return t.k == k })
		tokens, ok := c.get(k)
		if ok != (at >= 0) || ok && len(tokens) != twin[at].n {
			t.Fatalf("step %d: kept %v, the twin %d of %v", i, ok, at, twin)
		}
		if ok {
			hit := twin[at]
			twin = append([]kept{hit}, slices.Delete(twin, at, at+1)...)
			continue
		}
		n := i % 30
		c.put(k, "a", make([]uint32, n))
		twin = append([]kept{{k, n}}, twin...)
		for size := 0; ; size = 0 {
			for _, t := range twin {
				size += entryBytes + 4*t.n
			}
			if size <= c.limit {
				break
			}
			twin = twin[:len(twin)-1]
		}
	}
	c.put(key{Hi: 1}, "a", make([]uint32, c.limit))
	if _, ok := c.get(key{Hi: 1}); ok {
		t.Error("an answer as large as the cache was kept")
	}
}

func TestAnAnswerThatWasWrongIsForgottenAndAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{routes: map[string]func([]byte) (int, string){pathTokenize: byteTokens}}
		c, registry := client(t, e, Options{})
		defer c.Close()
		target, p := Engine{ID: "a", URL: "http://a:1"}, Prompt{Text: "abc"}
		told, err := c.Tokens(t.Context(), target, p)
		if err != nil {
			t.Fatal(err)
		}
		c.Heard(target.Dialect, p, told, true)
		c.Heard(target.Dialect, p, []uint32{1}, false) // of an answer that is not kept
		if n, _ := c.cache.size(); n != 1 {
			t.Fatalf("%d answers are kept of one that was right", n)
		}
		c.Heard(target.Dialect, p, told, false)
		c.Heard(target.Dialect, p, told, false) // twice of one answer
		if n, size := c.cache.size(); n != 0 || size != 0 {
			t.Fatalf("%d wrong answers of %d bytes are kept", n, size)
		}
		if _, err := c.Tokens(t.Context(), target, p); err != nil || len(e.questions()) != 2 {
			t.Errorf("%v, asked %q", err, e.questions())
		}
		if got := wrongs(t, registry); got != 1 {
			t.Errorf("counted %v wrong answers", got)
		}
	})
}

func wrongs(t *testing.T, r *prometheus.Registry) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "routerfleet_engine_tokenize_wrong_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("wrong answers are not counted")
	return 0
}

func TestAnEngineThatTellsWrongTokensIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{routes: map[string]func([]byte) (int, string){pathTokenize: byteTokens}}
		c, _ := client(t, e, Options{})
		defer c.Close()
		liar, other := Engine{ID: "a", URL: "http://a:1"}, Engine{ID: "b", URL: "http://b:1"}
		n := 0
		hear := func(engine Engine, right bool) error {
			n++
			p := Prompt{Text: fmt.Sprint("prompt ", n)}
			told, err := c.Tokens(t.Context(), engine, p)
			if err == nil {
				c.Heard(engine.Dialect, p, told, right)
			}
			return err
		}
		row := func(wrong int) {
			t.Helper()
			for i := range wrong {
				if err := errors.Join(hear(liar, false), hear(other, true)); err != nil {
					t.Fatalf("wrong answer %d of %d in a row: %v", i+1, wrong, err)
				}
			}
		}
		old := Prompt{Text: "of before"}
		kept, err := c.Tokens(t.Context(), liar, old)
		if err != nil {
			t.Fatal(err)
		}
		row(differences - 1)
		if err := hear(liar, true); err != nil {
			t.Fatal(err)
		}
		row(differences)
		c.Heard(liar.Dialect, old, kept, true) // says nothing of what it tells now
		if err := hear(liar, true); !errors.Is(err, ErrBusy) {
			t.Fatalf("after %d in a row: %v", differences, err)
		}
		if err := hear(other, true); err != nil {
			t.Errorf("an engine that told right: %v", err)
		}
		if _, err := c.Fresh(t.Context(), liar, Prompt{Text: "probe"}); err != nil {
			t.Errorf("parity asks on: %v", err)
		}
		time.Sleep(doubtedFor)
		row(failures)
		if err := hear(liar, true); !errors.Is(err, ErrBusy) {
			t.Fatalf("still wrong after the pause: %v", err)
		}
		time.Sleep(doubtedFor)
		if err := hear(liar, true); err != nil { // it was put right
			t.Fatal(err)
		}
		row(differences - 1)
	})
}

func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte(`{"tokens":[1,2],"count":2}`))
	f.Add([]byte(`{"token_ids":[1]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		tokens, err := readAnswer(body)
		if err == nil && (len(tokens) > maxTokens || bytes.Count(body, []byte(",")) < len(tokens)-1) {
			t.Errorf("%q has %d tokens", body, len(tokens))
		}
	})
}
