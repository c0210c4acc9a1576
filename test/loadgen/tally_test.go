package loadgen

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTheTallyAddsUp(t *testing.T) {
	tally := newTally()
	for i := range 10 {
		tally.add(outcome{index: i, latency: time.Duration(i+1) * time.Second, ttft: time.Second, opened: 1,
			answer: answer{engine: fmt.Sprint("e", i%2), usage: i != 0, prompt: 100, cached: 25, produced: 7}})
	}
	tally.add(outcome{index: 10, began: 3 * time.Second, latency: time.Second, retried: 1, paced: true, late: time.Second,
		failure: failf("no_healthy_workers", 503, "nobody")})
	r := tally.result(20 * time.Second)
	if r.Requests != 11 || r.OK != 10 || r.Failed != 1 || r.RPS != 0.55 {
		t.Errorf("counts: %+v", r)
	}
	if r.PromptTokens != 900 || *r.CachedTokenRatio != 0.25 || r.OutputTokens != 63 {
		t.Errorf("tokens: %d, ratio %v, %d", r.PromptTokens, *r.CachedTokenRatio, r.OutputTokens)
	}
	if r.ByCode["no_healthy_workers"] != 1 || r.ByEngine["e0"] != 5 || r.ByEngine["e1"] != 5 || r.TransportRetries != 1 || r.ConnectionsOpened != 10 {
		t.Errorf("maps: %+v %+v, retries %d", r.ByCode, r.ByEngine, r.TransportRetries)
	}
	if r.Latency.Max != 10 || r.TTFT.Max != 1 || r.Lag.Max != 1 {
		t.Errorf("a failed request's times are among the good ones: %+v", r.Latency)
	}
	if want := (Failure{10, 3, 1, "no_healthy_workers", 503, "nobody"}); len(r.FirstFailures) != 1 || r.FirstFailures[0] != want {
		t.Errorf("failures: %+v", r.FirstFailures)
	}
}

func TestAnEmptyResultClaimsNothing(t *testing.T) {
	data, err := json.Marshal(newTally().result(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"latency_seconds":null`, `"cached_token_ratio":null`, `"probe":null`, `"first_failures":[]`, `"rps":0`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %s in %s", want, data)
		}
	}
}

func TestNamesFromOutsideAreBounded(t *testing.T) {
	tally := newTally()
	for i := range 10 * maxCodes {
		tally.add(outcome{failure: failf(fmt.Sprint("code", i), 500, "x")})
	}
	if len(tally.codes) != maxCodes+1 || tally.codes["other"] != 9*maxCodes || len(tally.failures) != maxFailuresKept {
		t.Errorf("%d codes, %d other, %d failures kept", len(tally.codes), tally.codes["other"], len(tally.failures))
	}
}

func TestTheFractionFollowsWhicheverEndComesFirst(t *testing.T) {
	for _, c := range []struct {
		total    int
		duration time.Duration
		want     float64
	}{{100, 0, 0.5}, {0, 40 * time.Second, 0.25}, {100, 40 * time.Second, 0.5}, {1000, 20 * time.Second, 0.5}, {10, 0, 1}} {
		r := &run{opts: Options{Duration: c.duration}, total: c.total}
		if got := r.fraction(50, 10*time.Second); got != c.want {
			t.Errorf("50 of %d, 10 s of %v: got %v, want %v", c.total, c.duration, got, c.want)
		}
	}
}
