package component

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/routerfleet/routerfleet/router/app"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions"
	chatBody        = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	streamBody      = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	okAnswer        = `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`
)

// atOnce is how soon an engine hears of a client that left, however busy this machine is. That nothing waits is proved in
// package proxy, where time stands still.
const atOnce = 15 * time.Second

// eventually waits until a condition holds that another goroutine or process brings about. It fails the test after a
// time no healthy machine needs.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("it never came true that %s", what)
		}
	}
}

// engine is an httptest server that looks like an engine to discovery; answer handles what clients send.
type engine struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request // heads only
	bodies   []string
}

func newEngine(t *testing.T, answer http.HandlerFunc) *engine {
	t.Helper()
	e := &engine{}
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/server_info", http.NotFound)
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"test"}]}`)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		e.mu.Lock()
		e.requests, e.bodies = append(e.requests, r), append(e.bodies, string(body))
		e.mu.Unlock()
		answer(w, r)
	})
	e.Server = httptest.NewServer(mux)
	t.Cleanup(e.Close)
	return e
}

func (e *engine) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.requests)
}

func (e *engine) last() (*http.Request, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.requests) - 1
	return e.requests[n], e.bodies[n]
}

// router is a running router.
type router struct {
	t           testing.TB
	app         *app.App
	signals     chan os.Signal
	ended       chan struct{}
	err         error // valid once ended is closed
	data, admin string
	client      *http.Client
}

// startRouter starts a router over the engines and waits until it is ready for all of them.
func startRouter(t testing.TB, o app.Options, engines ...string) *router {
	t.Helper()
	r := bootRouter(t, o, engines...)
	eventually(t, "all workers are in rotation", func() bool {
		return r.metric(`routerfleet_workers{state="in_rotation"}`) == float64(len(engines)) && r.readyz() == 200
	})
	return r
}

// bootRouter starts one and does not wait for its engines.
func bootRouter(t testing.TB, o app.Options, engines ...string) *router {
	t.Helper()
	for i, url := range engines {
		o.Worker = append(o.Worker, string(rune('a'+i))+"="+url)
	}
	o.Log = io.Discard
	o.Listen = func(ctx context.Context, network, _ string) (net.Listener, error) {
		var config net.ListenConfig
		return config.Listen(ctx, network, "127.0.0.1:0")
	}
	a, err := app.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &router{t: t, app: a, signals: make(chan os.Signal, 2), ended: make(chan struct{})}
	go func() { defer close(r.ended); r.err = a.Run(r.signals) }()
	select {
	case <-a.Started():
	case <-r.ended:
		t.Fatalf("the router did not start: %v", r.err)
	}
	data, admin := a.Addrs()
	r.data, r.admin = "http://"+data.String(), "http://"+admin.String()
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	r.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		r.stop()
	})
	return r
}

// stop ends the router now; a router that has ended already is fine.
func (r *router) stop() {
	r.t.Helper()
	for range 2 {
		select {
		case r.signals <- syscall.SIGTERM:
		case <-r.ended:
		}
	}
	<-r.ended
	if r.err != nil {
		r.t.Errorf("the router ended with %v", r.err)
	}
}

func (r *router) readyz() int {
	resp, err := r.client.Get(r.admin + "/readyz")
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// metric reads one series from /metrics, 0 when it is missing.
func (r *router) metric(series string) float64 {
	r.t.Helper()
	resp, err := r.client.Get(r.admin + "/metrics")
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, series+" "); found {
			var value float64
			if err := json.Unmarshal([]byte(strings.TrimSpace(rest)), &value); err != nil {
				r.t.Fatalf("%s: %v", line, err)
			}
			return value
		}
	}
	return 0
}

// wantMetric waits until a series has its value: an answer is counted when its client has it already.
func (r *router) wantMetric(series string, want float64) {
	r.t.Helper()
	got := r.metric(series)
	for deadline := time.Now().Add(2 * time.Minute); got != want && time.Now().Before(deadline); got = r.metric(series) {
		runtime.Gosched()
	}
	if got != want {
		r.t.Errorf("%s: got %v, want %v", series, got, want)
	}
}

// reply is an answer as the client saw it; err is what ended its body, nil for a proper end.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

func (r *router) post(ctx context.Context, path, body string) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.data+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(data), err: err}
}

func writeAnswer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func flush(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

// content is one chunk of a chat stream.
func content(text string) string {
	return `data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n"
}
