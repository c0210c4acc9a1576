package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func bubble(t *testing.T, o Options, engines []string, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, o, engines...)
		defer r.close()
		test(r)
		synctest.Wait()
		r.wantIdle()
	})
}

func TestAnEngineThatDoesNotAnswerInTimeIsA504AndIsNotTriedElsewhere(t *testing.T) {
	bubble(t, Options{}, []string{"a", "b"}, func(r *rig) {
		hang := func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			if !waitFor(req, 2*time.Hour) {
				r.t.Error("the engine never heard that nobody waits")
			}
		}
		r.engine("a", hang)
		r.engine("b", hang)
		began := time.Now()
		r.wantError(r.post(chatPath, chatBody), CodeUpstreamTimeout)
		if took := time.Since(began); took != DefaultRequestTimeout {
			r.t.Errorf("took %s, want %s", took, DefaultRequestTimeout)
		}
		r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="a"}`, 1)
		r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="b"}`, 0)
		r.wantMetric(`routerfleet_requests_total{code="504",route="chat"}`, 1)
	})
}

func TestTheRequestTimeoutOfAStreamEndsWithItsHead(t *testing.T) {
	bubble(t, Options{RequestTimeout: 10 * time.Second}, []string{"a"}, func(r *rig) {
		r.engine("a", func(w http.ResponseWriter, req *http.Request) {
			writeEvents(w, `{"n":1}`)
			for range 20 {
				waitFor(req, 5*time.Second)
				writeEvents(w, `{"n":2}`)
			}
			writeEvents(w, `[DONE]`)
		})
		got := r.post(chatPath, streamBody)
		if got.err != nil || strings.Count(got.body, "data:") != 22 {
			r.t.Errorf("got %d events, %v; want 22 and a proper end", strings.Count(got.body, "data:"), got.err)
		}
		r.wantMetric(`routerfleet_stream_outcome_total{outcome="ok"}`, 1)
	})
}

func TestASilentStreamIsBrokenOffWithAnErrorEvent(t *testing.T) {
	bubble(t, Options{}, []string{"a"}, func(r *rig) {
		r.engine("a", func(w http.ResponseWriter, req *http.Request) {
			writeEvents(w, `{"n":1}`)
			waitFor(req, time.Hour)
		})
		began := time.Now()
		got := r.post(chatPath, streamBody)
		if took := time.Since(began); took != DefaultStreamIdleTimeout {
			r.t.Errorf("took %s, want %s", took, DefaultStreamIdleTimeout)
		}
		if got.err == nil || !strings.Contains(got.body, `"code":"upstream_timeout"`) || strings.Contains(got.body, "[DONE]") {
			r.t.Errorf("got %q, %v; want an error event and a broken end", got.body, got.err)
		}
		r.wantMetric(`routerfleet_stream_outcome_total{outcome="idle_timeout"}`, 1)
		r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="a"}`, 1)
	})
}

func TestARequestThatOutlivesTheStaleTimeoutIsEnded(t *testing.T) {
	o := Options{RequestTimeout: 60 * time.Second, StaleTimeout: 100 * time.Second}
	bubble(t, o, []string{"a"}, func(r *rig) {
		r.engine("a", func(w http.ResponseWriter, req *http.Request) {
			for !waitFor(req, 10*time.Second) {
				writeEvents(w, `{"n":1}`)
			}
		})
		began := time.Now()
		got := r.post(chatPath, streamBody)
		if took := time.Since(began); took != o.StaleTimeout {
			r.t.Errorf("took %s, want %s", took, o.StaleTimeout)
		}
		if got.err == nil || !strings.Contains(got.body, `"code":"stale_request_expired"`) {
			r.t.Errorf("got %q, %v; want an error event and a broken end", got.body, got.err)
		}
		r.wantMetric(`routerfleet_stale_requests_total`, 1)
		r.wantMetric(`routerfleet_stream_outcome_total{outcome="expired"}`, 1)
		r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="a"}`, 0)
	})
}

func TestAClientThatStopsReadingDoesNotHoldAnEngineForEver(t *testing.T) {
	bubble(t, Options{StreamIdleTimeout: time.Minute, StaleTimeout: 10 * time.Hour}, []string{"a"}, func(r *rig) {
		var freed atomic.Int64 // nanoseconds
		r.engine("a", func(w http.ResponseWriter, req *http.Request) {
			began := time.Now()
			big := strings.Repeat("x", 8<<10)
			for req.Context().Err() == nil && time.Since(began) < time.Hour {
				writeEvents(w, big)
				waitFor(req, time.Second)
			}
			freed.Store(int64(time.Since(began)))
		})
		conn, err := r.net.dial(context.Background(), "tcp", "router:80")
		if err != nil {
			r.t.Fatal(err)
		}
		defer conn.Close()
		go sendRequest(conn, streamBody)
		<-time.After(2 * time.Hour) // Inside the bubble: the client reads nothing.
		if after := time.Duration(freed.Load()); after == 0 || after > 3*time.Minute {
			r.t.Errorf("the engine was freed after %s, want about a minute", after)
		}
		r.wantMetric(`routerfleet_stream_outcome_total{outcome="client_disconnect"}`, 1)
	})
}

func sendRequest(conn net.Conn, body string) {
	req, err := http.NewRequest(http.MethodPost, "http://router"+chatPath, strings.NewReader(body))
	if err == nil {
		_ = req.Write(conn)
	}
}

func TestASlowSenderIsToldSoAndGivesItsSlotBack(t *testing.T) {
	bubble(t, Options{MaxConcurrent: 1}, []string{"a"}, func(r *rig) {
		r.engine("a", func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 200, okAnswer) })
		slow, feed := io.Pipe()
		defer feed.Close()
		began := time.Now()
		req, _ := http.NewRequest(http.MethodPost, "http://router"+chatPath, slow)
		resp, err := r.client.Do(req)
		if err != nil {
			r.t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusRequestTimeout || time.Since(began) != bodyReadTimeout {
			r.t.Errorf("got %d after %s, want 408 after %s", resp.StatusCode, time.Since(began), bodyReadTimeout)
		}
		if got := r.post(chatPath, chatBody); got.status != 200 {
			r.t.Errorf("the next request: %d %v, want 200", got.status, got.err)
		}
	})
}

func TestAStreamLongerThanTheBodyTimeoutIsNotTakenForAGoneClient(t *testing.T) {
	bubble(t, Options{}, []string{"a"}, func(r *rig) {
		r.engine("a", func(w http.ResponseWriter, req *http.Request) {
			for range 5 {
				writeEvents(w, `{"n":1}`)
				waitFor(req, bodyReadTimeout/2)
			}
			writeEvents(w, "[DONE]")
		})
		if got := r.post(chatPath, streamBody); got.err != nil || !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
			r.t.Errorf("got %q, %v", got.body, got.err)
		}
	})
}
