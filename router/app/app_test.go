package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

// lockedBuffer is a log that tests may read while the router writes.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// loopback opens any free port instead of the one asked for.
func loopback(ctx context.Context, network, _ string) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, network, "127.0.0.1:0")
}

// running is a router under test.
type running struct {
	*App
	t       *testing.T
	signals chan os.Signal
	ended   chan error
	log     *lockedBuffer
}

func start(t *testing.T, o Options) *running {
	t.Helper()
	log := &lockedBuffer{}
	o.Listen, o.Log = loopback, log
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{App: a, t: t, signals: make(chan os.Signal, 2), ended: make(chan error, 1), log: log}
	go func() { r.ended <- a.Run(r.signals) }()
	select {
	case <-a.Started():
	case err := <-r.ended:
		t.Fatalf("the router did not start: %v", err)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return r
}

// stop hurries the router out.
func (r *running) stop() {
	r.t.Helper()
	r.signals <- syscall.SIGTERM
	r.signals <- syscall.SIGTERM
	if err := <-r.ended; err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

func (r *running) get(path string) (int, string) {
	r.t.Helper()
	_, admin := r.Addrs()
	resp, err := http.Get("http://" + admin.String() + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// awaitReady polls /readyz with each snapshot of the registry, never with a clock.
func (r *running) awaitReady() {
	r.t.Helper()
	for !r.ready.Load() {
		changed := r.workers.Changed()
		if usable(r.workers.Snapshot()) {
			break
		}
		<-changed
	}
}

func engine(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
	})
	mux.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestReadyBeginsWithTheFirstUsableWorkerAndEndsWithTheSignal(t *testing.T) {
	silent := httptest.NewServer(http.NotFoundHandler())
	defer silent.Close()
	r := start(t, Options{Worker: []string{"a=" + silent.URL}})
	if code, body := r.get("/readyz"); code != 503 || !strings.Contains(body, "waiting for the first usable worker") {
		t.Errorf("without a usable worker: %d %q", code, body)
	}
	if code, _ := r.get("/healthz"); code != 200 {
		t.Errorf("/healthz: %d", code)
	}
	r.stop()

	e := engine(t)
	r = start(t, Options{Worker: []string{"a=" + e.URL}})
	r.awaitReady()
	for !r.ready.Load() { // The latch follows the same snapshot in another goroutine.
		if code, _ := r.get("/readyz"); code == 200 {
			break
		}
	}
	if code, body := r.get("/readyz"); code != 200 {
		t.Errorf("with a usable worker: %d %q", code, body)
	}
	if code, body := r.get("/metrics"); code != 200 || !strings.Contains(body, "routerfleet_build_info") || !strings.Contains(body, "routerfleet_inflight_requests") {
		t.Errorf("/metrics: %d, %d bytes", code, len(body))
	}
	r.signals <- syscall.SIGTERM
	for !r.draining.Load() { // Run has yet to read the signal.
		_, _ = r.get("/healthz")
	}
	if code, body := r.get("/readyz"); code != 503 || !strings.Contains(body, "shutting down") {
		t.Errorf("after the signal: %d %q", code, body)
	}
	r.signals <- syscall.SIGTERM
	if err := <-r.ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestARouterThatWaitsSaysWhatItsWorkersAnswered(t *testing.T) {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
	defer broken.Close()
	r := start(t, Options{Worker: []string{"a=" + broken.URL}})
	defer r.stop()
	const want = "waiting for the first usable worker: 1 discovered; 1 unhealthy, 1 of them asked: a: its health probe fails: /health answered 500"
	for {
		changed := r.workers.Changed()
		if r.workers.Snapshot().Workers()[0].Failed {
			break
		}
		<-changed
	}
	if code, body := r.get("/readyz"); code != 503 || strings.TrimSpace(body) != want {
		t.Errorf("/readyz: %d %q", code, body)
	}
	if got := r.status().Error; got != want {
		t.Errorf("bootstrap: %q", got)
	}
}

func TestAReadyRouterStaysReadyWhenItsWorkersLeave(t *testing.T) {
	e := engine(t)
	r := start(t, Options{Worker: []string{"a=" + e.URL}, CBThreshold: 1})
	defer r.stop()
	r.awaitReady()
	for !r.ready.Load() {
		_, _ = r.get("/healthz")
	}
	e.Close()
	data, _ := r.Addrs()
	resp, err := http.Post("http://"+data.String()+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 502 || usable(r.workers.Snapshot()) {
		t.Fatalf("the request got %d; want 502 and an open breaker", resp.StatusCode)
	}
	if code, body := r.get("/readyz"); code != 200 {
		t.Errorf("got %d %q, want 200", code, body)
	}
}

func TestBootstrapTakesSignedCallsAndSaysWhatIsKnown(t *testing.T) {
	dir := t.TempDir()
	secret := []byte("0123456789abcdef0123456789abcdef")
	if err := os.WriteFile(filepath.Join(dir, signed.FilePeer), secret, 0o600); err != nil {
		t.Fatal(err)
	}
	e := engine(t)
	r := start(t, Options{Worker: []string{"a=" + e.URL}, TokenDir: dir, PodUID: "uid-1", Revision: "rev-1"})
	defer r.stop()
	if code, _ := r.get("/internal/bootstrap"); code != 401 {
		t.Errorf("without a signature: %d, want 401", code)
	}
	r.awaitReady()
	for r.boot.settledAt().IsZero() || !r.ready.Load() {
		_, _ = r.get("/healthz")
	}
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := http.Client{Transport: &signed.Transport{Base: base, Keys: func() []signed.Key { return []signed.Key{signed.NewKey(secret)} }}}
	_, admin := r.Addrs()
	resp, err := client.Get("http://" + admin.String() + "/internal/bootstrap")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := status.Decode(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%d %v", resp.StatusCode, err)
	}
	if got.PodUID != "uid-1" || got.Revision != "rev-1" || got.Boot == "" || got.State != status.StateSettled || got.Verdict != status.VerdictDisabled ||
		got.Workers.Discovered != 1 || got.Workers.Usable != 1 || got.Error != "" || got.SettledAt.IsZero() || got.TokenGeneration != signed.NewKey(secret).ID {
		body, _ := json.Marshal(got)
		t.Errorf("got %s", body)
	}
}

func TestWithoutTokensInternalCallsSayWhatToDo(t *testing.T) {
	r := start(t, Options{Worker: []string{"http://127.0.0.1:1"}})
	defer r.stop()
	if code, body := r.get("/internal/bootstrap"); code != 401 || !strings.Contains(body, "--token-dir") {
		t.Errorf("got %d %q", code, body)
	}
	if code, _ := r.get("/internal/other"); code != 401 {
		t.Errorf("an unknown internal path tells strangers %d", code)
	}
}

func TestATakenPortIsAClearErrorAndTheStartIsUndone(t *testing.T) {
	var opened []net.Listener
	o := Options{Worker: []string{"http://127.0.0.1:1"}, Log: io.Discard}
	o.Listen = func(ctx context.Context, network, address string) (net.Listener, error) {
		if len(opened) == 1 {
			return nil, errors.New("address already in use")
		}
		l, err := loopback(ctx, network, address)
		opened = append(opened, l)
		return l, err
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	err = a.Run(make(chan os.Signal))
	if err == nil || !strings.Contains(err.Error(), "start data listener") || !strings.Contains(err.Error(), "0.0.0.0:30000") {
		t.Errorf("got %v", err)
	}
	if _, err := opened[0].Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the admin listener was left open: %v", err)
	}
}

func TestAListenerThatDiesEndsTheRouterWithItsReason(t *testing.T) {
	r := start(t, Options{Worker: []string{"http://127.0.0.1:1"}, ShutdownLingerSecs: -1})
	_ = r.data.socket.Close()
	if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "data listener") {
		t.Errorf("got %v", err)
	}
}

func TestASecondSignalEndsEveryWait(t *testing.T) {
	r := start(t, Options{Worker: []string{"http://127.0.0.1:1"}, ShutdownLingerSecs: 600})
	began := time.Now()
	r.stop()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
	if !strings.Contains(r.log.String(), "stopping now") {
		t.Errorf("log: %s", r.log)
	}
}
