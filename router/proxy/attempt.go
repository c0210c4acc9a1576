package proxy

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/workers"
)

// attempt is one try of a request on one rank, up to the first bytes of its answer; relay.go does the rest.
type attempt struct {
	x     *exchange
	rank  *workers.Rank
	lease *workers.Lease
	// decision is why the rank was chosen, and what its cache was counted on for.
	decision policy.Decision

	timer *time.Timer // ends the exchange when the engine takes too long
	trace connTrace
	// waited is how long the engine had the request before its first byte, or before the failure.
	waited time.Duration

	resp *http.Response // nil when there was no answer
	err  error          // why not
	sse  bool
	// buf is a pooled buffer, n how many first bytes of the body are in it, readErr what the last read said: nil when
	// there may be more, io.EOF at the proper end.
	buf     *[relayBufferBytes]byte
	n       int
	readErr error
}

var relayBuffers = sync.Pool{New: func() any { return new([relayBufferBytes]byte) }}

// connTrace notes what happened on the connection. The transport calls it from its own goroutines, also after the
// attempt is over.
type connTrace struct {
	connected, reused atomic.Bool
	// wrote and first are when the request had been written and the first byte came, in nanoseconds after the start
	// of the exchange; 0 when it did not happen.
	wrote, first atomic.Int64
}

func (t *attempt) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			t.trace.connected.Store(true)
			t.trace.reused.Store(info.Reused)
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				t.trace.wrote.Store(t.clock())
			}
		},
		GotFirstResponseByte: func() { t.trace.first.Store(t.clock()) },
	}
}

// clock is the time since the start of the exchange in nanoseconds, never 0.
func (t *attempt) clock() int64 { return max(1, int64(time.Since(t.x.start))) }

// send makes the request and waits for the first bytes of the answer. Afterwards either resp or err is set.
func (t *attempt) send() {
	x := t.x
	t.timer = time.AfterFunc(x.h.opts.RequestTimeout, func() { x.cancel(errTimeout) })
	t.resp, t.err = x.h.opts.Transport.RoundTrip(t.request())
	t.waited = t.engineTime()
	x.waited += t.waited
	if t.err == nil {
		t.accept()
	}
	if t.err != nil {
		t.stop()
		x.debug("attempt failed", slog.String("worker", t.rank.Worker().Name()), slog.Any("err", t.err))
	}
}

func (t *attempt) request() *http.Request {
	x, worker := t.x, t.rank.Worker()
	base := worker.URL()
	target := &url.URL{
		Scheme:   base.Scheme,
		Host:     base.Host,
		Path:     strings.TrimSuffix(base.Path, "/") + x.route.path,
		RawQuery: x.r.URL.RawQuery,
	}
	header := requestHeader(x.r.Header, worker.APIKey())
	hideIdempotencyKey(header)
	if worker.DPSize() > 1 {
		header[headerDPRank] = []string{strconv.Itoa(t.rank.DP())}
	}
	body := x.call.body
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	first, _ := open() // It cannot fail; GetBody asks for the error.
	// With GetBody the transport takes another connection when it finds a kept one closed before it wrote a byte.
	req := &http.Request{
		Method: x.r.Method, URL: target, Host: base.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: first, GetBody: open, ContentLength: int64(len(body)),
	}
	return req.WithContext(httptrace.WithClientTrace(x.ctx, t.hooks()))
}

// hideIdempotencyKey spells the client's Idempotency-Key in a form the transport does not look for. Finding it, the
// transport would by itself send a request once more that was written to a kept connection, and neither retry budget nor
// breaker would hear of it. To an engine it is the same: names of headers have no case (RFC 9110 section 5.1).
func hideIdempotencyKey(header http.Header) {
	if values, ok := header[headerIdempotency]; ok {
		delete(header, headerIdempotency)
		header[strings.ToLower(headerIdempotency)] = values
	}
}

// engineTime is how long the engine had the request before its first byte.
func (t *attempt) engineTime() time.Duration {
	wrote, first := t.trace.wrote.Load(), t.trace.first.Load()
	switch {
	case wrote == 0:
		return 0
	case first < wrote: // No answer: the engine was waited for until now.
		return time.Duration(t.clock() - wrote)
	}
	return time.Duration(first - wrote)
}

// accept looks at the answer's head and reads the first bytes of its body, so that an engine that dies between head
// and first byte can still be replaced.
func (t *attempt) accept() {
	if status := t.resp.StatusCode; status < 200 || status > 599 {
		t.refuse(errors.New("the engine answered with status " + strconv.Itoa(status)))
		return
	}
	kind, _, _ := strings.Cut(t.resp.Header.Get("Content-Type"), ";")
	t.sse = strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
	if t.sse {
		// The request timeout bounds the head of a stream; from here on its silence is bounded.
		t.timer.Stop()
		t.timer = time.AfterFunc(t.x.h.opts.StreamIdleTimeout, func() { t.x.cancel(errIdle) })
	} else {
		t.lease.FirstByte()
	}
	t.buf = relayBuffers.Get().(*[relayBufferBytes]byte)
	began := time.Now()
	t.read()
	// Answers that are no streams are sent when they are complete, if they fit: then a cut is an error with a status,
	// and an error answer can be kept while another engine is tried.
	for t.readErr == nil && t.n < len(t.buf) && !t.incremental() {
		t.read()
	}
	t.x.waited += time.Since(began)
	if t.sse {
		t.timer.Stop() // Only the engine's silence counts, not the time the client takes to read.
	}
	if t.n == 0 && t.readErr != nil && !errors.Is(t.readErr, io.EOF) {
		t.refuse(t.readErr)
		return
	}
	t.lease.FirstByte()
}

// incremental says whether the answer should pass as it comes.
func (t *attempt) incremental() bool {
	return t.sse || t.x.call.stream && t.resp.StatusCode < 400
}

func (t *attempt) read() {
	n, err := t.resp.Body.Read(t.buf[t.n:])
	t.n += n
	t.readErr = err
}

// refuse turns an answer into a failure.
func (t *attempt) refuse(err error) {
	_ = t.resp.Body.Close() // The connection is given up with it.
	t.resp, t.err = nil, err
}

// retryReason says why another engine should be tried, or "" when this attempt's result stands.
func (t *attempt) retryReason() string {
	if _, over := t.x.ended(); over {
		return ""
	}
	if t.resp == nil {
		return t.failureReason()
	}
	if !errors.Is(t.readErr, io.EOF) {
		return "" // Too long to keep, or cut: it has begun.
	}
	switch t.resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return retryBackpressure
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return retryGateway
	}
	return ""
}

func (t *attempt) failureReason() string {
	switch {
	case !t.trace.connected.Load():
		return retryConnect
	case t.foundClosed():
		return retryClosed
	}
	return retryNoAnswer
}

// foundClosed says whether a kept connection was closed by the engine before the request reached it. It looks like an
// engine that died on the request, except that it shows at once.
func (t *attempt) foundClosed() bool {
	return t.trace.reused.Load() && t.trace.first.Load() == 0 && t.waited < closedWindow
}

// refusedBody says whether the engine closed the connection while a body was being written that is too large to be
// sent at once. Servers do so after an early 4xx, whose text is lost when the write fails before it is read. A host
// that vanished under the request is no such case.
func (t *attempt) refusedBody() bool {
	timeout, ok := errors.AsType[net.Error](t.err)
	return t.trace.connected.Load() && t.trace.wrote.Load() == 0 && len(t.x.call.body) > sentAtOnceBytes && !(ok && timeout.Timeout())
}

// refused says whether the engine will not compute the prompt, for no reason of the client's. One that leaves, or whose
// request is wrong, changes nothing for others who send the same prefix.
func (t *attempt) refused() bool {
	if _, over := t.x.ended(); over {
		return false // the engine may be at it
	}
	if t.resp == nil {
		return true
	}
	outcome := workers.OutcomeOfStatus(t.resp.StatusCode)
	return outcome == workers.Backpressure || outcome == workers.Failure
}

// outcome judges the attempt for the worker's breaker.
func (t *attempt) outcome() workers.Outcome {
	if e, over := t.x.ended(); over {
		return e.outcome
	}
	if t.resp != nil {
		return workers.OutcomeOfStatus(t.resp.StatusCode)
	}
	if t.failureReason() == retryClosed || t.refusedBody() {
		// Engines close idle connections when they like, and refuse what they do not want to read; one that is really
		// gone refuses the next connection, and that counts.
		return workers.Cancelled
	}
	return workers.Failure
}

// heldAnswer is a complete answer kept while another engine is tried.
type heldAnswer struct {
	status int
	header http.Header
	body   []byte
}

// giveUp ends the attempt in favour of another one and returns its answer, if there was one.
func (t *attempt) giveUp() *heldAnswer {
	t.lease.Done(t.outcome())
	defer t.stop()
	if t.resp == nil {
		return nil
	}
	return &heldAnswer{status: t.resp.StatusCode, header: t.resp.Header, body: bytes.Clone(t.buf[:t.n])}
}

// conclude makes this attempt's result the client's answer: it is relayed, or an earlier engine's answer stands in
// for a missing one, or the client is told what went wrong.
func (t *attempt) conclude(held *heldAnswer) {
	defer t.stop()
	x := t.x
	e, over := x.ended()
	if t.resp != nil && (!over || e.fault != nil) {
		t.relay()
		return
	}
	t.lease.Done(t.outcome())
	switch {
	case over:
		x.fail(e)
	case held != nil:
		copyAnswerHeader(x.w.Header(), held.header)
		x.w.WriteHeader(held.status)
		_, _ = x.w.Write(held.body) // A client that is gone needs no answer.
	default:
		x.fail(ending{fault: t.unreachable()})
	}
}

func (t *attempt) unreachable() *Error {
	if t.trace.connected.Load() {
		return &Error{Code: CodeUnreachable, Message: "the engine closed the connection before it answered, and no other could be asked"}
	}
	return &Error{Code: CodeUnreachable, Message: "no engine could be reached"}
}

// stop frees what the attempt holds. Closing a body before its end closes the connection: that is how an engine hears
// that nobody listens.
func (t *attempt) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
	if t.resp != nil {
		_ = t.resp.Body.Close() // Nothing is lost: the body was read as far as it mattered.
	}
	if t.buf != nil {
		relayBuffers.Put(t.buf)
		t.buf = nil
	}
}
