package component

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/app"
)

// service stands for a Kubernetes Service over two routers: new requests go to the first while it is ready, as an
// observer that looks now and then last saw it.
type service struct {
	first, second *router
	leftFirst     atomic.Bool
}

func (s *service) target() *router {
	if s.leftFirst.Load() {
		return s.second
	}
	return s.first
}

// Streams run on, keep-alive clients move over, and nobody loses a request while a router shuts down under load.
func TestAShutdownUnderLoadLosesNoRequest(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Request-Id") == "long" {
			w.Header().Set("Content-Type", "text/event-stream")
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for i := range 100 { // two seconds: longer than the linger
				flush(w, content(fmt.Sprint(i)))
				<-tick.C
			}
			flush(w, "data: [DONE]\n\n")
			return
		}
		writeAnswer(w, 200, okAnswer)
	}
	a, b := newEngine(t, answer), newEngine(t, answer)
	s := &service{
		first:  startRouter(t, app.Options{ShutdownLingerSecs: 4, ShutdownDrainSecs: 30}, a.URL, b.URL),
		second: startRouter(t, app.Options{}, a.URL, b.URL),
	}

	long := make(chan reply, 1)
	go func() { long <- longStream(s.first) }()
	eventually(t, "the long stream runs", func() bool { return s.first.metric("routerfleet_inflight_requests") == 1 })

	stop := make(chan struct{})
	var clients sync.WaitGroup
	var served, lost, closed atomic.Int64
	for range 16 {
		clients.Go(func() { keepAliveClient(t, s, stop, &served, &lost, &closed) })
	}
	eventually(t, "the clients are at work", func() bool { return served.Load() > 200 })

	s.first.signals <- syscall.SIGTERM
	eventually(t, "readiness is gone", func() bool { return s.first.readyz() == 503 })
	before := served.Load()
	eventually(t, "requests are served while endpoints have not heard", func() bool { return served.Load() > before+50 })
	s.leftFirst.Store(true)

	<-s.first.ended
	if s.first.err != nil {
		t.Errorf("the router ended with %v", s.first.err)
	}
	after := served.Load()
	eventually(t, "the clients work at the second router", func() bool { return served.Load() > after+50 })
	close(stop)
	clients.Wait()
	if lost.Load() != 0 {
		t.Errorf("%d of %d requests were lost", lost.Load(), served.Load())
	}
	if closed.Load() == 0 {
		t.Error("no answer asked its client to close the connection")
	}
	if got := <-long; got.err != nil || !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
		t.Errorf("the long stream ended with %v after %d events", got.err, strings.Count(got.body, "data:"))
	}
}

func longStream(r *router) reply {
	req, err := http.NewRequest(http.MethodPost, r.data+chatPath, strings.NewReader(streamBody))
	if err != nil {
		return reply{err: err}
	}
	req.Header.Set("X-Request-Id", "long")
	resp, err := r.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, body: string(body), err: err}
}

// keepAliveClient sends one request after the other on kept connections.
func keepAliveClient(t *testing.T, s *service, stop <-chan struct{}, served, lost, closed *atomic.Int64) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	for {
		select {
		case <-stop:
			return
		default:
		}
		resp, err := client.Post(s.target().data+chatPath, "application/json", strings.NewReader(chatBody))
		if err != nil {
			lost.Add(1)
			t.Errorf("lost: %v", err)
			return
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
			lost.Add(1)
			t.Errorf("lost: %d %v", resp.StatusCode, err)
		}
		resp.Body.Close()
		if resp.Close {
			closed.Add(1)
		}
		served.Add(1)
	}
}

func TestAStreamPastTheDrainDeadlineIsCutAndTheRouterEnds(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w, content("a"))
		<-r.Context().Done()
	})
	r := startRouter(t, app.Options{ShutdownLingerSecs: -1, ShutdownDrainSecs: 1}, e.URL)
	got := make(chan reply, 1)
	go func() { got <- r.post(context.Background(), chatPath, streamBody) }()
	eventually(t, "the stream runs", func() bool { return e.count() == 1 })
	r.signals <- syscall.SIGTERM
	<-r.ended
	if r.err != nil {
		t.Errorf("the router ended with %v", r.err)
	}
	if answer := <-got; answer.err == nil || strings.Contains(answer.body, "[DONE]") {
		t.Errorf("got %q with a proper end", answer.body)
	}
}
