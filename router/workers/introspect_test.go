package workers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// engines is a network of engines in memory, keyed by host. It runs in the bubble of a synctest, so timeouts and
// back-offs take no time.
type engines struct {
	mu       sync.Mutex
	handlers map[string]http.HandlerFunc
	calls    []string // "host path authorization"
	at       []time.Time
}

func (e *engines) set(host string, h http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.handlers == nil {
		e.handlers = map[string]http.HandlerFunc{}
	}
	e.handlers[host] = h
}

func (e *engines) seen() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string{}, e.calls...)
}

func (e *engines) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	h := e.handlers[r.URL.Host]
	e.calls = append(e.calls, strings.TrimSpace(r.URL.Host+r.URL.Path+" "+r.Header.Get("Authorization")))
	e.at = append(e.at, time.Now())
	e.mu.Unlock()
	if h == nil {
		return nil, errors.New("connection refused")
	}
	w := &answer{header: http.Header{}, code: 200, ctx: r.Context()}
	h(w, r)
	if w.err != nil {
		return nil, w.err
	}
	return &http.Response{
		StatusCode: w.code, Header: w.header, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(strings.NewReader(w.body.String())),
	}, nil
}

type answer struct {
	header http.Header
	code   int
	body   strings.Builder
	ctx    context.Context
	err    error
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(c int)           { a.code = c }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

// hang never answers.
func hang(w http.ResponseWriter, r *http.Request) {
	<-r.Context().Done()
	w.(*answer).err = r.Context().Err()
}

// routes serves fixed bodies by path; a body of digits alone is a status code. Everything else is 404.
func routes(bodies map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, ok := bodies[r.URL.Path]
		var code int
		if !ok {
			code = 404
		} else if _, err := fmt.Sscanf(body, "%d", &code); err != nil {
			code = 200
		}
		w.WriteHeader(code)
		if code == 200 {
			_, _ = io.WriteString(w, body)
		}
	}
}

const (
	sglangInfo = `{"model_path":"/models/demo","served_model_name":"demo-model","dp_size":2,"version":"0.5.4",
		"kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":5557,"topic":"","block_size":64,"dp_size":2}}`
	oneModel = `{"object":"list","data":[{"id":"demo-model","object":"model","created":1758450000,"owned_by":"sglang"}]}`
)

func TestAnEngineSaysWhatItServes(t *testing.T) {
	for _, c := range []struct {
		name   string
		bodies map[string]string
		want   string // facts, or part of the error
		calls  int
	}{
		{"SGLang", map[string]string{"/server_info": sglangInfo, "/v1/models": oneModel}, "{[{demo-model 1758450000 sglang }] 2}", 2},
		{"vLLM has no server_info", map[string]string{"/v1/models": `{"data":[{"id":"z"},{"id":"a","created":1.5},{"id":"z"}]}`}, "{[{a 1  } {z 0  }] 0}", 2},
		{"a model and its adapter", map[string]string{"/v1/models": `{"data":[{"id":"base","parent":null},{"id":"lora","owned_by":"vllm","parent":"base"}]}`}, "{[{base 0  } {lora 0 vllm base}] 0}", 2},
		{"server_info of another kind", map[string]string{"/server_info": `{"vllm_config":"..."}`, "/v1/models": oneModel}, "{[{demo-model 1758450000 sglang }] 0}", 2},
		{"a page instead of server_info", map[string]string{"/server_info": "<html>", "/v1/models": oneModel}, "{[{demo-model 1758450000 sglang }] 0}", 2},
		{"names from server_info alone", map[string]string{"/server_info": sglangInfo}, "{[{demo-model 0  }] 2}", 2},
		{"a list of names", map[string]string{"/server_info": `{"served_model_name":["b","a"]}`}, "{[{a 0  } {b 0  }] 0}", 2},
		{"the path when there is no name", map[string]string{"/server_info": `{"model_path":"/m","served_model_name":null}`}, "{[{/m 0  }] 0}", 2},
		{"no models", map[string]string{"/v1/models": `{"data":[]}`}, "{[] 0}", 2},
		{"nothing at all", map[string]string{}, "/v1/models answered 404", 2},
		{"a key is wanted", map[string]string{"/server_info": "401", "/v1/models": "401"}, "/v1/models answered 401", 2},
		{"too many ranks", map[string]string{"/server_info": `{"dp_size":257}`, "/v1/models": oneModel}, "dp_size is 257", 1},
		{"no ranks", map[string]string{"/server_info": `{"dp_size":0}`, "/v1/models": oneModel}, "dp_size is 0", 1},
		{"a model without id", map[string]string{"/v1/models": `{"data":[{}]}`}, "id has 0 bytes", 2},
		{"not JSON", map[string]string{"/v1/models": `hello`}, "not the JSON expected", 2},
		{"too large", map[string]string{"/v1/models": strings.Repeat(" ", maxFactsBytes+1)}, "larger than", 4}, // read errors are tried three times
		{"the largest", map[string]string{"/v1/models": oneModel + strings.Repeat(" ", maxFactsBytes-len(oneModel))}, "{[{demo-model 1758450000 sglang }] 0}", 2},
		{"ill", map[string]string{"/server_info": "500"}, "/server_info answered 500", 3},
		{"busy", map[string]string{"/server_info": "503"}, "/server_info answered 503", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := &engines{}
				net.set("e:1", routes(c.bodies))
				got, err := newAsker(Options{Transport: net}).introspect(t.Context(), "http://e:1/")
				text := fmt.Sprintf("{%v %d}", got.models, got.dpSize)
				if err != nil {
					text = err.Error()
				}
				if !strings.Contains(text, c.want) || (err == nil) != strings.HasPrefix(c.want, "{") {
					t.Errorf("got %s, %v, want %s", text, err, c.want)
				}
				if len(net.calls) != c.calls {
					t.Errorf("%d requests, want %d: %v", len(net.calls), c.calls, net.calls)
				}
			})
		})
	}
}

func TestAnEngineCannotSendTheRouterElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &engines{}
		net.set("e:1", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://metadata:80"+r.URL.Path)
			w.WriteHeader(302)
		})
		net.set("metadata:80", routes(map[string]string{"/v1/models": oneModel, "/health": "200"}))
		a := newAsker(Options{Transport: net})
		if _, err := a.introspect(t.Context(), "http://e:1"); err == nil || !strings.Contains(err.Error(), "answered 302") {
			t.Errorf("got %v", err)
		}
		if err := a.probe(t.Context(), "http://e:1"); err != nil { // it answers
			t.Error(err)
		}
		if calls := fmt.Sprint(net.seen()); strings.Contains(calls, "metadata") {
			t.Errorf("followed: %s", calls)
		}
	})
}

func TestIntrospectionHasThreeAttemptsOfTwoSecondsAndBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &engines{}
		net.set("e:1", hang)
		start := time.Now()
		_, err := newAsker(Options{Transport: net}).introspect(t.Context(), "http://e:1")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		if got := time.Since(start); got != 3*askTimeout+3*askBackOff {
			t.Fatalf("gave up after %v", got)
		}
		if len(net.at) != 3 || net.at[1].Sub(net.at[0]) != askTimeout+askBackOff || net.at[2].Sub(net.at[1]) != askTimeout+2*askBackOff {
			t.Fatalf("attempts at %v", net.at)
		}
		if strings.Contains(err.Error(), "e:1") {
			t.Fatalf("the error names the address: %v", err)
		}
	})
}

func TestTheKeyIsSentAndReadAnewEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, key := &engines{}, "first"
		net.set("e:1", routes(map[string]string{"/v1/models": oneModel, "/health": "200"}))
		a := newAsker(Options{Transport: net, APIKey: func() string { return key }})
		if _, err := a.introspect(t.Context(), "http://e:1"); err != nil {
			t.Fatal(err)
		}
		key = "second"
		if err := a.probe(t.Context(), "http://e:1"); err != nil {
			t.Fatal(err)
		}
		key = ""
		if err := a.probe(t.Context(), "http://e:1/base/"); err != nil {
			t.Fatal(err)
		}
		want := "e:1/server_info Bearer first|e:1/v1/models Bearer first|e:1/health Bearer second|e:1/base/health"
		if got := strings.Join(net.calls, "|"); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}

func TestAProbePassesOnAnyAnswerBelow500(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &engines{}
		a := newAsker(Options{Transport: net})
		for code, ok := range map[string]bool{"200": true, "404": true, "401": true, "429": true, "500": false, "503": false} {
			net.set("e:1", routes(map[string]string{"/health": code}))
			if err := a.probe(t.Context(), "http://e:1"); (err == nil) != ok {
				t.Errorf("%s: %v", code, err)
			}
		}
		if err := a.probe(t.Context(), "http://nobody:1"); err == nil {
			t.Error("no connection passed")
		}
		net.set("e:1", hang)
		start := time.Now()
		if err := a.probe(t.Context(), "http://e:1"); err == nil || time.Since(start) != probeTimeout {
			t.Errorf("a silent engine: %v after %v", err, time.Since(start))
		}
	})
}

func TestLimitsOfAModelListHold(t *testing.T) {
	list := func(n, size int) []byte {
		items := make([]string, n)
		for i := range items {
			items[i] = fmt.Sprintf(`{"id":"%0*d"}`, size, i)
		}
		return []byte(`{"data":[` + strings.Join(items, ",") + `]}`)
	}
	for _, c := range []struct {
		n, size int
		ok      bool
	}{{maxModels, 8, true}, {maxModels + 1, 8, false}, {1, maxModelIDBytes, true}, {1, maxModelIDBytes + 1, false}} {
		got, err := decodeModels(list(c.n, c.size))
		if (err == nil) != c.ok || (c.ok && len(got) != c.n) {
			t.Errorf("%d models of %d bytes: %d, %v", c.n, c.size, len(got), err)
		}
	}
	for size, ok := range map[int]bool{1: true, maxDPSize: true, maxDPSize + 1: false, -1: false} {
		if _, err := decodeServerInfo(fmt.Appendf(nil, `{"dp_size":%d}`, size)); (err == nil) != ok {
			t.Errorf("dp_size %d: %v", size, err)
		}
	}
}

func FuzzIntrospection(f *testing.F) {
	for _, s := range []string{
		sglangInfo, oneModel, "", "{}", "null", "[]", `{"data":null}`, `{"data":[{"id":1}]}`, `{"served_model_name":[null]}`,
		`{"served_model_name":{}}`, `{"data":[{"id":"a","created":"17"},{"id":"b","created":1e300},{"id":"c","created":-1}]}`,
		`{"dp_size":1e2}`, `{"kv_events":{"dp_size":3}}`, `{"kv_events":null,"model_path":"\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		check := func(models []Model) {
			if len(models) > maxModels {
				t.Fatalf("%d models", len(models))
			}
			for i, m := range models {
				if m.ID == "" || m.Created < 0 || (i > 0 && models[i-1].ID >= m.ID) {
					t.Fatalf("models %v", models)
				}
			}
		}
		if info, err := decodeServerInfo(body); err == nil {
			check(info.models)
			if info.dpSize < 0 || info.dpSize > maxDPSize {
				t.Fatalf("dp size %d", info.dpSize)
			}
		}
		if models, err := decodeModels(body); err == nil {
			check(models)
		}
	})
}
