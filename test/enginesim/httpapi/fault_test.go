package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim"
)

const (
	plain  = `{"prompt":"hello","max_tokens":6}`
	stream = `{"prompt":"hello","max_tokens":6,"stream":true}`
)

// faultTests holds the proof of each fault of this package; a fault without one fails
// TestEveryFaultDoesWhatItSays.
var faultTests = map[FaultName]func(*testing.T){
	FaultHealthFail: func(t *testing.T) { testProbeFault(t, FaultHealthFail, "/health", "/ready") },
	FaultReadyFail:  func(t *testing.T) { testProbeFault(t, FaultReadyFail, "/ready", "/health") },

	FaultHangServerInfo: func(t *testing.T) {
		bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
			f.fault(`{"name":"hang_server_info","delay_ms":1500}`)
			begin := time.Now()
			if got := f.do(http.MethodGet, "/server_info", ""); got.status != 200 || time.Since(begin) != 1500*time.Millisecond {
				t.Errorf("with a delay: %d after %v", got.status, time.Since(begin))
			}
			f.fault(`{"name":"hang_server_info"}`)
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			if _, err := f.send(ctx, http.MethodGet, "/server_info", ""); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("without a delay: %v, want to wait for ever", err)
			}
		})
	},

	FaultModelLie: func(t *testing.T) {
		bubble(t, enginesim.Options{}, Options{Model: "true-name"}, func(f *fixture) {
			f.fault(`{"name":"model_lie","model":"false-name"}`)
			for _, path := range []string{"/v1/models", "/server_info"} {
				if got := f.do(http.MethodGet, path, ""); !strings.Contains(got.body, "false-name") || strings.Contains(got.body, "true-name") {
					t.Errorf("%s: %s", path, got.body)
				}
			}
			if got := f.post("/v1/completions", `{"prompt":"x","model":"false-name"}`); got.status != 404 {
				t.Errorf("a request for the false name: %d, want 404", got.status)
			}
		})
	},

	FaultStatus: func(t *testing.T) {
		bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
			f.fault(`{"name":"status","status":429,"retry_after_seconds":7,"requests":2}`)
			for i, want := range []int{429, 429, 200} {
				got := f.post("/v1/completions", plain)
				if retry := got.header.Get("Retry-After"); got.status != want || (want == 429) != (retry == "7") {
					t.Errorf("request %d: %d, Retry-After %q; want %d", i, got.status, retry, want)
				}
			}
			if st := f.state(); st.Hits[FaultStatus] != 2 || st.Totals.Requests != 1 || st.Outcomes[OutcomeFault] != 2 {
				t.Errorf("hits %v, outcomes %v, reached the engine %d", st.Hits, st.Outcomes, st.Totals.Requests)
			}
		})
	},

	FaultReset: func(t *testing.T) {
		loopback(t, enginesim.Options{}, Options{}, func(f *fixture) {
			f.fault(`{"name":"reset","requests":1}`)
			if _, err := f.send(context.Background(), http.MethodPost, "/v1/completions", plain); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("got %v, want a connection reset", err)
			}
			if got := f.post("/v1/completions", plain); got.status != 200 {
				t.Errorf("the next request: %d", got.status)
			}
		})
	},

	FaultDelayHeaders: func(t *testing.T) {
		bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
			f.fault(`{"name":"delay_headers","delay_ms":3000,"requests":1}`)
			begin := time.Now()
			if got := f.post("/v1/completions", stream); got.status != 200 || time.Since(begin) != 3*time.Second {
				t.Errorf("%d after %v, want 200 after 3s", got.status, time.Since(begin))
			}
		})
	},

	FaultWrongLength: func(t *testing.T) {
		for delta, broken := range map[int]bool{20: true, -20: false} {
			bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
				f.fault(fmt.Sprintf(`{"name":"wrong_length","length_delta":%d}`, delta))
				got := f.post("/v1/completions", plain)
				if got.status != 400 || errors.Is(got.err, io.ErrUnexpectedEOF) != broken || strings.HasSuffix(got.body, "}}") != broken {
					t.Errorf("delta %d: %d, error %v, body %s", delta, got.status, got.err, got.body)
				}
			})
		}
	},

	FaultStall: func(t *testing.T) {
		bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
			f.fault(`{"name":"stall","after_chunks":2,"delay_ms":5000,"requests":2}`)
			res, err := f.send(context.Background(), http.MethodPost, "/v1/completions", stream)
			if err != nil {
				t.Fatal(err)
			}
			begin, buf := time.Now(), make([]byte, 64<<10)
			seen := ""
			for strings.Count(seen, "\n\n") < 2 {
				n, err := res.Body.Read(buf)
				if err != nil {
					t.Fatal(err)
				}
				seen += string(buf[:n])
			}
			if rest := f.read(res); time.Since(begin) != 5*time.Second || len(events(seen)) != 2 || !strings.Contains(rest.body, "[DONE]") {
				t.Errorf("stalled after %d events for %v; want 2 and 5s, then the rest", len(events(seen)), time.Since(begin))
			}
			begin = time.Now()
			if got := f.post("/v1/completions", plain); got.status != 200 || time.Since(begin) != 5*time.Second {
				t.Errorf("a plain answer came after %v", time.Since(begin))
			}
		})
	},

	FaultCut: func(t *testing.T) {
		loopback(t, enginesim.Options{}, Options{}, func(f *fixture) {
			f.fault(`{"name":"cut","after_chunks":3,"requests":2}`)
			got := f.post("/v1/completions", stream)
			if len(events(got.body)) != 3 || !errors.Is(got.err, syscall.ECONNRESET) {
				t.Errorf("stream: %d events, then %v; want 3 and a reset", len(events(got.body)), got.err)
			}
			got = f.post("/v1/completions", plain)
			if got.status != 200 || got.body == "" || strings.HasSuffix(got.body, "}") || got.err == nil {
				t.Errorf("plain: %d, %q, error %v; want half a body", got.status, got.body, got.err)
			}
			if got := f.post("/v1/completions", stream); got.err != nil || !strings.Contains(got.body, "[DONE]") {
				t.Errorf("the next request: %v", got.err)
			}
		})
	},

	FaultStreamError: func(t *testing.T) {
		bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
			f.fault(`{"name":"stream_error","after_chunks":2}`)
			got := f.post("/v1/completions", stream)
			if all := events(got.body); got.err != nil || len(all) != 3 || !strings.HasPrefix(all[2], `{"error":`) {
				t.Errorf("error %v, events %q", got.err, all)
			}
		})
	},

	FaultNoDone: func(t *testing.T) {
		bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
			f.fault(`{"name":"no_done"}`)
			got := f.post("/v1/completions", stream)
			if got.err != nil || len(events(got.body)) != 7 || strings.Contains(got.body, "DONE") {
				t.Errorf("error %v, %d events; want a clean end after 7 without [DONE]", got.err, len(events(got.body)))
			}
		})
	},

	FaultSplitSSE: testSplitSSE,
	FaultSSELines: testSSELines,

	FaultSlowTokens: func(t *testing.T) {
		bubble(t, enginesim.Options{TokenInterval: 10 * time.Millisecond}, Options{}, func(f *fixture) {
			elapsed := func() time.Duration {
				begin := time.Now()
				f.post("/v1/completions", plain)
				return time.Since(begin)
			}
			f.fault(`{"name":"slow_tokens","factor":20}`)
			slow := elapsed()
			f.do(http.MethodDelete, "/control/faults/slow_tokens", "")
			if normal := elapsed(); slow != time.Second || normal != 50*time.Millisecond {
				t.Errorf("slow %v, then %v; want 1s and 50ms", slow, normal)
			}
		})
	},

	FaultClearCache: func(t *testing.T) {
		bubble(t, enginesim.Options{PageSize: 1, TokenInterval: time.Second}, Options{}, func(f *fixture) {
			f.post("/v1/completions", plain)
			f.fault(`{"name":"clear_cache"}`)
			f.post("/v1/completions", plain)
			if got := f.lastRecord().CachedTokens; got != 0 {
				t.Errorf("found %d tokens after clearing", got)
			}
			res, err := f.send(context.Background(), http.MethodPost, "/v1/completions", stream)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.post("/control/faults", `{"name":"clear_cache"}`); got.status != 409 {
				t.Errorf("while a request runs: %d, want 409", got.status)
			}
			f.read(res)
			if got := f.post("/flush_cache", ""); got.status != 200 || f.state().Ranks[0].Blocks.Cached != 0 {
				t.Errorf("/flush_cache: %d", got.status)
			}
		})
	},

	FaultCrash: func(t *testing.T) {
		bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
			f.fault(`{"name":"crash","exit_code":3,"delay_ms":1000}`)
			begin := time.Now()
			if code := <-f.exits; code != 3 || time.Since(begin) != time.Second {
				t.Errorf("exit code %d after %v", code, time.Since(begin))
			}
		})
		bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
			f.server.opts.Exit = nil
			if got := f.post("/control/faults", `{"name":"crash"}`); got.status != 400 {
				t.Errorf("in process: %d, want a refusal", got.status)
			}
		})
	},

	FaultRestart: testRestart,
}

func TestEveryFaultDoesWhatItSays(t *testing.T) {
	for _, doc := range requestCatalogue {
		t.Run(string(doc.Name), func(t *testing.T) {
			test, there := faultTests[doc.Name]
			if !there {
				t.Fatal("no test proves this fault")
			}
			test(t)
		})
	}
	if len(faultTests) != len(requestCatalogue) {
		t.Errorf("%d tests for %d faults", len(faultTests), len(requestCatalogue))
	}
}

func testProbeFault(t *testing.T, name FaultName, path, other string) {
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
		f.fault(`{"name":"` + string(name) + `"}`)
		if a, b := f.do(http.MethodGet, path, ""), f.do(http.MethodGet, other, ""); a.status != 503 || b.status != 200 {
			t.Errorf("%s %d, %s %d; want 503 and 200", path, a.status, other, b.status)
		}
		f.do(http.MethodDelete, "/control/faults", "")
		if got := f.do(http.MethodGet, path, ""); got.status != 200 {
			t.Errorf("after removal: %d", got.status)
		}
	})
}

// Streams cut into pieces of any size carry the same bytes, and arrive in the
// promised pieces.
func testSplitSSE(t *testing.T) {
	whole := ""
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) { whole = f.post("/v1/completions", stream).body })
	for _, size := range []int{1, 2, 3, 7, 64, 333, 100_000} {
		bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
			f.fault(fmt.Sprintf(`{"name":"split_sse","chunk_bytes":%d}`, size))
			res, err := f.send(context.Background(), http.MethodPost, "/v1/completions", stream)
			if err != nil {
				t.Fatal(err)
			}
			var all []byte
			buf := make([]byte, 1<<20)
			for err == nil {
				synctest.Wait()
				var n int
				n, err = res.Body.Read(buf)
				if left := len(whole) - len(all); n > size || (n > 0 && n != min(size, left)) {
					t.Errorf("chunk_bytes %d: read %d bytes with %d left", size, n, left)
				}
				all = append(all, buf[:n]...)
			}
			if !errors.Is(err, io.EOF) || string(all) != whole {
				t.Errorf("chunk_bytes %d: error %v, bytes equal: %v", size, err, string(all) == whole)
			}
		})
	}
}

func testSSELines(t *testing.T) {
	whole := ""
	bubble(t, enginesim.Options{}, Options{}, func(f *fixture) { whole = f.post("/v1/completions", stream).body })
	for name, eol := range map[string]string{"lf": "\n", "crlf": "\r\n", "cr": "\r"} {
		bubble(t, enginesim.Options{}, Options{}, func(f *fixture) {
			f.fault(`{"name":"sse_lines","line_end":"` + name + `"}`)
			if got, want := f.post("/v1/completions", stream).body, strings.ReplaceAll(whole, "\n", eol); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
			f.fault(`{"name":"sse_lines","line_end":"` + name + `","comments":true}`)
			if got, want := strings.Count(f.post("/v1/completions", stream).body, ": ping"+eol+eol), len(events(whole)); got != want {
				t.Errorf("%s: %d comments, want one for each of %d events", name, got, want)
			}
		})
	}
}
