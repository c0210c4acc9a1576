package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/workers/workerstest"
)

func answering(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if string(body) != chatBody {
		writeAnswer(w, http.StatusTeapot, "not the body that was sent: "+string(body))
		return
	}
	writeAnswer(w, http.StatusOK, okAnswer)
}

func TestARequestMovesOnFromEnginesThatCannotBeReached(t *testing.T) {
	bubble(t, Options{}, []string{"a", "b", "c", "d"}, func(r *rig) {
		r.engine("d", answering)
		for range 4 { // Round-robin starts each request elsewhere.
			if got := r.post(chatPath, chatBody); got.status != 200 || got.body != okAnswer {
				r.t.Errorf("got %d %q %v", got.status, got.body, got.err)
			}
		}
		r.wantMetric(`routerfleet_worker_requests_total{outcome="success",worker="d"}`, 4)
	})
}

func TestAnEngineThatDiesBeforeItsFirstByteIsReplacedOnce(t *testing.T) {
	for name, die := range map[string]func(net.Conn, int){
		"before its head": func(net.Conn, int) {},
		"after its head": func(c net.Conn, _ int) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		},
		"with a broken head": func(c net.Conn, _ int) { _, _ = io.WriteString(c, "HTTP/1.1 000 Odd\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, []string{"a", "b"}, func(r *rig) {
				r.raw("a", die)
				r.engine("b", answering)
				if got := r.post(chatPath, chatBody); got.status != 200 {
					r.t.Errorf("got %d %q %v", got.status, got.body, got.err)
				}
				r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="a"}`, 1)
				r.wantMetric(`routerfleet_retries_total{reason="no_answer"}`, 1)
			})
		})
	}
}

func TestOnlyTwoEnginesAreAskedForOneRequest(t *testing.T) {
	bubble(t, Options{}, []string{"a", "b", "c"}, func(r *rig) {
		var asked atomic.Int32
		for _, e := range []string{"a", "b", "c"} {
			r.raw(e, func(net.Conn, int) { asked.Add(1) })
		}
		r.wantError(r.post(chatPath, chatBody), CodeUnreachable)
		if asked.Load() != maxAttempts {
			r.t.Errorf("%d engines were asked, want %d", asked.Load(), maxAttempts)
		}
	})
}

func TestAGatewayErrorIsTriedElsewhereAnEnginesOwn500IsNot(t *testing.T) {
	for status, want := range map[int]int{502: 200, 504: 200, 500: 500, 501: 501} {
		bubble(t, Options{}, []string{"a", "b"}, func(r *rig) {
			r.engine("a", func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, status, `{"error":{"message":"a"}}`) })
			r.engine("b", answering)
			if got := r.post(chatPath, chatBody); got.status != want {
				r.t.Errorf("%d: got %d, want %d", status, got.status, want)
			}
			r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="a"}`, 1)
		})
	}
}

func TestWithoutAnotherEngineItsOwnErrorPassesUnchanged(t *testing.T) {
	for _, status := range []int{400, 404, 408, 422, 429, 500, 502, 503, 504} {
		bubble(t, Options{}, []string{"a"}, func(r *rig) {
			body := `{"error":{"message":"mine"}}`
			r.engine("a", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				writeAnswer(w, status, body)
			})
			got := r.post(chatPath, chatBody)
			if got.status != status || got.body != body || got.header.Get("Retry-After") != "7" || got.header.Get(headerErrorCode) != "" {
				r.t.Errorf("%d: got %d %q %v", status, got.status, got.body, got.header)
			}
		})
	}
}

func TestBackpressureAsksOneOtherEngineAfterAJitter(t *testing.T) {
	bubble(t, Options{Rand: fixedRand(5 * time.Millisecond)}, []string{"a", "b", "c"}, func(r *rig) {
		var asked atomic.Int32
		full := func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Retry-After", "3")
			writeAnswer(w, http.StatusServiceUnavailable, "full")
		}
		for _, e := range []string{"a", "b", "c"} {
			r.engine(e, full)
		}
		began := time.Now()
		got := r.post(chatPath, chatBody)
		if got.status != 503 || got.body != "full" || got.header.Get("Retry-After") != "3" || asked.Load() != 2 {
			r.t.Errorf("got %d %q %v after asking %d engines; want the engine's 503 after 2", got.status, got.body, got.header, asked.Load())
		}
		if took := time.Since(began); took != 5*time.Millisecond {
			r.t.Errorf("took %s, want the jitter of 5ms", took)
		}
		r.wantMetric(`routerfleet_worker_requests_total{outcome="backpressure",worker="a"}`, 1)
		r.wantMetric(`routerfleet_retries_total{reason="backpressure"}`, 1)
	})
}

type fixedRand time.Duration

func (f fixedRand) Int64N(n int64) int64 { return min(int64(f), n-1) }

func TestTheAnswerOfAFullEngineStandsInWhenTheOtherOneIsGone(t *testing.T) {
	bubble(t, Options{}, []string{"a", "b"}, func(r *rig) { // b refuses connections
		r.engine("a", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3")
			writeAnswer(w, http.StatusTooManyRequests, "full")
		})
		got := r.post(chatPath, chatBody)
		if got.status != 429 || got.body != "full" || got.header.Get("Retry-After") != "3" {
			r.t.Errorf("got %d %q %v", got.status, got.body, got.header)
		}
	})
}

func TestAConnectionTheEngineClosedMeanwhileCostsNobodyARequest(t *testing.T) {
	bubble(t, Options{}, []string{"a"}, func(r *rig) {
		// The engine answers one request a connection, and closes the connection when the next one arrives.
		r.raw("a", func(c net.Conn, _ int) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			_ = readRequest(c)
		})
		for i := range 3 {
			if got := r.post(chatPath, chatBody); got.status != 200 {
				r.t.Errorf("request %d: got %d %q %v", i, got.status, got.body, got.err)
			}
		}
		r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="a"}`, 0)
		r.wantMetric(`routerfleet_retries_total{reason="connection_closed"}`, 2)
	})
}

func TestARequestThatKillsEnginesIsNotTakenToAllOfThem(t *testing.T) {
	engines := []string{"a", "b", "c", "d", "e"}
	bubble(t, Options{}, engines, func(r *rig) {
		var killed atomic.Int32
		for _, e := range engines {
			r.raw(e, func(c net.Conn, _ int) {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				if readRequest(c) == nil {
					killed.Add(1)
				}
			})
		}
		for range engines { // Leave a kept connection to each.
			if got := r.post(chatPath, chatBody); got.status != 200 {
				r.t.Fatalf("got %d %q %v", got.status, got.body, got.err)
			}
		}
		r.wantError(r.post(chatPath, chatBody), CodeUnreachable)
		if n := killed.Load(); n != maxClosed+maxAttempts {
			r.t.Errorf("the request reached %d engines, want %d", n, maxClosed+maxAttempts)
		}
	})
}

func TestAnEngineThatStopsReadingALargeBodyHasNotFailed(t *testing.T) {
	const head = `{"model":"m","messages":[{"role":"user","content":"`
	for size, outcome := range map[int]string{sentAtOnceBytes / 2: "error", 4 * sentAtOnceBytes: "cancelled"} {
		bubble(t, Options{}, []string{"a", "b"}, func(r *rig) {
			l := r.net.listen("a")
			var engine sync.WaitGroup
			engine.Go(func() {
				if c, err := l.Accept(); err == nil {
					_, _ = io.ReadFull(c, make([]byte, 1024))
					c.Close()
				}
			})
			r.closers = append(r.closers, func() { l.Close(); engine.Wait() })
			r.engine("b", func(w http.ResponseWriter, req *http.Request) {
				_, _ = io.Copy(io.Discard, req.Body)
				writeAnswer(w, http.StatusOK, okAnswer)
			})
			if got := r.post(chatPath, head+strings.Repeat("x", size)+`"}]}`); got.status != 200 {
				r.t.Errorf("%d bytes: got %d %q %v", size, got.status, got.body, got.err)
			}
			for _, o := range []string{"error", "cancelled"} {
				want := 0.0
				if o == outcome {
					want = 1
				}
				r.wantMetric(`routerfleet_worker_requests_total{outcome="`+o+`",worker="a"}`, want)
			}
		})
	}
}

func TestAnEngineThatDiesWhileItThinksIsNotTakenForAClosedConnection(t *testing.T) {
	bubble(t, Options{}, []string{"a"}, func(r *rig) {
		r.raw("a", func(c net.Conn, n int) {
			if n > 1 {
				r.t.Error("the engine was asked again")
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			_ = readRequest(c)
			<-time.After(2 * closedWindow) // Inside the bubble: it thinks, then dies.
		})
		if got := r.post(chatPath, chatBody); got.status != 200 {
			r.t.Fatalf("got %d %q %v", got.status, got.body, got.err)
		}
		r.wantError(r.post(chatPath, chatBody), CodeUnreachable)
		r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="a"}`, 1)
	})
}

func TestARetryThatHasNowhereToGoCostsNoBudget(t *testing.T) {
	bubble(t, Options{}, []string{"a"}, func(r *rig) {
		r.engine("a", func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 503, "full") })
		for range 3 * retryBurst {
			if got := r.post(chatPath, chatBody); got.status != 503 {
				r.t.Fatalf("got %d", got.status)
			}
		}
		if r.handler.budget.credit != retryBurst {
			r.t.Errorf("the budget holds %.1f retries, want %d", r.handler.budget.credit, retryBurst)
		}
	})
}

func TestAnEmptyRetryBudgetPassesTheFailureOn(t *testing.T) {
	bubble(t, Options{}, []string{"a", "b"}, func(r *rig) {
		r.raw("a", func(net.Conn, int) {})
		r.engine("b", answering)
		for r.handler.budget.spend() {
		}
		r.handler.budget.credit = 0
		r.wantError(r.post(chatPath, chatBody), CodeUnreachable)
	})
}

// Case 6: whenever the client leaves, the engine hears of it at once and nothing counts against it.
func TestAClientThatLeavesFreesItsEngineOnEveryPath(t *testing.T) {
	const patience = 2 * time.Second
	for name, c := range map[string]struct {
		body  string
		first string
	}{
		"stream":                        {streamBody, "event"},
		"stream before its first byte":  {streamBody, ""},
		"no stream":                     {chatBody, ""},
		"no stream, half an answer":     {chatBody, "half"},
		"stream, head but not an event": {streamBody, "head"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, []string{"a", "b"}, func(r *rig) {
				heard := make(chan time.Time, 2)
				slow := func(w http.ResponseWriter, req *http.Request) {
					_, _ = io.Copy(io.Discard, req.Body)
					switch c.first {
					case "event":
						writeEvents(w, `{"n":1}`)
					case "head":
						writeEvents(w)
					case "half":
						writeAnswer(w, 200, `{"half":`)
						_ = http.NewResponseController(w).Flush()
					}
					waitFor(req, time.Minute)
					heard <- time.Now()
				}
				r.engine("a", slow)
				r.engine("b", slow)
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				began := time.Now()
				if got := r.postContext(ctx, chatPath, c.body); got.err == nil {
					r.t.Errorf("got %d %q, want a client that left", got.status, got.body)
				}
				if after := (<-heard).Sub(began); after != patience {
					r.t.Errorf("the engine heard after %s, want %s", after, patience)
				}
				<-time.After(time.Second) // Inside the bubble: let the books be closed.
				r.wantIdle()
				r.wantMetric(`routerfleet_worker_requests_total{outcome="cancelled",worker="a"}`, 1)
				r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="a"}`, 0)
				r.wantMetric(`routerfleet_worker_requests_total{outcome="cancelled",worker="b"}`, 0)
			})
		})
	}
}

func TestARequestForDataParallelEnginesNamesItsRank(t *testing.T) {
	bubble(t, Options{}, []string{"a"}, func(r *rig) {
		var ranks []string
		r.engine("a", func(w http.ResponseWriter, req *http.Request) {
			ranks = append(ranks, strings.Join(req.Header["X-Data-Parallel-Rank"], "+"))
			writeAnswer(w, 200, okAnswer)
		})
		post := func() {
			req, _ := http.NewRequest(http.MethodPost, "http://router"+chatPath, strings.NewReader(chatBody))
			req.Header.Set("X-Data-Parallel-Rank", "9")
			resp, err := r.client.Do(req)
			if err != nil {
				r.t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		post()
		r.workers.Set(workerstest.Workers(r.t, workerstest.Worker{ID: "a", URL: "http://a:8000", Models: []string{model}, DPSize: 2})...)
		post()
		post()
		if got := strings.Join(ranks, ","); got != ",0,1" && got != ",1,0" {
			r.t.Errorf("got ranks %q, want none for one rank, then 0 and 1", got)
		}
	})
}
