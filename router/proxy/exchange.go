package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/workers"
)

// Why the router itself ended a request; the causes of an exchange's context.
var (
	errStale   = errors.New("the request outlived the stale timeout")
	errTimeout = errors.New("the engine did not answer within the request timeout")
	errIdle    = errors.New("the engine fell silent inside a stream")
)

// exchange is one admitted request on its way: the engines tried, and the answer. One goroutine owns it; only its
// context is ended from outside, by the client's leaving and by timers.
type exchange struct {
	h     *Handler
	w     *answer
	r     *http.Request
	route *route
	call  call
	// request is what the policy is asked with; its key source is keys.
	request policy.Request
	keys    promptKeys

	ctx    context.Context
	cancel context.CancelCauseFunc
	// start is when the body was complete; from here on the router is accountable for time.
	start time.Time
	// arrived is when the handler was called.
	arrived time.Time
	// waited sums what was spent waiting for engines before the first byte.
	waited time.Duration
	tried  []workers.ID
}

func newExchange(h *Handler, w *answer, r *http.Request, rt *route, c call, arrived, complete time.Time) *exchange {
	x := &exchange{h: h, w: w, r: r, route: rt, call: c, arrived: arrived, start: complete}
	x.keys = promptKeys{maker: h.keys, call: &x.call, route: rt}
	x.request = policy.Request{Model: c.model, Key: c.prompt.key, PromptTokens: c.prompt.tokens, Keys: &x.keys}
	x.ctx, x.cancel = context.WithCancelCause(r.Context())
	return x
}

// tokenize finds the prompt's tokens where an index could use their keys, and an engine could be sent there. What must not
// fail for it goes on without.
func (x *exchange) tokenize() {
	if ranks, _ := x.h.opts.Workers.Snapshot().Pool(x.request.Model); len(ranks) == 0 {
		return
	}
	defer func() { x.h.survived(recover(), "finding the tokens of a prompt") }()
	x.keys.read(x.ctx, x.arrived)
	if x.keys.tokens > 0 {
		x.request.PromptTokens = x.keys.tokens
	}
}

// run asks engines until one has an answer that counts, and relays it. What may be tried again, and how often:
//
//  1. Nothing once a byte of an answer has gone to the client.
//  2. An engine that could not be reached: maxUnsent times, nothing was generated. A kept connection that was closed:
//     maxClosed times as one of these, then as 3, since it may have been the request that killed the engine. Only a
//     closed connection may meet the same engine again.
//  3. An engine that went away before its first byte, a 502 or 504: until maxAttempts engines were asked.
//  4. 429 or 503: the same, once, after a jitter; without another engine it passes with its Retry-After. For a while other
//     requests ask other engines first.
//  5. All inside the retry budget. Timeouts are never tried again: the next engine would start from nothing.
func (x *exchange) run() {
	defer x.cancel(context.Canceled)
	defer x.keys.release()
	stale := time.AfterFunc(x.h.opts.StaleTimeout, func() { x.cancel(errStale) })
	defer stale.Stop()

	var held *heldAnswer
	asked, unsent, closed := 0, 0, 0
	x.tokenize()
	t, fault := x.choose()
	if fault != nil {
		fault.write(x.w)
		return
	}
	// A panic below must not leave a lease behind; otherwise the attempt is over by then, and this does nothing.
	defer func() { t.lease.Done(workers.Cancelled); t.stop() }()
	for {
		t.send()
		x.h.pressure.heard(t.rank, t.resp)
		if t.refused() {
			x.unsent(t.decision)
		}
		reason := t.retryReason()
		if reason == retryClosed {
			closed++
		}
		if reason == retryConnect || reason == retryClosed && closed <= maxClosed {
			unsent++
		} else {
			asked++
		}
		var next *attempt
		if reason != "" && asked < maxAttempts && unsent <= maxUnsent {
			next = x.retry(t, reason)
		}
		if next == nil {
			t.conclude(held)
			return
		}
		if kept := t.giveUp(); kept != nil {
			held = kept
		}
		t = next
	}
}

// retry chooses the engine for another attempt, or returns nil when there is no other or no budget.
func (x *exchange) retry(t *attempt, reason string) *attempt {
	if !x.h.budget.spend() {
		return nil
	}
	x.tried = append(x.tried, t.rank.Worker().ID())
	next, fault := x.choose()
	if fault != nil && reason == retryClosed {
		// A kept connection that was closed says nothing about the engine: it may be asked on a new one.
		x.tried = x.tried[:len(x.tried)-1]
		next, fault = x.choose()
	}
	if fault != nil {
		x.h.budget.refund()
		return nil
	}
	if reason == retryBackpressure && !x.pause(time.Duration(x.h.opts.Rand.Int64N(int64(maxBackpressureJitter)))) {
		next.lease.Done(workers.Cancelled)
		return nil
	}
	x.h.metrics.retries.WithLabelValues(reason).Inc()
	return next
}

// pause waits, or returns false when the request ended meanwhile.
func (x *exchange) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.ctx.Done():
		return false
	}
}

// choose picks a rank of a worker not tried before and takes a lease on it.
func (x *exchange) choose() (*attempt, *Error) {
	snapshot := x.h.opts.Workers.Snapshot()
	ranks, known := snapshot.Pool(x.request.Model)
	if !known {
		return nil, unknownModel(snapshot, x.request.Model)
	}
	candidates := ranks
	if len(x.tried) > 0 {
		// The pool's slice is shared: leave out in a copy.
		candidates = slices.DeleteFunc(slices.Clone(ranks), func(r *workers.Rank) bool {
			return slices.Contains(x.tried, r.Worker().ID())
		})
	}
	for len(candidates) > 0 {
		decision, ok := x.decide(candidates)
		if !ok {
			break
		}
		rank := decision.Rank
		if lease, ok := rank.AcquireCached(x.request.PromptTokens, decision.CreditTokens); ok {
			x.sent(decision)
			return &attempt{x: x, rank: rank, lease: lease, decision: decision}, nil
		}
		// Its breaker closed the door since the snapshot; another goroutine holds its probe.
		candidates = slices.DeleteFunc(slices.Clone(candidates), func(r *workers.Rank) bool {
			return r.Worker().ID() == rank.Worker().ID()
		})
	}
	return nil, &Error{Code: CodeNoWorkers, RetryAfterSeconds: 1,
		Message: "no engine that serves this model can take a request now"}
}

// unknownModel tells a model nobody serves from a fleet that has no engines to ask, and from a missing model.
func unknownModel(s *workers.Snapshot, model string) *Error {
	known := s.Models()
	if len(known) == 0 {
		return &Error{Code: CodeNoWorkers, RetryAfterSeconds: 1, Message: "the router has no engine in rotation"}
	}
	if model == "" {
		return &Error{Code: CodeBadRequest, Param: "model",
			Message: "model is required, as the engines serve several: " + modelNames(known)}
	}
	return &Error{Code: CodeModelNotFound, Param: "model",
		Message: fmt.Sprintf("model %q is not served here; known: %s", shorten(model), modelNames(known))}
}

// Bounds on what an error message repeats.
const (
	maxNamedModels   = 16
	maxNamedModelLen = 128
)

func modelNames(models []workers.Model) string {
	names := make([]string, 0, maxNamedModels)
	for _, m := range models[:min(len(models), maxNamedModels)] {
		names = append(names, m.ID)
	}
	if more := len(models) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more (see /v1/models)", more))
	}
	return strings.Join(names, ", ")
}

func shorten(name string) string {
	if len(name) <= maxNamedModelLen {
		return name
	}
	return strings.ToValidUTF8(name[:maxNamedModelLen], "") + "..."
}

// ended classifies why the exchange's context ended. ok is false while it has not.
func (x *exchange) ended() (e ending, ok bool) {
	cause := context.Cause(x.ctx)
	switch {
	case cause == nil:
		return ending{}, false
	case errors.Is(cause, errStale):
		return ending{fault: &Error{Code: CodeStale, Message: fmt.Sprintf(
			"the request was not finished within %s, the router's limit", x.h.opts.StaleTimeout)},
			outcome: workers.Cancelled, stream: streamExpired}, true
	case errors.Is(cause, errTimeout):
		return ending{fault: &Error{Code: CodeUpstreamTimeout, Message: fmt.Sprintf(
			"the engine did not answer within %s", x.h.opts.RequestTimeout)},
			outcome: workers.Failure, stream: streamIdle}, true
	case errors.Is(cause, errIdle):
		return ending{fault: &Error{Code: CodeUpstreamTimeout, Message: fmt.Sprintf(
			"the engine sent nothing for %s", x.h.opts.StreamIdleTimeout)},
			outcome: workers.Failure, stream: streamIdle}, true
	}
	return ending{outcome: workers.Cancelled, stream: streamClientGone}, true
}

// ending is how a request ended that did not end by itself.
type ending struct {
	// fault is what to tell the client; nil when the client is gone.
	fault   *Error
	outcome workers.Outcome
	stream  string
}

// fail tells the client why there is no answer. Nothing must have been sent before.
func (x *exchange) fail(e ending) {
	if e.fault == nil {
		x.w.clientGone()
		return
	}
	if e.fault.Code == CodeStale {
		x.h.metrics.stale.Inc()
	}
	e.fault.write(x.w)
}

// debug logs a failed attempt. Not at info: a sick engine would fill the log, and the breaker logs its transitions.
func (x *exchange) debug(message string, args ...slog.Attr) {
	x.h.opts.Logger.LogAttrs(x.r.Context(), slog.LevelDebug, message, args...)
}
