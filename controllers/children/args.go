package children

import (
	"fmt"
	"slices"
	"strings"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// tokensPath is where the tokens Secret is mounted.
const tokensPath = "/etc/routerfleet/tokens"

var policyFlags = map[v1alpha1.RoutingPolicy]string{
	v1alpha1.PolicyCacheAware: "cache_aware",
	v1alpha1.PolicyPowerOfTwo: "power_of_two",
	v1alpha1.PolicyRoundRobin: "round_robin",
}

var matchFlags = map[v1alpha1.IndexMatch]string{
	v1alpha1.MatchDeepest:    "deepest",
	v1alpha1.MatchContiguous: "contiguous",
}

// routerArgs is the command line of a router. Every flag that a field owns is
// spelt out, also at its default: a flag beats an environment variable, so no
// envFrom can change what the spec says.
func routerArgs(namespace, fleet string, s *v1alpha1.RouterFleetSpec) ([]string, error) {
	var args []string
	add := func(name string, value any) { args = append(args, argument(name, value)) }
	add("host", "0.0.0.0")
	add("port", v1alpha1.PortHTTP)
	add("admin-host", "0.0.0.0")
	add("admin-port", v1alpha1.PortAdmin)
	add("token-dir", tokensPath)
	workers, err := workerArgs(namespace, s)
	if err != nil {
		return nil, err
	}
	args = append(args, workers...)
	args = append(args, kvEventArgs(&s.Workers.KVEvents)...)
	if s.ModelID != "" {
		add("model-id", s.ModelID)
	}
	if len(s.Models) > 0 {
		add("models-file", modelsPath+"/"+modelsKey)
	}
	policy, ok := policyFlags[s.Routing.Policy]
	if !ok {
		return nil, fmt.Errorf("routing.policy %q is unknown", s.Routing.Policy)
	}
	add("policy", policy)
	args = append(args, cacheAwareArgs(&s.Routing.CacheAware)...)
	index, err := indexArgs(&s.Index)
	if err != nil {
		return nil, err
	}
	args = append(args, index...)
	args = append(args, bootstrapArgs(fleet, s)...)
	add("request-timeout-secs", s.Routing.RequestTimeoutSeconds)
	add("stale-request-timeout-secs", s.Routing.StaleRequestTimeoutSeconds)
	add("cb-threshold", s.Routing.CircuitBreaker.FailureThreshold)
	add("cb-cool-down-secs", s.Routing.CircuitBreaker.CoolDownSeconds)
	add("max-concurrent-requests", ptr.Deref(s.Routing.MaxConcurrentRequests, 0))
	drain, linger := drainBudget(&s.Drain)
	add("shutdown-drain-secs", drain)
	add("shutdown-linger-secs", linger)
	return append(args, s.Routing.ExtraArgs...), nil
}

// workerArgs are the flags that find workers.
func workerArgs(namespace string, s *v1alpha1.RouterFleetSpec) ([]string, error) {
	var args []string
	if s.Workers.Plain != nil {
		selector, err := selectorText(&s.Workers.Plain.Selector)
		if err != nil {
			return nil, fmt.Errorf("workers.plain.selector: %w", err)
		}
		args = append(args,
			"--service-discovery",
			"--service-discovery-namespace="+namespace,
			"--selector="+selector,
			"--worker-port="+escape(s.Workers.Port.String()))
	}
	for _, w := range s.Workers.Static {
		args = append(args, "--worker="+w.ID+"="+escape(w.URL))
		if len(w.Labels) > 0 {
			args = append(args, "--worker-labels="+w.ID+"="+labels.Set(plain(w.Labels)).String())
		}
	}
	return args, nil
}

// kvEventArgs are the flags for what engines do not say of their event streams. The
// seed of the fleet's own keys is a secret and reaches the router as a file; that
// of the engines' hashes is none.
func kvEventArgs(e *v1alpha1.KVEventsSpec) []string {
	switched := "--kv-events"
	if e.Mode == v1alpha1.KVEventsDisabled {
		switched = "--no-kv-events"
	}
	return []string{
		switched,
		argument("kv-events-port", e.Port),
		argument("kv-events-topic", e.Topic),
		argument("kv-events-block-size", e.BlockSize),
		argument("kv-events-dp-size", e.DPSize),
		argument("kv-events-replay-port", e.ReplayPort),
		argument("kv-events-hash-algorithm", e.Hash.Algorithm),
		argument("kv-events-hash-seed", e.Hash.Seed),
		argument("hash-seed-file", tokensPath+"/"+HashSeed),
	}
}

// cacheAwareArgs are the weights of cache_aware, where zero is a value.
func cacheAwareArgs(c *v1alpha1.CacheAwareSpec) []string {
	return []string{
		argument("host-tier-percent", ptr.Deref(c.HostTierPercent, 0)),
		argument("disk-tier-percent", ptr.Deref(c.DiskTierPercent, 0)),
		argument("untrusted-percent", ptr.Deref(c.UntrustedPercent, 0)),
		argument("pile-up-tokens", ptr.Deref(c.PileUpTokens, 0)),
		argument("predict-ttl-secs", ptr.Deref(c.PredictTTLSeconds, 0)),
		argument("prefill-scale-percent", ptr.Deref(c.PrefillScalePercent, 0)),
		argument("decode-weight-percent", ptr.Deref(c.DecodeWeightPercent, 0)),
	}
}

// bootstrapArgs are the flags of what routers tell each other. Without events there is nothing to tell.
func bootstrapArgs(fleet string, s *v1alpha1.RouterFleetSpec) []string {
	b := &s.Bootstrap
	var siblings, upstream string
	port := "http"
	if b.Mode == v1alpha1.BootstrapPeer && s.Routing.Policy == v1alpha1.PolicyCacheAware && s.Workers.KVEvents.Mode == v1alpha1.KVEventsEnabled {
		siblings = serviceSelector(PeerServiceName(fleet))
		if u := b.UpstreamPeers; u.ServiceName != "" {
			upstream, port = serviceSelector(u.ServiceName), u.PortName
		}
	}
	return []string{
		argument("kv-peer-selector", siblings),
		argument("kv-bootstrap-timeout-ms", 1000*b.TimeoutSeconds),
		argument("kv-bootstrap-fetch-timeout-cap-ms", 1000*b.FetchTimeoutSeconds),
		argument("kv-bootstrap-seed-required", b.SeedPolicy == v1alpha1.SeedRequired),
		argument("kv-upstream-peer-selector", upstream),
		argument("kv-upstream-peer-port", port),
	}
}

// serviceSelector finds the EndpointSlices of a Service.
func serviceSelector(service string) string { return discoveryv1.LabelServiceName + "=" + service }

// indexArgs bound and read the index. No bound is 0, which the router derives from
// its memory limit.
func indexArgs(x *v1alpha1.IndexSpec) ([]string, error) {
	match, ok := matchFlags[x.Match]
	if !ok {
		return nil, fmt.Errorf("index.match %q is unknown", x.Match)
	}
	return []string{argument("index-max-blocks", x.MaxBlocks), argument("match", match)}, nil
}

// selectorText is the selector in the grammar of labels, its requirements
// sorted. The API server does not check operators and keys inside a custom
// resource, so an invalid one is found here.
func selectorText(s *metav1.LabelSelector) (string, error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "", err
	}
	requirements, selectable := selector.Requirements()
	if !selectable || len(requirements) == 0 {
		return "", fmt.Errorf("selects nothing or everything; name at least one label")
	}
	var texts []string
	for _, r := range requirements {
		texts = append(texts, r.String())
	}
	slices.Sort(texts)
	return strings.Join(texts, ","), nil
}

const (
	// lingerSeconds is how long a router that stops goes on accepting, for
	// clients whose load balancer has not heard yet.
	lingerSeconds = 5
	// killMarginSeconds is kept between the end of the drain and the kill.
	killMarginSeconds = 15
)

// drainBudget divides what the grace period leaves after the preStop sleep. At
// the defaults, 630 - 10, streams get 600 s. Short graces shrink linger and
// margin to a quarter each, and streams get at least a second. The router reads 0
// as its default, so no linger is -1.
func drainBudget(d *v1alpha1.DrainSpec) (drain, linger int32) {
	rest := d.TerminationGracePeriodSeconds - ptr.Deref(d.PreStopSeconds, 0)
	linger = min(lingerSeconds, rest/4)
	margin := min(killMarginSeconds, rest/4)
	drain = max(1, rest-linger-margin)
	if linger == 0 {
		linger = -1
	}
	return drain, linger
}

// argument is one flag with its value; escaped, because that is meant literally.
func argument(name string, value any) string { return "--" + name + "=" + escape(fmt.Sprint(value)) }

// escape keeps the kubelet from expanding $(NAME) in a value that is meant
// literally.
func escape(value string) string { return strings.ReplaceAll(value, "$", "$$") }
