package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/test/data/traces"
	"github.com/routerfleet/routerfleet/test/loadgen"
)

// baselineName is the fleet that shows what the same trace comes to without knowledge of caches.
const baselineName = fleetName + "-round-robin"

// baselineOf is the sample's manifest but for name and policy.
func baselineOf(sample []byte) ([]byte, error) {
	var manifest map[string]any
	if err := yaml.Unmarshal(sample, &manifest); err != nil {
		return nil, fmt.Errorf("read %s: %w", fleetSample, err)
	}
	for _, field := range []struct {
		value string
		path  []string
	}{
		{baselineName, []string{"metadata", "name"}},
		{string(v1alpha1.PolicyRoundRobin), []string{"spec", "routing", "policy"}},
	} {
		if err := unstructured.SetNestedField(manifest, field.value, field.path...); err != nil {
			return nil, fmt.Errorf("change %v of %s: %w", field.path, fleetSample, err)
		}
	}
	return yaml.Marshal(manifest)
}

// createBaseline applies the fleet. It does not wait.
func (d *demo) createBaseline(ctx context.Context) error {
	sample, err := os.ReadFile(filepath.Join(d.root, fleetSample))
	if err != nil {
		return err
	}
	manifest, err := baselineOf(sample)
	if err != nil {
		return err
	}
	_, err = d.cluster.KubectlWith(ctx, string(manifest), "-n", namespace, "apply", "--server-side", "--force-conflicts", "-f", "-")
	return err
}

// replayBaseline sends the trace through the baseline's fleet and removes that. It drains while the next step runs.
func (d *demo) replayBaseline(ctx context.Context) (result string, err error) {
	requests, err := traces.Conversation()
	if err != nil {
		return "", err
	}
	d.ceiling = ceiling(requests[:min(d.options.Requests, len(requests))])
	if d.baseline, err = d.replay(ctx, baselineName); err != nil {
		return "", err
	}
	if _, err := d.cluster.Kubectl(ctx, "-n", namespace, "delete", "--wait=false", "rf/"+baselineName); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d requests of a real conversation trace by %s, none failed", d.baseline.Requests, v1alpha1.PolicyRoundRobin), nil
}

// cachePage is the tokens of a page of the engines' caches: the engine double's default.
const cachePage = 64

// ceiling is the share of the requests' prompt tokens that the caches could give at best: with one cache for all, without
// limit, and every prompt computed before the next comes. The rest is new when it first comes, whoever computes it.
func ceiling(requests []traces.Request) float64 {
	stored := map[uint32]int{} // tokens of a block that some prompt had, in whole pages
	total, cached := 0, 0
	for _, r := range requests {
		total += r.InputLength
		shared, contiguous := 0, true
		for i, id := range r.Blocks {
			pages := min(traces.BlockSize, r.InputLength-i*traces.BlockSize) / cachePage * cachePage
			if contiguous {
				found := min(pages, stored[id])
				shared += found
				contiguous = found == traces.BlockSize
			}
			stored[id] = max(stored[id], pages)
		}
		cached += min(shared, (r.InputLength-1)/cachePage*cachePage) // the last token is always computed
	}
	if total == 0 {
		return 0
	}
	return float64(cached) / float64(total)
}

// comparison are the two runs side by side.
func comparison(baseline, replayed *loadgen.Result) []string {
	row := func(name, a, b string) string { return fmt.Sprintf("%-24s %12s %12s", name, a, b) }
	times := func(name string, of func(*loadgen.Quantiles) float64) string {
		return row(name, quantile(baseline.TTFT, of), quantile(replayed.TTFT, of))
	}
	return []string{
		row("", string(v1alpha1.PolicyRoundRobin), string(v1alpha1.PolicyCacheAware)),
		row("block hit ratio", percent(baseline.CachedTokenRatio), percent(replayed.CachedTokenRatio)),
		times("first token, mean", func(q *loadgen.Quantiles) float64 { return q.Mean }),
		times("first token, p50", func(q *loadgen.Quantiles) float64 { return q.P50 }),
		times("first token, p99", func(q *loadgen.Quantiles) float64 { return q.P99 }),
	}
}
