package proxy

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/workers"
)

// relay passes an answer on as it comes, and reads along.
type relay struct {
	t      *attempt
	events eventReader
	answer answerReader
	// document collects an unstreamed answer that came in several reads, to find its usage; whole is false once it
	// outgrew maxUsageBodyBytes.
	document []byte
	whole    bool
	produced int // events already told to the lease
}

// relay sends the answer to the client and ends the lease.
func (t *attempt) relay() {
	x := t.x
	if !t.sse && t.cut() && !t.incremental() {
		// Nothing was sent: the client gets an error with a status instead of half an answer.
		e := t.ending()
		t.lease.Done(e.outcome)
		x.fail(e)
		return
	}
	header := x.w.Header()
	copyAnswerHeader(header, t.resp.Header)
	if _, framed := header["Content-Length"]; !framed && errors.Is(t.readErr, io.EOF) && !t.sse && t.resp.StatusCode != http.StatusNoContent {
		header["Content-Length"] = []string{strconv.Itoa(t.n)}
	}
	x.w.WriteHeader(t.resp.StatusCode)
	x.h.metrics.overhead.Observe((time.Since(x.start) - x.waited).Seconds())
	if t.sse {
		x.h.metrics.ttft.WithLabelValues(x.route.name).Observe(time.Since(x.arrived).Seconds())
	}
	r := relay{t: t, whole: true}
	r.answer.wantIDs = x.h.opts.Keys.Parity != nil
	defer func() { r.answer.told.free() }()
	r.end(r.copy())
}

// cut says whether the body ended in a way that is no end.
func (t *attempt) cut() bool {
	return t.readErr != nil && !errors.Is(t.readErr, io.EOF)
}

// ending describes a cut body.
func (t *attempt) ending() ending {
	if e, over := t.x.ended(); over {
		return e
	}
	return ending{fault: &Error{Code: CodeBodyIncomplete, Message: "the engine went away in the middle of its answer"},
		outcome: workers.Failure, stream: streamCut}
}

// copy moves the body to the client until one side ends. The first bytes are in the buffer already. It returns the
// client's error; the engine's is in readErr.
func (r *relay) copy() error {
	t := r.t
	idle := t.x.h.opts.StreamIdleTimeout
	for {
		if err := r.pass(t.buf[:t.n]); err != nil {
			return err
		}
		if t.readErr != nil {
			return nil
		}
		t.n = 0
		if t.sse {
			t.timer.Reset(idle)
		}
		t.read()
		if t.sse {
			// Only the engine's silence counts, not the time the client takes to read.
			t.timer.Stop()
		}
	}
}

// pass sends one chunk, at once when the answer is a stream, and reads it afterwards.
func (r *relay) pass(chunk []byte) error {
	t := r.t
	if len(chunk) > 0 {
		t.x.w.extend()
		if _, err := t.x.w.Write(chunk); err != nil {
			return err
		}
	}
	if t.incremental() && t.readErr == nil {
		if err := t.x.w.flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
	if t.sse {
		r.events.feed(chunk, r.answer.event)
		t.lease.Produced(r.answer.events - r.produced)
		r.produced = r.answer.events
		return nil
	}
	r.collect(chunk)
	return nil
}

// collect keeps an unstreamed answer for its usage. An answer that came in one read is not copied.
func (r *relay) collect(chunk []byte) {
	switch {
	case !r.whole || r.t.resp.StatusCode != http.StatusOK:
	case len(r.document) == 0 && r.t.readErr != nil:
		r.document = chunk
	case len(r.document)+len(chunk) > maxUsageBodyBytes:
		r.whole, r.document = false, nil
	default:
		r.document = append(r.document, chunk...)
	}
}

// end closes the books: lease, stream outcome, usage, and the way the client learns of a broken answer.
func (r *relay) end(clientErr error) {
	t := r.t
	e := ending{outcome: workers.OutcomeOfStatus(t.resp.StatusCode), stream: streamOK}
	switch {
	case clientErr != nil:
		// The client left, or left the answer unread for too long.
		e = ending{outcome: workers.Cancelled, stream: streamClientGone}
		t.x.w.clientGone()
	case r.incomplete():
		e = t.ending()
		r.breakOff(e)
	case t.sse:
		r.events.finish(r.answer.event)
		if r.answer.failed {
			e = errorEventEnding(r.answer.serverFault)
		}
	case r.whole && len(r.document) > 0:
		r.answer.document(r.document)
	}
	if t.sse {
		t.x.h.metrics.streams.WithLabelValues(e.stream).Inc()
	}
	if u := r.answer.usage(); u.Known || e.outcome == workers.Success {
		t.x.h.metrics.used(u)
		if e.outcome == workers.Success {
			t.observe(u)
			t.compare(u, r.answer.told)
		}
	}
	t.lease.Done(e.outcome)
}

// observe tells the policy what a complete answer reports of the engine's cache. An engine that counts another prompt than
// the one whose keys were looked up (it was truncated, say), or more of it cached than there is, tells nothing.
func (t *attempt) observe(u Usage) {
	if u.CachedKnown && u.Prompt == t.x.request.PromptTokens && u.Cached <= u.Prompt {
		t.x.observed(t.decision, u.Cached)
	}
}

// compare holds the router's tokens of the prompt against what the answer says of it.
func (t *attempt) compare(u Usage, told *tokenIDs) {
	defer func() { t.x.h.survived(recover(), "comparing tokens") }()
	t.x.keys.compare(policy.IndexRank(t.rank).Worker, u, told)
}

// incomplete says whether the engine's answer lacks its end. A stream without framing of its own (neither chunked nor
// with a length) ends like a cut one, so its end marker decides; a stream that was cut after its end marker is whole.
func (r *relay) incomplete() bool {
	t := r.t
	if !t.sse {
		return t.cut()
	}
	unframed := t.resp.ContentLength < 0 && len(t.resp.TransferEncoding) == 0
	return (t.cut() || unframed) && !r.answer.done
}

// breakOff makes a broken answer look broken: an error event if one fits where the stream stopped, and in any case a
// connection that ends without the end of the body. No finish_reason and no end marker are invented.
func (r *relay) breakOff(e ending) {
	x := r.t.x
	if e.fault != nil {
		x.w.extend()
		if r.t.sse && r.events.betweenEvents() {
			_, _ = x.w.Write(e.fault.event()) // The connection is about to be cut either way.
		}
		_ = x.w.flush() // What came of the answer is the client's, as before.
	}
	if e.fault != nil && e.fault.Code == CodeStale {
		x.h.metrics.stale.Inc()
	}
	x.w.abort = true
}

// errorEventEnding is a stream in which the engine itself reported an error. Only an error of the engine's own making
// counts against it.
func errorEventEnding(serverFault bool) ending {
	outcome := workers.ClientError
	if serverFault {
		outcome = workers.Failure
	}
	return ending{outcome: outcome, stream: streamErrorEvent}
}
