package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/httpapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// double is an engine double on loopback.
type double struct {
	t      *testing.T
	url    string
	server *http.Server
}

func startDouble(t *testing.T, options enginesim.Options, name string) *double {
	t.Helper()
	engine, err := enginesim.New(options)
	if err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(httpapi.Options{Engine: engine, Model: "demo-model", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &double{t: t, url: "http://" + listener.Addr().String(), server: httpapi.NewHTTPServer(api.Handler(), time.Minute)}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Run(ctx) })
	running.Go(func() { _ = d.server.Serve(listener) })
	t.Cleanup(func() {
		_ = d.server.Close()
		stop()
		running.Wait()
	})
	return d
}

func (d *double) fault(body string) {
	d.t.Helper()
	res, err := http.Post(d.url+"/control/faults", "application/json", strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	_ = res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if res.StatusCode != http.StatusOK {
		d.t.Fatalf("set fault %s: %s", body, res.Status)
	}
}

// run sends load and returns the result and the lines.
func runLoad(t *testing.T, o Options) (Result, []string) {
	t.Helper()
	var out bytes.Buffer
	o.Output = &out
	result, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var last Result
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Type != "result" || last.Requests != result.Requests {
		t.Errorf("the last line is not the result: %v: %s", err, lines[len(lines)-1])
	}
	return result, lines
}

func TestTheTraceIsReplayedWholeAndCounted(t *testing.T) {
	d := startDouble(t, enginesim.Options{PageSize: 512}, "engine-a")
	result, _ := runLoad(t, Options{Target: d.url + "/", Requests: 12, MaxOutput: 4, Connections: 3})
	if result.OK != 12 || result.Failed != 0 || result.Model != "demo-model" || result.ByEngine["engine-a"] != 12 {
		t.Fatalf("got %+v", result)
	}
	// All but the first request share at least the first block.
	if result.CachedTokens < 11*512 || result.OutputTokens > 48 || result.PromptTokens < 12*512 {
		t.Errorf("tokens: prompt %d cached %d output %d", result.PromptTokens, result.CachedTokens, result.OutputTokens)
	}
	if result.ConnectionsOpened > 3 || result.Latency == nil || result.TTFT.P50 > result.Latency.Max {
		t.Errorf("%d connections, latency %+v, ttft %+v", result.ConnectionsOpened, result.Latency, result.TTFT)
	}
}

func TestSteadyLoadRunsForItsDuration(t *testing.T) {
	d := startDouble(t, enginesim.Options{}, "engine-a")
	result, lines := runLoad(t, Options{Target: d.url, Mode: Steady, Duration: 1200 * time.Millisecond, Connections: 2, NewConnections: true})
	if result.Failed != 0 || result.OK == 0 || result.ConnectionsOpened != result.OK || result.Seconds < 1.2 {
		t.Errorf("got %+v", result)
	}
	var p Progress
	if err := json.Unmarshal([]byte(lines[0]), &p); err != nil || p.Type != "progress" || p.Fraction < 0.8 {
		t.Errorf("the first line: %s", lines[0])
	}
}

// Each fault of the double must show as a failure with its own code: a request
// that did not end well may not hide.
func TestEveryKindOfFailureIsSeen(t *testing.T) {
	for _, c := range []struct {
		fault, code string
		status      int
	}{
		{`{"name":"status","status":503,"requests":2}`, "http_503", 503},
		{`{"name":"reset","requests":2}`, codeReset, 0},
		{`{"name":"cut","after_chunks":2,"requests":2}`, codeReset, 200},
		{`{"name":"no_done","requests":2}`, codeTruncated, 200},
		{`{"name":"stream_error","after_chunks":2,"requests":2}`, codeErrorEvent, 200},
		{`{"name":"wrong_length","length_delta":40,"requests":2}`, "http_400", 400},
		{`{"name":"stall","after_chunks":2,"requests":2}`, codeTimeout, 200},
		{`{"name":"delay_headers","delay_ms":60000,"requests":2}`, codeTimeout, 0},
	} {
		t.Run(c.code+c.fault[8:15], func(t *testing.T) {
			t.Parallel() // most of it is waiting
			d := startDouble(t, enginesim.Options{PageSize: 512}, "engine-a")
			d.fault(c.fault)
			// Good requests must not time out on a busy machine; those that never end
			// cost the whole timeout.
			timeout := time.Minute
			if c.code == codeTimeout {
				timeout = 2 * time.Second
			}
			result, _ := runLoad(t, Options{Target: d.url, Model: "demo-model", Mode: Steady, Requests: 4, Connections: 1, Timeout: timeout})
			if result.OK != 2 || result.Failed != 2 || result.ByCode[c.code] != 2 {
				t.Fatalf("ok %d, failed %v; want 2 and 2 x %s", result.OK, result.ByCode, c.code)
			}
			if f := result.FirstFailures[0]; f.Status != c.status || f.Text == "" {
				t.Errorf("first failure %+v, want status %d", f, c.status)
			}
		})
	}
}

func TestOddFramingIsNoFailure(t *testing.T) {
	d := startDouble(t, enginesim.Options{PageSize: 512}, "engine-a")
	d.fault(`{"name":"split_sse","chunk_bytes":7}`)
	d.fault(`{"name":"sse_lines","line_end":"cr","comments":true}`)
	if result, _ := runLoad(t, Options{Target: d.url, Mode: Steady, Requests: 9, Connections: 1}); result.OK != 9 {
		t.Errorf("got %+v", result)
	}
}

func TestNobodyListeningIsAConnectError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	_ = listener.Close()
	result, _ := runLoad(t, Options{Target: url, Model: "m", Mode: Steady, Requests: 2})
	if result.ByCode[codeConnect] != 2 {
		t.Errorf("got %v", result.ByCode)
	}
	_, err = Run(context.Background(), Options{Target: url, Mode: Steady, Requests: 2, WaitForModel: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "--model") {
		t.Errorf("without a model: %v, want to hear what to do", err)
	}
}

// fake serves one hand-written answer.
func fake(t *testing.T, answer func(http.ResponseWriter)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) })}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return "http://" + listener.Addr().String()
}

func TestAnAnswerThatOnlyLooksGoodIsAFailure(t *testing.T) {
	const done = "data: [DONE]\n\n"
	finish := `data: {"choices":[{"finish_reason":"length"}]}` + "\n\n"
	usage := func(prompt, completion, cached string) string {
		return `data: {"choices":[],"usage":{"prompt_tokens":` + prompt + `,"completion_tokens":` + completion + `,"prompt_tokens_details":{"cached_tokens":` + cached + `}}}` + "\n\n"
	}
	for name, c := range map[string]struct{ body, code string }{
		"good":                     {finish + usage("6758", "4", "512") + done, ""},
		"good without usage":       {finish + done, ""},
		"no finish reason":         {done, codeTruncated},
		"no done":                  {finish, codeTruncated},
		"half a done":              {finish + "data: [DONE]", codeTruncated},
		"no JSON":                  {"data: hello\n\n" + finish + done, codeBadResponse},
		"an error":                 {`data: {"error":{"message":"x"}}` + "\n\n" + done, codeErrorEvent},
		"another prompt":           {finish + usage("6757", "4", "0") + done, codeMismatch},
		"a short answer":           {finish + usage("6758", "3", "0") + done, codeMismatch},
		"more cached than sent":    {finish + usage("6758", "4", "6759") + done, codeMismatch},
		"plain JSON for a stream ": {`{"choices":[{"finish_reason":"length"}]}`, codeTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			url := fake(t, func(w http.ResponseWriter) { _, _ = w.Write([]byte(c.body)) })
			result, _ := runLoad(t, Options{Target: url, Model: "m", Requests: 1, MaxOutput: 4})
			if (c.code == "") != (result.OK == 1) || (c.code != "" && result.ByCode[c.code] != 1) {
				t.Errorf("ok %d, failures %+v; want %q", result.OK, result.FirstFailures, c.code)
			}
		})
	}
}

func TestTheRoutersErrorCodeIsTheCode(t *testing.T) {
	url := fake(t, func(w http.ResponseWriter) {
		w.Header().Set(errorCodeHeader, "no_healthy_workers")
		http.Error(w, "nobody is there", http.StatusServiceUnavailable)
	})
	result, _ := runLoad(t, Options{Target: url, Model: "m", Mode: Steady, Requests: 3, Connections: 1})
	if result.ByCode["no_healthy_workers"] != 3 || !strings.Contains(result.FirstFailures[0].Text, "nobody is there") {
		t.Errorf("got %v, %+v", result.ByCode, result.FirstFailures)
	}
}

func TestTheProbeMeasuresWhatTheTargetAdds(t *testing.T) {
	d := startDouble(t, enginesim.Options{}, "engine-a")
	const added = 20 * time.Millisecond
	proxy := delayingProxy(t, d.url, added)
	result, _ := runLoad(t, Options{Target: proxy, Direct: d.url, Mode: Steady, Requests: 1, ProbePairs: 10})
	p := result.Probe
	if p == nil || p.Pairs != 10 || p.Failed != 0 {
		t.Fatalf("probe %+v", p)
	}
	if p.Added.P50 < added.Seconds() || p.Target.P50 < p.Direct.P50 {
		t.Errorf("added %v, want at least %v", p.Added.P50, added.Seconds())
	}
}

func TestAFailedProbeIsSaid(t *testing.T) {
	d := startDouble(t, enginesim.Options{}, "engine-a")
	broken := fake(t, func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) })
	result, _ := runLoad(t, Options{Target: d.url, Direct: broken, Mode: Steady, Requests: 1, ProbePairs: 3})
	if p := result.Probe; p.Failed != 3 || p.Added != nil || !strings.Contains(p.Failure, "http_418") {
		t.Errorf("probe %+v", p)
	}
}

func TestOptionsReportEverythingWrongAtOnce(t *testing.T) {
	err := Options{
		Target: "demo:30000", Direct: "ftp://x", Mode: "burst", Speed: -1, Connections: maxConnections + 1, Requests: -1,
		MaxOutput: -1, ProbePairs: maxProbePairs + 1, Duration: -1, Timeout: -1, WaitForModel: -1,
	}.Validate()
	for _, field := range []string{"Target", "Direct", "Mode", "Speed", "Connections", "Requests", "MaxOutput", "ProbePairs", "Duration", "Timeout", "WaitForModel"} {
		if err == nil || !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%s is not reported: %v", field, err)
		}
	}
	if err := (Options{Target: "http://x", Mode: Steady}).Validate(); err == nil || !strings.Contains(err.Error(), "needs an end") {
		t.Errorf("steady without end: %v", err)
	}
}

// dyingConn fails its second write before a byte of it is sent, as a kept
// connection does whose peer has gone.
type dyingConn struct {
	net.Conn
	writes int
}

func (c *dyingConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(p)
}

func TestTheRetryOfNetHTTPIsCounted(t *testing.T) {
	d := startDouble(t, enginesim.Options{}, "engine-a")
	s := newSender(d.url, false)
	defer s.close()
	s.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &dyingConn{Conn: conn}, err
	}
	for i, want := range []outcome{{opened: 1}, {opened: 1, retried: 1}} {
		got := s.send(context.Background(), steadyRequest(i, "demo-model", 4))
		if got.failure != nil || got.opened != want.opened || got.retried != want.retried {
			t.Errorf("request %d: opened %d, retried %d, failure %v; want %d and %d", i, got.opened, got.retried, got.failure, want.opened, want.retried)
		}
	}
}
