package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/test/e2e/live"
	"github.com/routerfleet/routerfleet/test/loadgen"
)

// table counts requests by router and engine.
type table map[string]map[string]int

// routed asks every router how many requests it sent to which engine.
func (d *demo) routed(ctx context.Context) (table, error) {
	pods, err := d.cluster.Pods(ctx, namespace, v1alpha1.LabelFleet+"="+fleetName)
	if err != nil {
		return nil, err
	}
	routed := table{}
	for _, pod := range pods {
		metrics, err := d.cluster.RouterMetrics(ctx, namespace, pod.Name)
		if err != nil {
			return nil, err
		}
		routed[pod.Name] = map[string]int{}
		for worker, requests := range metrics.By("routerfleet_worker_requests_total", "worker") {
			routed[pod.Name][strings.TrimPrefix(worker, namespace+"/")] = int(requests)
		}
	}
	return routed, nil
}

// since is what was added to an earlier table.
func (t table) since(before table) table {
	added := table{}
	for router, engines := range t {
		added[router] = map[string]int{}
		for engine, requests := range engines {
			added[router][engine] = requests - before[router][engine]
		}
	}
	return added
}

// lines renders the table: a row an engine, a column a router, sums at the edges.
func (t table) lines() []string {
	routers := slices.Sorted(maps.Keys(t))
	engines := map[string]int{}
	sums := map[string]int{}
	for router, counts := range t {
		for engine, requests := range counts {
			engines[engine] += requests
			sums[router] += requests
		}
	}
	wide := len("engine \\ router")
	for engine := range engines {
		wide = max(wide, len(engine))
	}
	row := func(name string, cell func(router string) string, sum string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "%-*s", wide, name)
		for _, router := range routers {
			fmt.Fprintf(&b, "  %*s", len(router), cell(router))
		}
		fmt.Fprintf(&b, "  %8s", sum)
		return b.String()
	}
	lines := []string{row("engine \\ router", func(r string) string { return r }, "sum")}
	for _, engine := range slices.Sorted(maps.Keys(engines)) {
		lines = append(lines, row(engine, func(r string) string { return fmt.Sprint(t[r][engine]) }, fmt.Sprint(engines[engine])))
	}
	total := 0
	for _, sum := range sums {
		total += sum
	}
	return append(lines, row("sum", func(r string) string { return fmt.Sprint(sums[r]) }, fmt.Sprint(total)))
}

// report prints where the requests went and what they cost.
func (d *demo) report() {
	d.screen.line("\nThe same requests by two policies, the engines' caches empty at the start of each:\n")
	for _, line := range comparison(d.baseline, d.replayed) {
		d.screen.line("  %s", line)
	}
	d.screen.line("\n  The ratio is prompt tokens from the engines' caches, as they report it. No routing could reach more than %s:", percent(&d.ceiling))
	d.screen.line("  the first run of a trace meets empty caches, and what no earlier prompt had must be computed.")
	d.screen.line("\nWhere %s sent them:\n", v1alpha1.PolicyCacheAware)
	for _, line := range d.table.lines() {
		d.screen.line("  %s", line)
	}
	d.screen.line("\n  A connection stays with the router it was opened to; each router sends to every engine.")
	d.screen.line("\nWhat they cost by %s:\n", v1alpha1.PolicyCacheAware)
	summary := *d.replayed
	summary.Probe = d.probed
	for _, line := range live.Summary(&summary) {
		d.screen.line("  %s", line)
	}
}

// percent renders a share; a dash for one that nobody told.
func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100**share)
}

// quantile renders one figure of a distribution; a dash without one.
func quantile(q *loadgen.Quantiles, of func(*loadgen.Quantiles) float64) string {
	if q == nil {
		return "-"
	}
	return live.Short(of(q))
}

// showObjects prints what kubectl says.
func (d *demo) showObjects(ctx context.Context) error {
	out, err := d.cluster.Kubectl(ctx, "-n", namespace, "get", "rf,rs,pods,endpointslices")
	if err != nil {
		return err
	}
	d.screen.line("\n$ kubectl get rf,rs,pods,endpointslices\n%s", strings.TrimRight(out, "\n"))
	return nil
}

// howToGoOn tells the commands a reader will want next; each can be pasted as it stands.
func (d *demo) howToGoOn() string {
	return strings.TrimSpace(fmt.Sprintf(`
Go on by hand, in the folder of the clone:

  export KUBECONFIG=$PWD/.cluster/kubeconfig PATH=$PWD/bin/kube:$PATH

  # a request of your own
  kubectl port-forward service/%[1]s 30000:30000 &
  curl -s http://127.0.0.1:30000/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"model": "%[2]s", "max_tokens": 12, "messages": [{"role": "user", "content": "Hello"}]}'

  # more routers
  kubectl scale rf/%[1]s --replicas=4

  # another image, one slot at a time; the first wait also ends when the rollout is Held or Paused
  kubectl patch rf/%[1]s --type=merge -p '{"spec": {"image": "routerfleet.io/router:next"}}'
  kubectl wait --for=condition=RollingOut=False rf/%[1]s --timeout=5m &&
  kubectl wait --for=jsonpath='{.status.conditions[?(@.type=="RollingOut")].reason}'=Complete rf/%[1]s --timeout=1s

  # what a router knows each engine to hold, in blocks
  kubectl get --raw /api/v1/namespaces/default/pods/$(kubectl get pods -l routerfleet.io/fleet=%[1]s -o jsonpath='{.items[0].metadata.name}'):9400/proxy/metrics | grep ^routerfleet_kv_blocks

  # everything the fleet says about itself
  kubectl get rf -o wide; kubectl describe rf/%[1]s

  # the fleet and all it owns
  kubectl delete rf/%[1]s

Remove everything: make demo-down`, fleetName, modelID))
}
