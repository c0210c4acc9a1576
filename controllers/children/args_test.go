package children

import (
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/router/app"

	"github.com/alecthomas/kong"
	"k8s.io/utils/ptr"
)

// parse reads a rendered command line as the router does.
func parse(t testing.TB, args []string) app.Options {
	t.Helper()
	var o app.Options
	parser, err := kong.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	unescaped := make([]string, len(args))
	for i, a := range args {
		unescaped[i] = strings.ReplaceAll(a, "$$", "$") // what the kubelet does
	}
	if _, err := parser.Parse(unescaped); err != nil {
		t.Fatalf("the router refuses %q: %v", args, err)
	}
	if err := o.Validate(); err != nil {
		t.Fatalf("the router refuses %q: %v", args, err)
	}
	return o
}

func argsOf(t testing.TB, f *v1alpha1.RouterFleet) []string {
	t.Helper()
	return router(podOf(t, f)).Args
}

// The command line is a contract between two programs: the router's own parser
// decides whether it is kept.
func TestTheRouterUnderstandsItsCommandLine(t *testing.T) {
	o := parse(t, argsOf(t, readFleet(t, "testdata/production/fleet.yaml")))
	for name, same := range map[string]bool{
		"host":       o.Host == "0.0.0.0" && o.AdminHost == "0.0.0.0",
		"ports":      o.Port == int(v1alpha1.PortHTTP) && o.AdminPort == int(v1alpha1.PortAdmin),
		"tokens":     o.TokenDir == tokensPath,
		"discovery":  o.ServiceDiscovery && o.ServiceDiscoveryNamespace == "inference",
		"selector":   slices.Equal(o.Selector, []string{"!canary,app.kubernetes.io/name=sglang,tier in (gpu-a,gpu-b),zone notin (far),zone=z"}),
		"port":       o.WorkerPort == "8000",
		"static":     slices.Equal(o.Worker, []string{"reserve=http://reserve:8000"}),
		"model":      o.ModelID == "meta-llama/Llama-3.1-8B-Instruct",
		"policy":     o.Policy == "round_robin",
		"timeouts":   o.RequestTimeoutSecs == 900 && o.StaleRequestTimeoutSecs == 3600,
		"breaker":    o.CBThreshold == 7 && o.CBCoolDownSecs == 11,
		"limit":      o.MaxConcurrentRequests == 4096,
		"drain":      o.ShutdownDrainSecs == 925 && o.ShutdownLingerSecs == 5,
		"extra args": o.LogFormat == "json" && o.LogLevel == "debug",
	} {
		if !same {
			t.Errorf("%s did not arrive: %+v", name, o)
		}
	}
}

func TestStaticWorkersAndDollarsArriveAsWritten(t *testing.T) {
	o := parse(t, argsOf(t, readFleet(t, "testdata/static/fleet.yaml")))
	want := []string{"a=http://192.0.2.10:8000", "b.c=https://[2001:db8::1]:8000/base"}
	if !slices.Equal(o.Worker, want) || o.ServiceDiscovery || o.ModelID != "price-in-$(USD)" {
		t.Errorf("workers %q, discovery %v, model %q", o.Worker, o.ServiceDiscovery, o.ModelID)
	}
}

// Every value the schema allows at its ends is one the router allows.
func TestTheRouterTakesWhatTheSchemaAllows(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.RouterFleet){
		"defaults": func(*v1alpha1.RouterFleet) {},
		"longest": func(f *v1alpha1.RouterFleet) {
			f.Spec.Routing.RequestTimeoutSeconds, f.Spec.Routing.StaleRequestTimeoutSeconds = 86400, 172800
			f.Spec.Drain = v1alpha1.DrainSpec{PreStopSeconds: ptr.To[int32](0), TerminationGracePeriodSeconds: 86400}
			f.Spec.Routing.CircuitBreaker = v1alpha1.CircuitBreakerSpec{FailureThreshold: 1000, CoolDownSeconds: 3600}
			f.Spec.Routing.MaxConcurrentRequests = ptr.To[int32](1000000)
		},
		"shortest": func(f *v1alpha1.RouterFleet) {
			f.Spec.Routing.RequestTimeoutSeconds, f.Spec.Routing.StaleRequestTimeoutSeconds = 1, 1
			f.Spec.Drain = v1alpha1.DrainSpec{PreStopSeconds: ptr.To[int32](0), TerminationGracePeriodSeconds: 1}
			f.Spec.Routing.CircuitBreaker = v1alpha1.CircuitBreakerSpec{FailureThreshold: 1, CoolDownSeconds: 1}
			f.Spec.Routing.MaxConcurrentRequests = ptr.To[int32](1)
		},
	} {
		t.Run(name, func(t *testing.T) { parse(t, argsOf(t, fleet(change))) })
	}
}

// A flag the operator renders must not be settable by extraArgs: the last one
// would win. The schema's list is tested with the schema; this compares the two.
func TestEveryRenderedFlagIsOwned(t *testing.T) {
	production := readFleet(t, "testdata/production/fleet.yaml")
	production.Spec.Routing.ExtraArgs = nil
	for _, arg := range argsOf(t, production) {
		flag, _, _ := strings.Cut(strings.Replace(arg, "--no-", "--", 1), "=")
		if !slices.ContainsFunc(ownedFlags, func(prefix string) bool { return strings.HasPrefix(flag, prefix) }) {
			t.Errorf("%s is rendered and not denied in extraArgs", flag)
		}
	}
}

// ownedFlags repeats the schema's denylist; api/v1alpha1 tests each of them.
var ownedFlags = []string{
	"--kv-", "--admin-", "--hash-seed-file", "--host", "--port", "--selector", "--service-discovery", "--token-dir",
	"--worker", "--shutdown-", "--model-id", "--policy", "--request-timeout-secs", "--stale-request-timeout-secs",
	"--cb-", "--max-concurrent-requests", "--kubeconfig", "--pod-uid", "--revision",
	"--host-tier-percent", "--disk-tier-percent", "--untrusted-percent", "--pile-up-tokens", "--predict-ttl-secs",
	"--prefill-scale-percent", "--decode-weight-percent", "--index-", "--match",
}
