package loadgen

import (
	"context"
	"fmt"
	"time"
)

// ProbeResult compares one small request through the target with the same one
// sent to an engine directly. It is measured when the load is over, one request
// at a time, so that neither waits in an engine's queue: the difference is what
// the router and its network add.
type ProbeResult struct {
	Pairs   int        `json:"pairs"`
	Failed  int        `json:"failed"`                // pairs of which one request failed
	Failure string     `json:"failure,omitempty"`     // the first one's text
	Added   *Quantiles `json:"added_latency_seconds"` // target minus direct of each pair; may be negative
	Target  *Quantiles `json:"target_seconds"`
	Direct  *Quantiles `json:"direct_seconds"`
}

// probeWarmup pairs open connections and fill caches and are not counted.
const probeWarmup = 5

func runProbe(ctx context.Context, o Options, model string) *ProbeResult {
	target, direct := newSender(o.Target, false), newSender(o.Direct, false)
	defer target.close()
	defer direct.close()
	result := &ProbeResult{}
	var added, through, straight []time.Duration
	for i := range probeWarmup + o.ProbePairs {
		if ctx.Err() != nil {
			break
		}
		t, d := probePair(ctx, target, direct, o.Timeout, probeRequest(model, i), i%2 == 0)
		if i < probeWarmup {
			continue
		}
		result.Pairs++
		if f := firstFailure(t, d); f != nil {
			result.Failed++
			if result.Failure == "" {
				result.Failure = f.Error()
			}
			continue
		}
		added, through, straight = append(added, t.latency-d.latency), append(through, t.latency), append(straight, d.latency)
	}
	result.Added, result.Target, result.Direct = exact(added), exact(through), exact(straight)
	return result
}

// probePair sends one request both ways; the order alternates, so that whatever
// the first one warms favours each side equally.
func probePair(ctx context.Context, target, direct *sender, timeout time.Duration, r request, targetFirst bool) (t, d outcome) {
	ctx, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	if targetFirst {
		t = target.send(ctx, r)
		return t, direct.send(ctx, r)
	}
	d = direct.send(ctx, r)
	return target.send(ctx, r), d
}

func probeRequest(model string, index int) request {
	return request{
		route:        "/v1/completions",
		body:         fmt.Appendf(nil, `{"model":%s,"prompt":"probe %d","max_tokens":1}`, quote(model), index),
		outputTokens: 1,
	}
}

func firstFailure(outcomes ...outcome) *failure {
	for _, o := range outcomes {
		if o.failure != nil {
			return o.failure
		}
	}
	return nil
}
