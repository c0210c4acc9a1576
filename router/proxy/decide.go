package proxy

import (
	"log/slog"
	"runtime/debug"

	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/workers"
)

// What follows asks the policy. A request that an engine would serve must not fail because of what is known, or thought to
// be known, of caches: a panic of the policy is a bug that is counted and logged, and the request goes on by load.

// decide chooses one of the candidates.
func (x *exchange) decide(candidates []*workers.Rank) (d policy.Decision, ok bool) {
	candidates = x.h.pressure.spare(candidates)
	defer func() {
		if x.h.survived(recover(), "choosing an engine") {
			plain := x.request
			plain.Keys = nil
			d, ok = x.h.fallback.Decide(plain, candidates)
		}
	}()
	return x.h.policy.Decide(x.request, candidates)
}

// sent tells the policy where the request goes.
func (x *exchange) sent(d policy.Decision) {
	defer func() { x.h.survived(recover(), "noting where a request goes") }()
	x.h.policy.Sent(d)
}

// unsent tells it that the engine did not take the request.
func (x *exchange) unsent(d policy.Decision) {
	defer func() { x.h.survived(recover(), "noting that a request was not taken") }()
	x.h.policy.Unsent(d)
}

// observed tells the policy what an engine found cached.
func (x *exchange) observed(d policy.Decision, cached int) {
	defer func() { x.h.survived(recover(), "noting what an engine had cached") }()
	x.h.policy.Observe(d, cached)
}

// survived tells whether p, which recover gave, was a panic.
func (h *Handler) survived(p any, doing string) bool {
	if p == nil {
		return false
	}
	h.metrics.panics.Inc()
	h.opts.Logger.Error("panic while "+doing+"; the request goes on", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	return true
}
