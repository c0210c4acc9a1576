package proxy

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/workers"
)

// broken is a policy that panics at one of its calls.
type broken struct {
	*listening
	at string
}

func (b broken) Decide(r policy.Request, candidates []*workers.Rank) (policy.Decision, bool) {
	if b.at == "decide" {
		panic("a bug")
	}
	return b.listening.Decide(r, candidates)
}

func (b broken) Sent(d policy.Decision) {
	if b.at == "sent" {
		panic("a bug")
	}
}

func (b broken) Unsent(policy.Decision) {
	if b.at == "unsent" {
		panic("a bug")
	}
}

func (b broken) Observe(policy.Decision, int) {
	if b.at == "observe" {
		panic("a bug")
	}
}

func TestAPolicyThatPanicsCostsNobodyARequest(t *testing.T) {
	for _, at := range []string{"", "decide", "sent", "unsent", "observe"} {
		for _, stream := range []string{"false", "true"} {
			bubble(t, withKeys, []string{"a", "b"}, func(r *rig) {
				var log strings.Builder
				r.handler.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
				r.handler.policy = broken{r.listen(), at}
				const usage = `{"usage":{"prompt_tokens":3,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2}}}`
				for _, e := range []string{"a", "b"} {
					r.engine(e, func(w http.ResponseWriter, _ *http.Request) {
						if at == "unsent" && e == "a" {
							writeAnswer(w, 503, "full")
							return
						}
						if stream == "true" {
							writeEvents(w, usage, "[DONE]")
							return
						}
						writeAnswer(w, 200, usage)
					})
				}
				got := r.post("/v1/completions", `{"model":"m","stream":`+stream+`,"prompt":[1,2,3]}`)
				if got.status != 200 || got.err != nil || !strings.Contains(got.body, usage) {
					r.t.Errorf("a panic at %q: got %d %q %v", at, got.status, got.body, got.err)
				}
				want := 1.0
				if at == "" {
					want = 0
				}
				r.wantMetric("routerfleet_panics_total", want)
				if told := strings.Contains(log.String(), "a bug") && strings.Contains(log.String(), "decide_test.go"); told != (at != "") {
					r.t.Errorf("a panic at %q: the log says %q", at, log.String())
				}
				r.wantIdle()
			})
		}
	}
}
