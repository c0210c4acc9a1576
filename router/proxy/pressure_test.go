package proxy

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/workers"
	"github.com/routerfleet/routerfleet/router/workers/workerstest"
)

// The policy always wants the engine that refuses, as it does for a prefix that only this one holds.
func TestAFullEngineThatHasThePrefixCostsNobodyARequest(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		bubble(t, Options{}, []string{"a", "b"}, func(r *rig) {
			r.listen()
			refused := 0
			r.engine("a", func(w http.ResponseWriter, _ *http.Request) { refused++; writeAnswer(w, status, "full") })
			r.engine("b", answering)
			for i := range 10 * retryBurst {
				if got := r.post(chatPath, chatBody); got.status != 200 {
					r.t.Fatalf("request %d: got %d %q although engine b is idle", i, got.status, got.body)
				}
			}
			if refused > retryBurst {
				r.t.Errorf("the full engine was asked %d times", refused)
			}
		})
	}
}

func TestAnEngineThatWasFullIsAskedAgain(t *testing.T) {
	for header, wait := range map[string]time.Duration{
		"": fullFor, "2": 2 * time.Second, "3600": maxFullFor, "99999999999999999999": fullFor, "-1": fullFor, "soon": fullFor,
	} {
		bubble(t, Options{Rand: fixedRand(0)}, []string{"a", "b"}, func(r *rig) {
			r.listen()
			full := true
			var served []string
			r.engine("a", func(w http.ResponseWriter, _ *http.Request) {
				if full {
					w.Header().Set("Retry-After", header)
					writeAnswer(w, 503, "full")
					return
				}
				served = append(served, "a")
				writeAnswer(w, 200, okAnswer)
			})
			r.engine("b", func(w http.ResponseWriter, _ *http.Request) {
				served = append(served, "b")
				writeAnswer(w, 200, okAnswer)
			})
			r.post(chatPath, chatBody)
			full = false
			<-time.After(wait - time.Millisecond) // inside the bubble
			r.post(chatPath, chatBody)
			<-time.After(time.Millisecond)
			r.post(chatPath, chatBody)
			if !slices.Equal(served, []string{"b", "b", "a"}) {
				r.t.Errorf("Retry-After %q: served by %v, want a again after %s", header, served, wait)
			}
		})
	}
}

func TestEnginesThatAreAllFullAreAskedAnyway(t *testing.T) {
	bubble(t, Options{}, []string{"a", "b"}, func(r *rig) {
		r.listen()
		full := true
		for _, name := range []string{"a", "b"} {
			r.engine(name, func(w http.ResponseWriter, _ *http.Request) {
				if full {
					writeAnswer(w, 503, "full")
					return
				}
				writeAnswer(w, 200, okAnswer)
			})
		}
		if got := r.post(chatPath, chatBody); got.status != 503 {
			r.t.Errorf("got %d, want the engines' 503", got.status)
		}
		full = false
		if got := r.post(chatPath, chatBody); got.status != 200 {
			r.t.Errorf("got %d: both engines have room again", got.status)
		}
	})
}

func TestPressureKeepsNothingOfRanksThatAreOver(t *testing.T) {
	now := time.Unix(0, 0)
	p := newPressure(func() time.Time { return now })
	var ws []workerstest.Worker
	for i := range 100 {
		ws = append(ws, workerstest.Worker{ID: strings.Repeat("w", 1+i), URL: "http://w:8000", Models: []string{model}})
	}
	ranks := workerstest.Ranks(t, ws...)
	answer := &http.Response{StatusCode: 503, Header: http.Header{}}
	for _, r := range ranks[:60] {
		p.heard(r, answer)
	}
	p.heard(ranks[99], &http.Response{StatusCode: 500})
	p.heard(ranks[99], nil)
	if got := p.spare(ranks); !slices.Equal(got, ranks[60:]) {
		t.Errorf("%d ranks are left, want those that did not refuse", len(got))
	}
	if got := p.spare(ranks[:60]); len(got) != 60 {
		t.Errorf("%d of 60 full ranks are left, want all: there is no other", len(got))
	}
	now = now.Add(fullFor)
	if got := p.spare(ranks); len(got) != 100 || len(p.until) != 0 || p.some.Load() {
		t.Errorf("afterwards %d ranks are left, %d remembered", len(got), len(p.until))
	}
	var none []*workers.Rank
	if got := p.spare(none); len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
}
