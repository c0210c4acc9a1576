package proxy

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// net/http sends a request again by itself that it takes for idempotent. The engine counts what reaches it: one request,
// as the router knows of one.
func TestARequestIsWrittenOnceForEachAttemptTheRouterKnowsOf(t *testing.T) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key", "X-Request-Id"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, []string{"a"}, func(r *rig) {
				seen := countingEngine(r, "a")
				if got := postWith(r, name, "first"); got.status != 200 {
					r.t.Fatalf("got %d %q %v", got.status, got.body, got.err)
				}
				for r.handler.budget.spend() {
				}
				r.handler.budget.credit = 0
				r.wantError(postWith(r, name, "second"), CodeUnreachable) // on the kept connection, which is cut once it is written
				if list := seen(); len(list) != 2 || name != "X-Idempotency-Key" && (list[0] != "first" || list[1] != "second") {
					r.t.Errorf("the engine got %q, want each request once with its header", list)
				}
				r.wantMetric(`routerfleet_retries_total{reason="connection_closed"}`, 0)
			})
		})
	}
}

// A retry of the router's own is counted, whatever the client says of idempotence.
func TestARetryOfAnIdempotentRequestSpendsBudget(t *testing.T) {
	bubble(t, Options{}, []string{"a"}, func(r *rig) {
		seen := countingEngine(r, "a")
		postWith(r, "Idempotency-Key", "first")
		before := r.handler.budget.credit
		if got := postWith(r, "Idempotency-Key", "second"); got.status != 200 {
			r.t.Errorf("got %d %q %v", got.status, got.body, got.err)
		}
		if list := seen(); len(list) != 3 {
			r.t.Errorf("the engine got %q, want the second request twice", list)
		}
		r.wantMetric(`routerfleet_retries_total{reason="connection_closed"}`, 1)
		if spent := before - r.handler.budget.credit; spent < 0.8 {
			r.t.Errorf("the budget is %.2f lower, want a retry less what the request earned", spent)
		}
	})
}

// countingEngine answers the first request of each connection, reads the second and hangs up. It tells the idempotency
// keys, or request ids, of all it has read.
func countingEngine(r *rig, host string) (seen func() []string) {
	var mu sync.Mutex
	var list []string
	l := r.net.listen(host)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for n := range 2 {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					mu.Lock()
					list = append(list, req.Header.Get("Idempotency-Key")+req.Header.Get("X-Request-Id"))
					mu.Unlock()
					if n == 0 {
						_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					}
				}
			})
		}
	})
	r.closers = append(r.closers, func() { l.Close(); running.Wait() })
	return func() []string { mu.Lock(); defer mu.Unlock(); return append([]string(nil), list...) }
}

func postWith(r *rig, header, value string) reply {
	req, err := http.NewRequest(http.MethodPost, "http://router"+chatPath, strings.NewReader(chatBody))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set(header, value)
	resp, err := r.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(data), err: err}
}
