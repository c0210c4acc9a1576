package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/httpapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is main without the process: a served double that takes signals.
type program struct {
	t       *testing.T
	url     string
	signals chan os.Signal
	ended   chan error
	client  *http.Client
}

func startProgram(t *testing.T, interval, linger, drain time.Duration) *program {
	t.Helper()
	engine, err := enginesim.New(enginesim.Options{TokenInterval: interval})
	if err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(httpapi.Options{Engine: engine, Model: "demo-model"})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &program{
		t: t, url: "http://" + listener.Addr().String(), signals: make(chan os.Signal, 2), ended: make(chan error, 1),
		client: &http.Client{Transport: &http.Transport{}},
	}
	ctx, stop := context.WithCancel(context.Background())
	ranks := make(chan struct{})
	go func() { defer close(ranks); _ = engine.Run(ctx) }()
	go func() {
		p.ended <- serve(httpapi.NewHTTPServer(api.Handler(), time.Minute), listener, shutdown{
			api: api, signals: p.signals, linger: linger, drain: drain, stopEngine: stop, log: slog.New(slog.DiscardHandler),
		})
	}()
	t.Cleanup(func() {
		p.client.CloseIdleConnections()
		stop()
		<-ranks
	})
	return p
}

// stream begins a streamed answer and returns once its first bytes came.
func (p *program) stream(tokens string) *http.Response {
	p.t.Helper()
	res, err := p.client.Post(p.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x","stream":true,"max_tokens":`+tokens+`}`))
	if err != nil {
		p.t.Fatal(err)
	}
	return res
}

func (p *program) rest(res *http.Response) (string, error) {
	data, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	return string(data), err
}

// notReady waits until /ready says so, on a connection of its own each time; it
// returns false when nobody listens any more.
func (p *program) notReady() bool {
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		res, err := fresh.Get(p.url + "/ready")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusServiceUnavailable {
			return true
		}
	}
}

func TestASignalLetsStreamsFinish(t *testing.T) {
	p := startProgram(t, 20*time.Millisecond, 0, time.Minute)
	res := p.stream("20")
	p.signals <- syscall.SIGTERM
	if body, err := p.rest(res); err != nil || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("the stream ended with %v", err)
	}
	if err := <-p.ended; err != nil {
		t.Errorf("serve: %v", err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://")); err == nil {
		t.Error("somebody still listens")
	}
}

func TestLingeringTakesRequestsButIsNotReady(t *testing.T) {
	p := startProgram(t, time.Millisecond, 2*time.Second, time.Minute)
	p.signals <- syscall.SIGTERM
	if !p.notReady() {
		t.Fatal("nobody listens while lingering")
	}
	res := p.stream("2")
	if !res.Close {
		t.Error("the answer does not say Connection: close")
	}
	if body, err := p.rest(res); err != nil || !strings.Contains(body, "[DONE]") {
		t.Errorf("a request while lingering: %v", err)
	}
	if err := <-p.ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestAStreamPastTheDeadlineIsBrokenOffVisibly(t *testing.T) {
	p := startProgram(t, time.Minute, 0, 50*time.Millisecond)
	res := p.stream("20")
	p.signals <- syscall.SIGTERM
	if body, err := p.rest(res); err == nil || strings.Contains(body, "[DONE]") {
		t.Errorf("a stream broken off looks whole: error %v", err)
	}
	if err := <-p.ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestASecondSignalMeansNow(t *testing.T) {
	p := startProgram(t, time.Minute, time.Hour, time.Hour)
	res := p.stream("20")
	p.signals <- syscall.SIGTERM
	p.signals <- syscall.SIGTERM
	if _, err := p.rest(res); err == nil {
		t.Error("the stream ended well")
	}
	if err := <-p.ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestAFailedListenerEndsTheProgram(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	f := flags{Host: "127.0.0.1", Port: taken.Addr().(*net.TCPAddr).Port, Model: "m", Engine: "vllm", LogLevel: "error", MaxModelLen: 100}
	if err := run(f, nil); err == nil || !strings.Contains(err.Error(), "listen for requests") {
		t.Errorf("got %v", err)
	}
}
