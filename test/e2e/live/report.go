package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/routerfleet/routerfleet/test/loadgen"
)

// ErrNoResult says that the load generator ended without telling how it went.
var ErrNoResult = errors.New("the load generator ended without a result line")

// LoadEvent is one line of the load generator's output; the field that is not nil is what it holds.
type LoadEvent struct {
	Progress *loadgen.Progress
	Result   *loadgen.Result
}

// ParseLoad reads a line of the load generator. Lines that are no JSON are what it told a person before
// it gave up.
func ParseLoad(line []byte) (event LoadEvent, err error) {
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return event, fmt.Errorf("the load generator says: %.500s", line)
	}
	switch kind.Type {
	case "progress":
		event.Progress = &loadgen.Progress{}
		err = json.Unmarshal(line, event.Progress)
	case "result":
		event.Result = &loadgen.Result{}
		err = json.Unmarshal(line, event.Result)
	}
	if err != nil {
		return event, fmt.Errorf("read a %s of the load generator: %w: %.200q", kind.Type, err, line)
	}
	return event, nil
}

// Summary tells a result to a person, a line each.
func Summary(r *loadgen.Result) []string {
	lines := []string{fmt.Sprintf("%d requests in %.1f s, %.1f a second, %d failed", r.Requests, r.Seconds, r.RPS, r.Failed)}
	if q := r.Latency; q != nil {
		lines = append(lines, "latency        "+quantiles(q))
	}
	if q := r.TTFT; q != nil {
		lines = append(lines, "first token    "+quantiles(q))
	}
	if r.CachedTokenRatio != nil {
		lines = append(lines, fmt.Sprintf("prompt tokens  %d, %.1f %% of them from the engines' caches", r.PromptTokens, 100**r.CachedTokenRatio))
	}
	if p := r.Probe; p != nil {
		lines = append(lines, probeLine(p))
	}
	for _, code := range slices.Sorted(maps.Keys(r.ByCode)) {
		lines = append(lines, fmt.Sprintf("failed with %s: %d", code, r.ByCode[code]))
	}
	for _, f := range r.FirstFailures {
		lines = append(lines, fmt.Sprintf("request %d, sent %.3f s after the start, failed after %.3f s with %s (status %d): %s",
			f.Request, f.At, f.After, f.Code, f.Status, f.Text))
	}
	return lines
}

// probeLine is what the router adds to a request, as far as it was measured.
func probeLine(p *loadgen.ProbeResult) string {
	if p.Added == nil {
		return fmt.Sprintf("added by the router: not measured, %d of %d pairs failed: %s", p.Failed, p.Pairs, p.Failure)
	}
	return fmt.Sprintf("added by the router: %s (one request through it against one straight to an engine, %d pairs)", quantiles(p.Added), p.Pairs-p.Failed)
}

func quantiles(q *loadgen.Quantiles) string {
	return fmt.Sprintf("p50 %s, p99 %s", Short(q.P50), Short(q.P99))
}

// Short renders seconds with three digits that matter to a person.
func Short(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Second || d <= -time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond || d <= -time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
