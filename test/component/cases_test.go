package component

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/app"
)

// production-stack#634, litellm#31499: closing the client did not cancel the engine's request.
func TestCase06AClientThatLeavesFreesItsEngine(t *testing.T) {
	for name, body := range map[string]string{"stream": streamBody, "no stream": chatBody, "before the first byte": streamBody} {
		t.Run(name, func(t *testing.T) {
			began := make(chan struct{}, 1)
			heard := make(chan time.Time, 1)
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
				if name == "stream" {
					w.Header().Set("Content-Type", "text/event-stream")
					flush(w, content("one"))
				}
				began <- struct{}{}
				<-r.Context().Done()
				heard <- time.Now()
			})
			r := startRouter(t, app.Options{}, e.URL)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan reply, 1)
			go func() { done <- r.post(ctx, chatPath, body) }()
			<-began
			left := time.Now()
			cancel()
			if after := (<-heard).Sub(left); after > atOnce {
				t.Errorf("the engine heard after %s", after)
			}
			if got := <-done; got.err == nil {
				t.Errorf("got %d %q, want a client that left", got.status, got.body)
			}
			eventually(t, "nothing is in flight", func() bool {
				return r.metric("routerfleet_inflight_requests") == 0 && r.metric(`routerfleet_worker_inflight_requests{worker="a"}`) == 0
			})
			r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="a"}`, 0)
			r.wantMetric(`routerfleet_worker_requests_total{outcome="cancelled",worker="a"}`, 1)
		})
	}
}

// litellm#33404: a reset in mid stream became finish_reason "stop" and [DONE].
func TestCase07AResetInMidStreamIsNotTurnedIntoACompleteAnswer(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}`+"\n\n")
		for _, text := range []string{"a", "b", "c"} {
			flush(w, content(text))
		}
		reset(w)
	})
	r := startRouter(t, app.Options{Policy: "round_robin"}, e.URL)
	got := r.post(context.Background(), chatPath, streamBody)
	if got.status != 200 || got.err == nil || !strings.Contains(got.body, `"content":"c"`) {
		t.Errorf("got %d %q %v; want the events and a broken end", got.status, got.body, got.err)
	}
	if strings.Contains(got.body, "[DONE]") || strings.Contains(got.body, "finish_reason") {
		t.Errorf("an end was invented: %q", got.body)
	}
	if e.count() != 1 {
		t.Errorf("the engine was asked %d times", e.count())
	}
	r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="a"}`, 1)
	r.wantMetric(`routerfleet_stream_outcome_total{outcome="upstream_error"}`, 1)
}

// reset ends an engine's connection with RST.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// sglang#27523, miles#851: an upstream Content-Length with another body behind it.
func TestCase08AnErrorForAStreamArrivesWholeWithOneFraming(t *testing.T) {
	body := fmt.Sprintf("%-74s", `{"error":{"message":"stop must be a string","code":400}}`)
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Length", "74")
		h.Set("Connection", "X-Private, keep-alive")
		h.Set("X-Private", "1")
		h.Set("Keep-Alive", "timeout=5")
		h.Set("Te", "trailers")
		h.Set("Upgrade", "h2c")
		h.Set("X-Kept", "yes")
		writeAnswer(w, http.StatusBadRequest, body)
	})
	r := startRouter(t, app.Options{}, e.URL)
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.data, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nX-Request-Id: r1\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(streamBody), streamBody)
	head, got := readRaw(t, conn, 74)
	if !strings.HasPrefix(head, "HTTP/1.1 400 ") || got != body {
		t.Errorf("got %q with body %q", head, got)
	}
	lower := strings.ToLower(head)
	if strings.Count(lower, "content-length:") != 1 || !strings.Contains(lower, "content-length: 74\r\n") || strings.Contains(lower, "transfer-encoding") {
		t.Errorf("framing of %q", head)
	}
	for _, gone := range []string{"x-private", "keep-alive", "\r\nte:", "upgrade"} {
		if strings.Contains(lower, gone) {
			t.Errorf("%s passed to the client: %q", gone, head)
		}
	}
	if !strings.Contains(head, "X-Kept: yes") {
		t.Errorf("an ordinary header is missing: %q", head)
	}
	sent, _ := e.last()
	if sent.Header.Get("X-Hop") != "" || sent.Header.Get("Te") != "" || sent.Header.Get("X-Request-Id") != "r1" || sent.ContentLength != int64(len(streamBody)) {
		t.Errorf("the engine got %v", sent.Header)
	}
	r.wantMetric(`routerfleet_worker_requests_total{outcome="client_error",worker="a"}`, 1)
}

// readRaw reads one answer head and n bytes of body, without an HTTP client that would forgive bad framing.
func readRaw(t *testing.T, conn net.Conn, n int) (head, body string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	in := bufio.NewReader(conn)
	for !strings.HasSuffix(head, "\r\n\r\n") {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", head, err)
		}
		head += line
	}
	buf := make([]byte, n)
	if _, err := io.ReadFull(in, buf); err != nil {
		t.Fatalf("body: %v", err)
	}
	if in.Buffered() > 0 {
		t.Errorf("%d bytes too many", in.Buffered())
	}
	return head, string(buf)
}

// ai-gateway#2162, aibrix#2653: usage was lost when an event spanned two chunks.
func TestCase09UsageIsReadOnceAndBytesAreUnchangedAtEverySplit(t *testing.T) {
	streams := map[string]string{}
	for name, end := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
		streams[name] = strings.ReplaceAll(": ping\n\n"+content("a×")+
			`data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}`+
			"\n\ndata: [DONE]\n\n", "\n", end)
	}
	var stream string
	var cut int
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w, stream[:cut])
		flush(w, stream[cut:])
	})
	r := startRouter(t, app.Options{}, e.URL)
	total := 0
	for name, s := range streams {
		stream = s
		for cut = 0; cut <= len(s); cut++ {
			if got := r.post(context.Background(), chatPath, streamBody); got.err != nil || got.body != s {
				t.Fatalf("%s cut at %d: got %q %v, want %q", name, cut, got.body, got.err, s)
			}
			total++
		}
	}
	r.wantMetric(`routerfleet_usage_tokens_total{kind="prompt"}`, float64(12*total))
	r.wantMetric(`routerfleet_usage_tokens_total{kind="cached"}`, float64(8*total))
	r.wantMetric(`routerfleet_usage_tokens_total{kind="completion"}`, float64(3*total))
	r.wantMetric(`routerfleet_stream_outcome_total{outcome="ok"}`, float64(total))
}

// sglang#11766: slicing text inside a multi-byte character killed the worker thread.
func TestCase10TextOfAnyCharactersPassesByteForByte(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 200, okAnswer) })
	r := startRouter(t, app.Options{}, e.URL)
	for _, text := range []string{"×", "Δ", "°", "€", "𝄞", `\ud83d`, `\ude00\ud83d`, "\xed\xa0\xbd", "\xff", strings.Repeat("a€", 40000)} {
		body := `{ "model":"m",  "prompt":"` + text + `","stop":["` + text + `","x"],"x":1e2}`
		got := r.post(context.Background(), completionsPath, body)
		if _, sent := e.last(); got.status != 200 || sent != body {
			t.Errorf("%.20q: got %d; the engine got %.60q", text, got.status, sent)
		}
	}
	r.wantMetric("routerfleet_panics_total", 0)
}

// vllm-project/router#237: token-id prompts were keyed by their length. (That keys differ is tested in router/proxy.)
func TestCase11TokenIDPromptsAndBatchesAreTakenAndPassUnchanged(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 200, okAnswer) })
	r := startRouter(t, app.Options{}, e.URL)
	for _, prompt := range []string{"[1,2,3,64]", "[9, 8, 7, 64]", "[[1,2],[3]]", `["a","b"]`, "[]", "[[]]", `[1,"a"]`, "7", "null", "{}"} {
		body := `{"model":"m","prompt":` + prompt + `}`
		got := r.post(context.Background(), completionsPath, body)
		if _, sent := e.last(); got.status != 200 || sent != body {
			t.Errorf("%s: got %d %s; the engine got %q", prompt, got.status, got.body, sent)
		}
	}
}

// aibrix#757: a stream without stream_options was rejected.
func TestCase12AStreamNeedsNoStreamOptionsAndGetsNone(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w, content("a")+"data: [DONE]\n\n")
	})
	r := startRouter(t, app.Options{}, e.URL)
	got := r.post(context.Background(), chatPath, streamBody)
	if got.status != 200 || got.body != content("a")+"data: [DONE]\n\n" {
		t.Errorf("got %d %q", got.status, got.body)
	}
	if _, sent := e.last(); sent != streamBody {
		t.Errorf("the engine got %q", sent)
	}
}

// dynamo#2064, #14463: empty messages and odd stops gave an opaque 500.
func TestCase13WhatTheRouterCannotJudgeGoesToTheEngineAndItsAnswerComesBack(t *testing.T) {
	refusal := `{"error":{"message":"I refuse this","type":"BadRequestError","code":400}}`
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 400, refusal) })
	r := startRouter(t, app.Options{CBThreshold: 1}, e.URL)
	for _, body := range []string{
		`{"model":"m","messages":[]}`, `{"model":"m"}`, `{}`,
		`{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}]}`,
		`{"model":"m","messages":[],"stop":["1","2","3","4","5"]}`, `{"model":"m","stop":"x"}`, `{"model":"m","stop":[1,2]}`,
	} {
		got := r.post(context.Background(), chatPath, body)
		if _, sent := e.last(); got.status != 400 || got.body != refusal || sent != body {
			t.Errorf("%s: got %d %q; the engine got %q", body, got.status, got.body, sent)
		}
	}
	asked := e.count()
	for _, body := range []string{``, `{`, `{"model":"m",}`, `nonsense`, `[]`, `{"model":7}`} {
		got := r.post(context.Background(), chatPath, body)
		if got.status != 400 || got.header.Get("X-RouterFleet-Error-Code") != "bad_request" || !strings.Contains(got.body, `"type":"invalid_request_error"`) {
			t.Errorf("%q: got %d %s", body, got.status, got.body)
		}
	}
	if e.count() != asked {
		t.Error("the engine was asked about a body the router could not read")
	}
	r.wantMetric(`routerfleet_worker_requests_total{outcome="error",worker="a"}`, 0)
	r.wantMetric(`routerfleet_worker_breaker_state{worker="a"}`, 0)
}

// sglang#25811: an engine's 400s opened its breaker.
func TestCase14TheEleventhRequestGoesToTheEngineThatRefusedTen(t *testing.T) {
	var n atomic.Int32
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) <= 10 {
			writeAnswer(w, 400, `{"error":{"message":"context too long"}}`)
			return
		}
		writeAnswer(w, 200, okAnswer)
	})
	r := startRouter(t, app.Options{CBThreshold: 3}, e.URL)
	for i := 1; i <= 11; i++ {
		want := 400
		if i == 11 {
			want = 200
		}
		if got := r.post(context.Background(), chatPath, chatBody); got.status != want {
			t.Errorf("request %d: got %d %s, want %d", i, got.status, got.body, want)
		}
	}
	r.wantMetric(`routerfleet_worker_requests_total{outcome="client_error",worker="a"}`, 10)
}

// sglang#39464: a full queue was treated as a dead engine for a whole cool-down.
func TestCase15AFullEngineIsPassedOnAndUsedAgainAtOnce(t *testing.T) {
	var full atomic.Bool
	full.Store(true)
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		if full.Load() {
			w.Header().Set("Retry-After", "1")
			writeAnswer(w, 503, `{"error":{"message":"queue is full"}}`)
			return
		}
		writeAnswer(w, 200, okAnswer)
	})
	r := startRouter(t, app.Options{CBThreshold: 2, CBCoolDownSecs: 3600}, e.URL)
	for range 20 {
		got := r.post(context.Background(), chatPath, chatBody)
		if got.status != 503 || got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, "queue is full") {
			t.Fatalf("got %d %v %s", got.status, got.header, got.body)
		}
	}
	if e.count() != 20 {
		t.Errorf("20 requests became %d: a storm", e.count())
	}
	full.Store(false)
	if got := r.post(context.Background(), chatPath, chatBody); got.status != 200 {
		t.Errorf("after the queue drained: %d %s", got.status, got.body)
	}
	r.wantMetric(`routerfleet_worker_breaker_state{worker="a"}`, 0)

	full.Store(true)
	free := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, 200, okAnswer) })
	r = startRouter(t, app.Options{Policy: "round_robin"}, e.URL, free.URL)
	for range 10 {
		if got := r.post(context.Background(), chatPath, chatBody); got.status != 200 {
			t.Errorf("beside a free engine: %d %s", got.status, got.body)
		}
	}
}
