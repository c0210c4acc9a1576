package component

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/app"
)

func TestAnOversizedBodyIsA413ThatNamesTheLimit(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 200, okAnswer) })
	r := startRouter(t, app.Options{MaxBodyBytes: 1000}, e.URL)
	body := func(n int) string {
		frame := `{"model":"m","prompt":""}`
		return `{"model":"m","prompt":"` + strings.Repeat("x", n-len(frame)) + `"}`
	}
	if got := r.post(context.Background(), completionsPath, body(1000)); got.status != 200 {
		t.Errorf("at the limit: %d %s", got.status, got.body)
	}
	announced := r.post(context.Background(), completionsPath, body(1001))
	req, _ := http.NewRequest(http.MethodPost, r.data+completionsPath, io.MultiReader(strings.NewReader(body(5000)))) // chunked
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	chunked, _ := io.ReadAll(resp.Body)
	for name, got := range map[string]reply{"announced": announced, "chunked": {status: resp.StatusCode, header: resp.Header, body: string(chunked)}} {
		if got.status != 413 || got.header.Get("X-RouterFleet-Error-Code") != "payload_too_large" || !strings.Contains(got.body, "1000 bytes") {
			t.Errorf("%s: got %d %s", name, got.status, got.body)
		}
	}
}

func TestAnUnknownModelNamesTheKnownOnesAndNoAddress(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 200, okAnswer) })
	r := startRouter(t, app.Options{}, e.URL)
	got := r.post(context.Background(), chatPath, `{"model":"gpt-9"}`)
	if got.status != 404 || got.header.Get("X-RouterFleet-Error-Code") != "model_not_found" || !strings.Contains(got.body, "known: m") {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

func TestNoErrorTellsWhereTheEnginesAre(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { reset(w) })
	address := strings.TrimPrefix(e.URL, "http://")
	r := startRouter(t, app.Options{}, e.URL)
	check := func(want int) {
		t.Helper()
		got := r.post(context.Background(), chatPath, chatBody)
		if got.status != want || strings.Contains(got.body, address) || strings.Contains(fmt.Sprint(got.header), address) {
			t.Errorf("got %d %s %v, want %d without %s", got.status, got.body, got.header, want, address)
		}
	}
	check(502)
	e.CloseClientConnections()
	e.Listener.Close()
	check(502)
}

func TestARequestSurvivesAnEngineThatIsGone(t *testing.T) {
	gone := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { reset(w) })
	alive := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 200, okAnswer) })
	r := startRouter(t, app.Options{}, gone.URL, alive.URL)
	gone.CloseClientConnections()
	gone.Listener.Close()
	for range 50 {
		if got := r.post(context.Background(), chatPath, chatBody); got.status != 200 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
}

func TestTheWorkersKeyReplacesTheClients(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 200, okAnswer) })
	send := func(r *router) {
		req, _ := http.NewRequest(http.MethodPost, r.data+chatPath, strings.NewReader(chatBody))
		req.Header.Set("Authorization", "Bearer client")
		req.Header.Set("Cookie", "session=1")
		req.Header.Set("X-Fleet-Mark", "avoid")
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	send(startRouter(t, app.Options{}, e.URL))
	if sent, _ := e.last(); sent.Header.Get("Authorization") != "Bearer client" || sent.Header.Get("Cookie") != "" || sent.Header.Get("X-Fleet-Mark") != "" {
		t.Errorf("without a worker key the engine got %v", sent.Header)
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("engine-key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	send(startRouter(t, app.Options{WorkerAPIKeyFile: path}, e.URL))
	if sent, _ := e.last(); sent.Header.Get("Authorization") != "Bearer engine-key" {
		t.Errorf("with a worker key the engine got %q", sent.Header["Authorization"])
	}
}

func TestSeriesOfTheContractAreThere(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w, content("a")+"data: [DONE]\n\n")
	})
	r := startRouter(t, app.Options{}, e.URL)
	if got := r.post(context.Background(), chatPath, streamBody); got.status != 200 {
		t.Fatal(got)
	}
	for series, want := range map[string]float64{
		`routerfleet_requests_total{code="200",route="chat"}`:             1,
		`routerfleet_worker_requests_total{outcome="success",worker="a"}`: 1,
		`routerfleet_request_duration_seconds_count{route="chat"}`:        1,
		`routerfleet_ttft_seconds_count{route="chat"}`:                    1,
		`routerfleet_request_overhead_seconds_count`:                      1,
		`routerfleet_stream_outcome_total{outcome="ok"}`:                  1,
		`routerfleet_workers{state="in_rotation"}`:                        1,
		`routerfleet_inflight_requests`:                                   0,
		`routerfleet_stale_requests_total`:                                0,
		`routerfleet_worker_breaker_state{worker="a"}`:                    0,
		`routerfleet_worker_inflight_requests{worker="a"}`:                0,
	} {
		eventually(t, series+" has its value", func() bool { return r.metric(series) == want })
	}
}
