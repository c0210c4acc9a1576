package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/workers"
	"github.com/routerfleet/routerfleet/router/workers/workerstest"
)

func TestAnUnknownModelIsA404ThatNamesTheKnownOnes(t *testing.T) {
	bubble(t, Options{}, []string{"a"}, func(r *rig) {
		got := r.post(chatPath, `{"model":"nope","messages":[]}`)
		r.wantError(got, CodeModelNotFound)
		if !strings.Contains(got.body, `\"nope\"`) || !strings.Contains(got.body, "known: m") || !strings.Contains(got.body, `"param":"model"`) {
			r.t.Errorf("got %s", got.body)
		}
	})
}

func TestNoWorkersIsA503PerRequest(t *testing.T) {
	for name, ws := range map[string][]workerstest.Worker{
		"none at all": nil,
		"not ready":   {{ID: "a", URL: "http://a:8000", Models: []string{model}, NotReady: true}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, nil, func(r *rig) {
				r.workers.Set(workerstest.Workers(r.t, ws...)...)
				got := r.post(chatPath, chatBody)
				r.wantError(got, CodeNoWorkers)
				if got.header.Get("Retry-After") != "1" {
					r.t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
				}
			})
		})
	}
}

func TestAMissingModelMeansTheOnlyOne(t *testing.T) {
	bubble(t, Options{}, []string{"a"}, func(r *rig) {
		r.engine("a", func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 200, okAnswer) })
		if got := r.post("/generate", `{"text":"x"}`); got.status != 200 {
			r.t.Errorf("with one model: %d %s", got.status, got.body)
		}
		r.workers.Set(workerstest.Workers(r.t, workerstest.Worker{ID: "a", URL: "http://a:8000", Models: []string{"m", "n"}})...)
		got := r.post("/generate", `{"text":"x"}`)
		r.wantError(got, CodeBadRequest)
		if !strings.Contains(got.body, "m, n") {
			r.t.Errorf("with two models: %s; want them named", got.body)
		}
	})
}

func TestModelsIsTheUnionOfWhatEnginesServe(t *testing.T) {
	bubble(t, Options{}, nil, func(r *rig) {
		get := func() string {
			resp, err := r.client.Get("http://router/v1/models")
			if err != nil {
				r.t.Fatal(err)
			}
			defer resp.Body.Close()
			var list struct {
				Object string
				Data   []struct{ ID, Object string }
			}
			if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || list.Object != "list" || list.Data == nil {
				r.t.Fatalf("%+v %v", list, err)
			}
			return fmt.Sprint(list.Data)
		}
		if got := get(); got != "[]" {
			r.t.Errorf("without workers: %s", got)
		}
		r.workers.Set(workerstest.Workers(r.t,
			workerstest.Worker{ID: "a", URL: "http://a:8000", Models: []string{"n", "m"}},
			workerstest.Worker{ID: "b", URL: "http://b:8000", Models: []string{"m", "o"}})...)
		if got := get(); got != "[{m model} {n model} {o model}]" {
			r.t.Errorf("got %s", got)
		}
	})
}

func TestRequestsPastTheConcurrencyLimitAre429(t *testing.T) {
	bubble(t, Options{MaxConcurrent: 2}, []string{"a"}, func(r *rig) {
		free := make(chan struct{})
		r.engine("a", func(w http.ResponseWriter, _ *http.Request) { <-free; writeAnswer(w, 200, okAnswer) })
		answers := make(chan reply)
		for range 2 {
			go func() { answers <- r.post(chatPath, chatBody) }()
		}
		synctest.Wait()
		got := r.post(chatPath, chatBody)
		r.wantError(got, CodeOverloaded)
		if got.header.Get("Retry-After") == "" {
			r.t.Error("no Retry-After")
		}
		r.wantMetric(`routerfleet_admission_rejected_total{reason="concurrency"}`, 1)
		r.wantMetric(`routerfleet_inflight_requests`, 2)
		close(free)
		for range 2 {
			if got := <-answers; got.status != 200 {
				r.t.Errorf("an admitted request got %d", got.status)
			}
		}
		if got := r.post(chatPath, chatBody); got.status != 200 {
			r.t.Errorf("after the others: %d", got.status)
		}
	})
}

// panicking is a policy with a bug.
type panicking struct{}

func (panicking) Name() string { return "panicking" }
func (panicking) Pick(policy.Request, []*workers.Rank) (*workers.Rank, bool) {
	panic("a bug in the policy")
}

func TestAPanicIsCountedAnsweredAndLeavesNothingInFlight(t *testing.T) {
	bubble(t, Options{}, []string{"a"}, func(r *rig) {
		r.handler.policy = policy.Deciding(panicking{})
		r.handler.fallback = r.handler.policy // what stands in has the bug, too
		got := r.post(chatPath, chatBody)
		r.wantError(got, CodeInternal)
		if strings.Contains(got.body, "a bug in the policy") {
			r.t.Error("the answer tells what the panic was")
		}
		r.wantMetric(`routerfleet_panics_total`, 2)
		r.wantMetric(`routerfleet_requests_total{code="500",route="chat"}`, 1)
	})
}

// breakingTransport answers with a body that panics when it is read further.
type breakingTransport struct{}

type breakingBody struct{ reads int }

func (b *breakingBody) Close() error { return nil }
func (b *breakingBody) Read(p []byte) (int, error) {
	if b.reads++; b.reads > 1 {
		panic("a bug in the transport")
	}
	return copy(p, "data: {}\n\n"), nil
}

func (breakingTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: &breakingBody{}}, nil
}

func TestAPanicInsideAStreamAbortsItAndEndsItsLease(t *testing.T) {
	bubble(t, Options{}, []string{"a"}, func(r *rig) {
		r.handler.opts.Transport = breakingTransport{}
		got := r.post(chatPath, streamBody)
		if got.err == nil {
			r.t.Errorf("got a proper end of %q", got.body)
		}
		r.wantMetric(`routerfleet_panics_total`, 1)
	})
}

// Case 7: an engine that goes away in the middle of a stream is never turned into a complete answer.
func TestACutStreamStaysCut(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	event := func(s string) string { return "data: {\"choices\":[{\"delta\":{\"content\":\"" + s + "\"}}]}\n\n" }
	events := event("a") + event("b") + event("c")
	for name, c := range map[string]struct {
		wire      string
		withEvent bool
	}{
		"between events":   {head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(events), true},
		"inside an event":  {head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(events+"data: {\"cho"), false},
		"inside a chunk":   {head + "Transfer-Encoding: chunked\r\n\r\nffff\r\n" + events, true},
		"short of length":  {head + "Content-Length: 9999\r\n\r\n" + events, true},
		"without framing":  {head + "Connection: close\r\n\r\n" + events, true},
		"in a named event": {head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(events+"data: {}\n"), false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, []string{"a", "b"}, func(r *rig) {
				r.raw("a", func(conn net.Conn, _ int) { _, _ = io.WriteString(conn, c.wire) })
				r.engine("b", func(http.ResponseWriter, *http.Request) { r.t.Error("another engine was asked") })
				got := r.post(chatPath, streamBody)
				if got.err == nil || !strings.HasPrefix(got.body, events) {
					r.t.Errorf("got %q with end %v; want the events and a broken end", got.body, got.err)
				}
				if strings.Contains(got.body, "[DONE]") || strings.Contains(got.body, "finish_reason") {
					r.t.Errorf("an end was invented: %q", got.body)
				}
				if told := strings.Contains(got.body, string(CodeBodyIncomplete)); told != c.withEvent {
					r.t.Errorf("error event: %v, want %v, in %q", told, c.withEvent, got.body)
				}
				r.wantMetric(`routerfleet_stream_outcome_total{outcome="upstream_error"}`, 1)
				r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="a"}`, 1)
			})
		})
	}
}

func TestAStreamCutAfterItsEndMarkerIsWhole(t *testing.T) {
	bubble(t, Options{}, []string{"a"}, func(r *rig) {
		r.raw("a", func(conn net.Conn, _ int) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\ndata: [DONE]\n\n")
		})
		if got := r.post(chatPath, streamBody); got.err != nil || !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
			r.t.Errorf("got %q, %v", got.body, got.err)
		}
		r.wantMetric(`routerfleet_stream_outcome_total{outcome="ok"}`, 1)
	})
}

func TestAnUnstreamedAnswerCutInTheMiddleIsA502(t *testing.T) {
	bubble(t, Options{}, []string{"a", "b"}, func(r *rig) {
		r.raw("a", func(conn net.Conn, _ int) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"half\":")
		})
		r.engine("b", func(http.ResponseWriter, *http.Request) { r.t.Error("another engine was asked") })
		r.wantError(r.post(chatPath, chatBody), CodeBodyIncomplete)
		r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="a"}`, 1)
	})
}

func TestALongAnswerPassesWholeAndACutOneIsAborted(t *testing.T) {
	long := `{"text":"` + strings.Repeat("×", 3*relayBufferBytes) + `","usage":{"prompt_tokens":1,"completion_tokens":2}}`
	for name, cut := range map[string]bool{"whole": false, "cut": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, []string{"a"}, func(r *rig) {
				r.raw("a", func(conn net.Conn, _ int) {
					n := len(long)
					if cut {
						n++
					}
					_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", n, long)
				})
				got := r.post(chatPath, chatBody)
				if got.status != 200 || !cut && got.body != long || !strings.HasPrefix(long, got.body) || (got.err != nil) != cut {
					r.t.Errorf("got %d, %d of %d bytes, %v", got.status, len(got.body), len(long), got.err)
				}
				if !cut {
					r.wantMetric(`routerfleet_usage_tokens_total{kind="completion"}`, 2)
				}
			})
		})
	}
}

func TestTheStreamIsRelayedAsItComes(t *testing.T) {
	bubble(t, Options{}, []string{"a"}, func(r *rig) {
		next := make(chan string)
		r.engine("a", func(w http.ResponseWriter, _ *http.Request) {
			for e := range next {
				writeEvents(w, e)
			}
		})
		go func() { next <- "0" }()
		req, _ := http.NewRequest(http.MethodPost, "http://router"+chatPath, strings.NewReader(streamBody))
		resp, err := r.client.Do(req)
		if err != nil {
			r.t.Fatal(err)
		}
		defer resp.Body.Close()
		for i := range 3 {
			buf := make([]byte, 100)
			n, err := resp.Body.Read(buf) // Would block for ever if the router waited for more.
			if want := fmt.Sprintf("data: %d\n\n", i); err != nil || string(buf[:n]) != want {
				r.t.Fatalf("got %q %v, want %q", buf[:n], err, want)
			}
			if i < 2 {
				next <- fmt.Sprint(i + 1)
			}
		}
		close(next)
		_, _ = io.Copy(io.Discard, resp.Body)
		r.wantMetric(`routerfleet_ttft_seconds{route="chat"}`, 1)
		r.wantMetric(`routerfleet_request_overhead_seconds`, 1)
	})
}

func TestOptionsSayEverythingThatIsWrong(t *testing.T) {
	_, err := New(Options{RequestTimeout: -1, StreamIdleTimeout: -1, MaxBodyBytes: -1, MaxConcurrent: -1})
	for _, part := range []string{"request timeout", "idle timeout", "body limit", "concurrency limit", "workers and a policy"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not mention %s", err, part)
		}
	}
	if _, err := New(Options{RequestTimeout: 10, StaleTimeout: 5}); err == nil || !strings.Contains(err.Error(), "shorter than") {
		t.Errorf("a stale timeout below the request timeout: %v", err)
	}
}

func TestAnAnswerWithoutAContentTypeGetsNone(t *testing.T) {
	bubble(t, Options{}, []string{"a"}, func(r *rig) {
		r.raw("a", func(c net.Conn, _ int) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>")
		})
		got := r.post(chatPath, chatBody)
		if kind, ok := got.header["Content-Type"]; got.status != 200 || got.body != "<html></html>" || ok {
			r.t.Errorf("got %d %q %v with Content-Type %q", got.status, got.body, got.err, kind)
		}
	})
}
