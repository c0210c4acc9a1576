package children

import (
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/router/app"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

// parse reads a rendered command line as the router does.
func parse(t testing.TB, args []string) app.Options {
	t.Helper()
	var o app.Options
	parser, err := kong.New(&o, app.Grammar()...)
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
		"host":      o.Host == "0.0.0.0" && o.AdminHost == "0.0.0.0",
		"ports":     o.Port == int(v1alpha1.PortHTTP) && o.AdminPort == int(v1alpha1.PortAdmin),
		"tokens":    o.TokenDir == tokensPath,
		"discovery": o.ServiceDiscovery && o.ServiceDiscoveryNamespace == "inference",
		"selector":  slices.Equal(o.Selector, []string{"!canary,app.kubernetes.io/name=sglang,tier in (gpu-a,gpu-b),zone notin (far),zone=z"}),
		"port":      o.WorkerPort == "8000",
		"static":    slices.Equal(o.Worker, []string{"reserve=http://reserve:8000"}),
		"model":     o.ModelID == "meta-llama/Llama-3.1-8B-Instruct",
		"events": *o.KVEvents && o.KVEventsPort == 5600 && o.KVEventsTopic == "kv" && o.KVEventsBlockSize == 16 &&
			o.KVEventsDPSize == 2 && o.KVEventsReplayPort == 5700,
		"hash":   o.KVEventsHashAlgorithm == "sha256_cbor" && o.KVEventsHashSeed == "42",
		"seed":   o.HashSeedFile == "/etc/routerfleet/tokens/hash-seed",
		"policy": o.Policy == "cache_aware",
		"weights": *o.HostTierPercent == 70 && *o.DiskTierPercent == 0 && *o.UntrustedPercent == 40 && *o.PileUpTokens == 20000 &&
			*o.PredictTTLSecs == 0 && *o.PrefillScalePercent == 90 && *o.DecodeWeightPercent == 10,
		"index":      o.IndexMaxBlocks == 8000000 && o.Match == "contiguous" && !o.AllowForeignHosts,
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

// A router asks where there is something to be told, and nowhere else.
func TestRoutersAskSiblingsForWhatTheEnginesTold(t *testing.T) {
	asked := func(changes ...func(*v1alpha1.RouterFleet)) app.PeerOptions {
		return parse(t, argsOf(t, fleet(changes...))).PeerOptions
	}
	got := asked()
	if want := "kubernetes.io/service-name=" + PeerServiceName(fleet().Name); got.KVPeerSelector != want {
		t.Errorf("siblings are found by %q, want %q", got.KVPeerSelector, want)
	}
	if got.KVBootstrapTimeoutMS != 60_000 || got.KVBootstrapFetchTimeoutCapMS != 120_000 || got.KVBootstrapSeedRequired || got.KVUpstreamPeerSelector != "" {
		t.Errorf("by default: %+v", got)
	}
	got = asked(func(f *v1alpha1.RouterFleet) {
		f.Spec.Bootstrap = v1alpha1.BootstrapSpec{
			SeedPolicy: v1alpha1.SeedRequired, TimeoutSeconds: 600, FetchTimeoutSeconds: 30,
			UpstreamPeers: v1alpha1.UpstreamPeersSpec{ServiceName: "sgl-router", PortName: "metrics"},
		}
	})
	if got.KVBootstrapTimeoutMS != 600_000 || got.KVBootstrapFetchTimeoutCapMS != 30_000 || !got.KVBootstrapSeedRequired ||
		got.KVUpstreamPeerSelector != "kubernetes.io/service-name=sgl-router" || got.KVUpstreamPeerPort != "metrics" {
		t.Errorf("as the spec says: %+v", got)
	}
	for name, change := range map[string]func(*v1alpha1.RouterFleet){
		"bootstrap is disabled": func(f *v1alpha1.RouterFleet) { f.Spec.Bootstrap.Mode = v1alpha1.BootstrapDisabled },
		"no index is kept":      func(f *v1alpha1.RouterFleet) { f.Spec.Routing.Policy = v1alpha1.PolicyRoundRobin },
		"events are not read":   func(f *v1alpha1.RouterFleet) { f.Spec.Workers.KVEvents.Mode = v1alpha1.KVEventsDisabled },
	} {
		t.Setenv("ROUTER_KV_PEER_SELECTOR", "kubernetes.io/service-name=other")
		if got := asked(change); got.KVPeerSelector != "" || got.KVUpstreamPeerSelector != "" {
			t.Errorf("%s, and siblings are asked: %+v", name, got)
		}
	}
}

func TestStaticWorkersAndDollarsArriveAsWritten(t *testing.T) {
	o := parse(t, argsOf(t, readFleet(t, "testdata/static/fleet.yaml")))
	want := []string{"a=http://192.0.2.10:8000", "b.c=https://[2001:db8::1]:8000/base"}
	if !slices.Equal(o.Worker, want) || o.ServiceDiscovery || o.ModelID != "price-in-$(USD)" || o.KVEventsTopic != "$(TOPIC)" {
		t.Errorf("workers %q, discovery %v, model %q, topic %q", o.Worker, o.ServiceDiscovery, o.ModelID, o.KVEventsTopic)
	}
	if *o.KVEvents {
		t.Error("events are Disabled in the spec and read by the router")
	}
}

// Every value of an enum has a word of the router's.
func TestTheRouterKnowsEveryPolicyAndMatch(t *testing.T) {
	for _, policy := range []v1alpha1.RoutingPolicy{v1alpha1.PolicyCacheAware, v1alpha1.PolicyPowerOfTwo, v1alpha1.PolicyRoundRobin} {
		for _, match := range []v1alpha1.IndexMatch{v1alpha1.MatchDeepest, v1alpha1.MatchContiguous} {
			parse(t, argsOf(t, fleet(func(f *v1alpha1.RouterFleet) { f.Spec.Routing.Policy, f.Spec.Index.Match = policy, match })))
		}
	}
}

// A fleet that says nothing of events leaves nothing to the environment: each flag
// is there and has the router's own default.
func TestWhatASpecDoesNotSayTheEnvironmentDoesNotEither(t *testing.T) {
	args := argsOf(t, fleet())
	for variable, value := range map[string]string{
		"ROUTER_KV_EVENTS": "false", "ROUTER_KV_EVENTS_PORT": "6000", "ROUTER_KV_EVENTS_TOPIC": "x", "ROUTER_KV_EVENTS_BLOCK_SIZE": "7",
		"ROUTER_KV_EVENTS_DP_SIZE": "7", "ROUTER_KV_EVENTS_REPLAY_PORT": "6001", "ROUTER_KV_EVENTS_HASH_ALGORITHM": "sha256_cbor",
		"ROUTER_KV_EVENTS_HASH_SEED": "7", "ROUTER_HASH_SEED_FILE": "/x", "ROUTER_MATCH": "contiguous", "ROUTER_INDEX_MAX_BLOCKS": "7",
		"ROUTER_HOST_TIER_PERCENT": "7", "ROUTER_DISK_TIER_PERCENT": "7", "ROUTER_UNTRUSTED_PERCENT": "7", "ROUTER_PILE_UP_TOKENS": "7",
		"ROUTER_PREDICT_TTL_SECS": "7", "ROUTER_PREFILL_SCALE_PERCENT": "7", "ROUTER_DECODE_WEIGHT_PERCENT": "7", "ROUTER_POLICY": "round_robin",
	} {
		t.Setenv(variable, value)
	}
	got := parse(t, args)
	want := app.KVOptions{HashSeedFile: "/etc/routerfleet/tokens/hash-seed", Match: "deepest", KVEventsPort: 5557}
	for into, value := range map[**int]int{
		&want.HostTierPercent: 75, &want.DiskTierPercent: 25, &want.UntrustedPercent: 50, &want.PileUpTokens: 16384,
		&want.PredictTTLSecs: 5, &want.PrefillScalePercent: 100, &want.DecodeWeightPercent: 0,
	} {
		*into = &value
	}
	want.KVEvents = ptr.To(true)
	if diff := cmp.Diff(want, got.KVOptions); diff != "" || got.Policy != "cache_aware" {
		t.Errorf("policy %s; the router hears something else than the spec's defaults (-want +got):\n%s", got.Policy, diff)
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
			f.Spec.Routing.CacheAware = weights(100, 1000000000, 600, 10000)
			f.Spec.Workers.KVEvents = v1alpha1.KVEventsSpec{
				Mode: v1alpha1.KVEventsEnabled, Port: 65024, ReplayPort: 65280, Topic: strings.Repeat("~", 256),
				BlockSize: 65536, DPSize: 256, Hash: v1alpha1.KVEventsHash{Algorithm: v1alpha1.HashSHA256CBOR, Seed: "4294967295"},
			}
			f.Spec.Index.MaxBlocks = 10000000000
		},
		"shortest": func(f *v1alpha1.RouterFleet) {
			f.Spec.Routing.RequestTimeoutSeconds, f.Spec.Routing.StaleRequestTimeoutSeconds = 1, 1
			f.Spec.Drain = v1alpha1.DrainSpec{PreStopSeconds: ptr.To[int32](0), TerminationGracePeriodSeconds: 1}
			f.Spec.Routing.CircuitBreaker = v1alpha1.CircuitBreakerSpec{FailureThreshold: 1, CoolDownSeconds: 1}
			f.Spec.Routing.MaxConcurrentRequests = ptr.To[int32](1)
			f.Spec.Routing.CacheAware = weights(0, 0, 0, 0)
			f.Spec.Workers.KVEvents = v1alpha1.KVEventsSpec{
				Mode: v1alpha1.KVEventsDisabled, Port: 1024, ReplayPort: 1025, Topic: " ", BlockSize: 1, DPSize: 1,
				Hash: v1alpha1.KVEventsHash{Algorithm: v1alpha1.HashSHA256CBOR, Seed: "0"},
			}
			f.Spec.Index.MaxBlocks = 1
		},
	} {
		t.Run(name, func(t *testing.T) { parse(t, argsOf(t, fleet(change))) })
	}
}

func weights(percent, tokens, seconds, weight int32) v1alpha1.CacheAwareSpec {
	return v1alpha1.CacheAwareSpec{
		HostTierPercent: &percent, DiskTierPercent: &percent, UntrustedPercent: &percent,
		PileUpTokens: &tokens, PredictTTLSeconds: &seconds, PrefillScalePercent: &weight, DecodeWeightPercent: &weight,
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
