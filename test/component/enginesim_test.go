package component

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/app"
	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/httpapi"
)

// double starts an engine double that takes no time.
func double(t *testing.T, dialect httpapi.Dialect, dpSize int) *httptest.Server {
	t.Helper()
	e, err := enginesim.New(enginesim.Options{DPSize: dpSize})
	if err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(httpapi.Options{Engine: e, Model: "m", Dialect: dialect, Name: "double"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	s := httptest.NewServer(api.Handler())
	t.Cleanup(func() {
		s.Close()
		cancel()
		if err := <-ended; err != nil && ctx.Err() == nil {
			t.Errorf("the double ended with %v", err)
		}
	})
	return s
}

// fault sets a fault of the double through its control API.
func fault(t *testing.T, s *httptest.Server, spec string) {
	t.Helper()
	resp, err := http.Post(s.URL+"/control/faults", "application/json", strings.NewReader(spec))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("set fault %s: %d %s", spec, resp.StatusCode, text)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
}

// direct asks the double without the router.
func direct(t *testing.T, s *httptest.Server, path, body string) reply {
	t.Helper()
	r := router{t: t, data: s.URL, client: s.Client()}
	return r.post(context.Background(), path, body)
}

func TestEveryRouteOfEveryEngineIsServed(t *testing.T) {
	bodies := map[string][]string{
		chatPath: {chatBody, streamBody},
		completionsPath: {
			`{"model":"m","prompt":"hello","max_tokens":4}`, `{"model":"m","prompt":["a","b"],"max_tokens":4}`,
			`{"model":"m","prompt":[1,2,3],"max_tokens":4,"stream":true,"stream_options":{"include_usage":true}}`, `{"model":"m","prompt":[[1,2],[3]],"max_tokens":4}`,
		},
		"/generate": {`{"text":"hello","sampling_params":{"max_new_tokens":4}}`, `{"input_ids":[1,2,3],"stream":true,"sampling_params":{"max_new_tokens":4}}`},
	}
	for _, dialect := range []httpapi.Dialect{httpapi.SGLang, httpapi.VLLM} {
		for _, dpSize := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s dp=%d", dialect, dpSize), func(t *testing.T) {
				r := startRouter(t, app.Options{}, double(t, dialect, dpSize).URL)
				for path, all := range bodies {
					if path == "/generate" && dialect == httpapi.VLLM {
						continue
					}
					for _, body := range all {
						got := r.post(context.Background(), path, body)
						if got.status != 200 || got.err != nil || len(got.body) == 0 {
							t.Errorf("%s %s: got %d %q %v", path, body, got.status, got.body, got.err)
						}
						if strings.Contains(body, `"stream":true`) && !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
							t.Errorf("%s %s: the stream ends with %.60q", path, body, got.body[max(0, len(got.body)-60):])
						}
					}
				}
				if got := r.metric(`routerfleet_usage_tokens_total{kind="completion"}`); got == 0 {
					t.Error("no usage was read")
				}
				r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="a"}`, 0)
			})
		}
	}
}

func TestTheEnginesRefusalsComeBackUnchanged(t *testing.T) {
	s := double(t, httpapi.SGLang, 1)
	r := startRouter(t, app.Options{CBThreshold: 1}, s.URL)
	for _, body := range []string{
		`{"model":"m","messages":[]}`, `{"model":"m"}`, `{"model":"m","messages":"x"}`, `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":-1}`,
	} {
		want, got := direct(t, s, chatPath, body), r.post(context.Background(), chatPath, body)
		if want.status < 400 || got.status != want.status || got.body != want.body {
			t.Errorf("%s: through the router %d %s, directly %d %s", body, got.status, got.body, want.status, want.body)
		}
	}
}

func TestFaultsOfAnEngineReachTheClientAsWhatTheyAre(t *testing.T) {
	for _, c := range []struct {
		fault  string
		body   string
		status int
		broken bool // the answer must not end properly
		holds  string
		lacks  string
	}{
		{`{"name":"cut","after_chunks":3}`, streamBody, 200, true, "data:", "[DONE]"},
		{`{"name":"cut"}`, chatBody, 502, false, "upstream_body_incomplete", ""},
		{`{"name":"reset"}`, chatBody, 502, false, "upstream_unreachable", ""},
		{`{"name":"stall","after_chunks":1}`, streamBody, 200, true, "upstream_timeout", "[DONE]"},
		{`{"name":"stream_error","after_chunks":1}`, streamBody, 200, false, "error", "[DONE]"},
		{`{"name":"no_done"}`, streamBody, 200, false, "data:", "[DONE]"},
		{`{"name":"split_sse","chunk_bytes":7}`, streamBody, 200, false, "[DONE]", ""},
		{`{"name":"sse_lines","line_end":"crlf","comments":true}`, streamBody, 200, false, ": ping\r\n", ""},
		{`{"name":"wrong_length","length_delta":5}`, chatBody, 502, false, "upstream_body_incomplete", ""},
		{`{"name":"status","status":429,"retry_after_seconds":9}`, chatBody, 429, false, "error", ""},
		{`{"name":"status","status":503}`, chatBody, 503, false, "error", "no_healthy_workers"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			s := double(t, httpapi.SGLang, 1)
			r := startRouter(t, app.Options{StreamIdleTimeoutSecs: 1}, s.URL)
			fault(t, s, c.fault)
			got := r.post(context.Background(), chatPath, c.body)
			if got.status != c.status || (got.err != nil) != c.broken || !strings.Contains(got.body, c.holds) {
				t.Errorf("got %d %q %v", got.status, got.body, got.err)
			}
			if c.lacks != "" && strings.Contains(got.body, c.lacks) {
				t.Errorf("got %q, which must not hold %q", got.body, c.lacks)
			}
			if strings.Contains(c.fault, "retry_after") && got.header.Get("Retry-After") != "9" {
				t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
			}
		})
	}
}

func TestAFaultyEngineCostsNoRequestBesideAGoodOne(t *testing.T) {
	for _, spec := range []string{
		`{"name":"reset"}`, `{"name":"status","status":503}`, `{"name":"status","status":429,"retry_after_seconds":1}`,
		`{"name":"status","status":502}`, `{"name":"status","status":504}`, `{"name":"cut"}`,
	} {
		t.Run(spec, func(t *testing.T) {
			bad, good := double(t, httpapi.SGLang, 1), double(t, httpapi.VLLM, 1)
			r := startRouter(t, app.Options{Policy: "round_robin"}, bad.URL, good.URL)
			fault(t, bad, spec)
			body := chatBody
			if strings.Contains(spec, `"cut"`) {
				body = streamBody // without a single event: nothing has gone to the client
			}
			for i := range 12 {
				got := r.post(context.Background(), chatPath, body)
				if got.status != 200 || got.err != nil {
					t.Errorf("request %d: got %d %q %v", i, got.status, got.body, got.err)
				}
			}
		})
	}
}

func TestTheEngineHearsThatItsClientLeft(t *testing.T) {
	s := double(t, httpapi.SGLang, 1)
	r := startRouter(t, app.Options{}, s.URL)
	fault(t, s, `{"name":"stall","after_chunks":2}`)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan reply, 1)
	go func() { done <- r.post(ctx, chatPath, streamBody) }()
	outcomes := func() string {
		resp, err := s.Client().Get(s.URL + "/control/state")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return string(text)
	}
	eventually(t, "the stream is under way", func() bool { return r.metric(`routerfleet_ttft_seconds_count{route="chat"}`) == 1 })
	cancel()
	left := time.Now()
	<-done
	eventually(t, "the engine counts a client that left", func() bool {
		return strings.Contains(outcomes(), `"client_gone":1`)
	})
	if took := time.Since(left); took > atOnce {
		t.Errorf("it took %s", took)
	}
}
