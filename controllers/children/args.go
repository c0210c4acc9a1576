package children

import (
	"fmt"
	"slices"
	"strings"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tokensPath is where the tokens Secret is mounted.
const tokensPath = "/etc/routerfleet/tokens"

var policyFlags = map[v1alpha1.RoutingPolicy]string{
	v1alpha1.PolicyCacheAware: "cache_aware",
	v1alpha1.PolicyPowerOfTwo: "power_of_two",
	v1alpha1.PolicyRoundRobin: "round_robin",
}

// routerArgs is the command line of a router. Every flag that a field owns is
// spelt out, also at its default: a flag beats an environment variable, so no
// envFrom can change what the spec says.
func routerArgs(namespace string, s *v1alpha1.RouterFleetSpec) ([]string, error) {
	var args []string
	add := func(flag string, value any) {
		args = append(args, "--"+flag+"="+escape(fmt.Sprint(value)))
	}
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
	if s.ModelID != "" {
		add("model-id", s.ModelID)
	}
	policy, ok := policyFlags[s.Routing.Policy]
	if !ok {
		return nil, fmt.Errorf("routing.policy %q is unknown", s.Routing.Policy)
	}
	add("policy", policy)
	add("request-timeout-secs", s.Routing.RequestTimeoutSeconds)
	add("stale-request-timeout-secs", s.Routing.StaleRequestTimeoutSeconds)
	add("cb-threshold", s.Routing.CircuitBreaker.FailureThreshold)
	add("cb-cool-down-secs", s.Routing.CircuitBreaker.CoolDownSeconds)
	add("max-concurrent-requests", valueOr(s.Routing.MaxConcurrentRequests, 0))
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
	}
	return args, nil
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
	rest := d.TerminationGracePeriodSeconds - valueOr(d.PreStopSeconds, 0)
	linger = min(lingerSeconds, rest/4)
	margin := min(killMarginSeconds, rest/4)
	drain = max(1, rest-linger-margin)
	if linger == 0 {
		linger = -1
	}
	return drain, linger
}

// escape keeps the kubelet from expanding $(NAME) in a value that is meant
// literally.
func escape(value string) string { return strings.ReplaceAll(value, "$", "$$") }

func valueOr(p *int32, unset int32) int32 {
	if p == nil {
		return unset
	}
	return *p
}
