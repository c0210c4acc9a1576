package proxy

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/policy"
)

// Handler serves the data listener. It is safe for concurrent use; New makes one.
type Handler struct {
	opts     Options
	policy   policy.Decider
	fallback policy.Decider // by load, when the policy fails
	keys     *keyMaker
	metrics  *metrics
	splits   *prometheus.CounterVec
	budget   *retryBudget
	pressure *pressure
	admitted atomic.Int64
}

var _ http.Handler = (*Handler)(nil)

// New checks the options and registers the metrics. It starts nothing.
func New(o Options) (*Handler, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("proxy options: %w", err)
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register request metrics: %w", err)
	}
	splits, err := newSplits(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register request metrics: %w", err)
	}
	byLoad, err := policy.New(policy.NamePowerOfTwo, policy.Options{})
	if err != nil {
		return nil, fmt.Errorf("make the policy that stands in: %w", err)
	}
	return &Handler{
		opts: o, policy: policy.Deciding(o.Policy), fallback: policy.Deciding(byLoad),
		keys: newKeyMaker(o.Keys, o.Workers, m), metrics: m, splits: splits,
		budget: newRetryBudget(time.Now), pressure: newPressure(time.Now),
	}, nil
}

// InFlight returns the number of admitted requests whose answer has not ended.
func (h *Handler) InFlight() int64 { return h.admitted.Load() }

// ServeHTTP answers one request. It panics with http.ErrAbortHandler, as net/http wants it, when an answer that has
// begun must not look complete.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &answer{ResponseWriter: w, stall: h.opts.StreamIdleTimeout}
	rt, fault := findRoute(r)
	arrived := time.Now()
	defer h.finish(a, rt, arrived)
	switch {
	case fault != nil:
		leaveUnread(a)
		if fault.Code == CodeMethodNotAllowed {
			w.Header()["Allow"] = rt.methods
		}
		fault.write(a)
	case rt.answer != nil:
		rt.answer(h, a, r)
	default:
		h.forward(a, r, rt, arrived)
	}
}

// finish is the handler boundary: it counts the answer, and turns a panic into a 500, or into an aborted connection
// when the answer has begun.
func (h *Handler) finish(a *answer, rt *route, start time.Time) {
	if p := recover(); p != nil {
		h.metrics.panics.Inc()
		h.opts.Logger.Error("panic while answering a request", slog.String("route", rt.name),
			slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		if a.status == 0 {
			(&Error{Code: CodeInternal, Message: "the router failed on this request; its log says why"}).write(a)
		} else {
			a.abort = true
		}
	}
	h.metrics.answered(rt.name, a.status, time.Since(start))
	if a.abort {
		panic(http.ErrAbortHandler)
	}
}

// admit takes one of the concurrency slots. release gives it back.
func (h *Handler) admit() bool {
	n := h.admitted.Add(1)
	if limit := h.opts.MaxConcurrent; limit > 0 && n > int64(limit) {
		h.admitted.Add(-1)
		h.metrics.rejected.WithLabelValues(rejectConcurrency).Inc()
		return false
	}
	h.metrics.inflight.Inc()
	return true
}

func (h *Handler) release() {
	h.admitted.Add(-1)
	h.metrics.inflight.Dec()
}

// forward admits, reads and understands a request, and lets an exchange bring it to an engine.
func (h *Handler) forward(a *answer, r *http.Request, rt *route, arrived time.Time) {
	if !h.admit() {
		leaveUnread(a)
		(&Error{Code: CodeOverloaded, RetryAfterSeconds: 1, Message: fmt.Sprintf(
			"the router already serves %d requests, its limit; try again shortly", h.opts.MaxConcurrent)}).write(a)
		return
	}
	defer h.release()
	explain := asksToExplain(r)
	if explain {
		if fault := h.mayExplain(r); fault != nil {
			leaveUnread(a)
			fault.write(a)
			return
		}
	}
	body, fault := readBody(a, r, h.opts.MaxBodyBytes)
	if fault != nil {
		// A read that timed out ends the context as well, but that client is still there to be told.
		if fault.Code == CodeBadRequest && r.Context().Err() != nil {
			a.clientGone()
			return
		}
		leaveUnread(a)
		fault.write(a)
		return
	}
	complete := time.Now()
	ids := h.keys.collector()
	defer ids.free()
	call, fault := readCall(body, rt.prompt, ids)
	if fault != nil {
		fault.write(a)
		return
	}
	h.resolve(&call, rt, explain)
	x := newExchange(h, a, r, rt, call, arrived, complete)
	if explain {
		x.explain()
		return
	}
	h.budget.earn()
	x.run()
}

func (h *Handler) healthz(a *answer, _ *http.Request) {
	body := []byte("ok\n")
	a.Header()["Content-Type"] = []string{"text/plain; charset=utf-8"}
	a.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	a.WriteHeader(http.StatusOK)
	_, _ = a.Write(body) // A prober that is gone needs no answer.
}

// models answers with what requests may name.
func (h *Handler) models(a *answer, _ *http.Request) {
	list := struct {
		Object string        `json:"object"`
		Data   []listedModel `json:"data"`
	}{Object: "list", Data: h.listModels()}
	body, err := json.Marshal(list)
	if err != nil {
		panic(err) // Strings and numbers always marshal.
	}
	a.Header()["Content-Type"] = []string{"application/json"}
	a.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	a.WriteHeader(http.StatusOK)
	_, _ = a.Write(body) // A client that is gone needs no answer.
}
