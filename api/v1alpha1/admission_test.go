//go:build envtest

package v1alpha1_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// The API server of this package's tests, and a client for it.
var (
	restConfig *rest.Config
	api        client.Client
)

func TestMain(m *testing.M) { os.Exit(runWithAPIServer(m)) }

func runWithAPIServer(m *testing.M) int {
	environment := &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd/bases"}, ErrorIfCRDPathMissing: true}
	fail := func(doing string, err error) int {
		fmt.Fprintf(os.Stderr, "%s: %v (KUBEBUILDER_ASSETS must name a directory with etcd and kube-apiserver; bin/cluster build makes bin/kube)\n", doing, err)
		return 1
	}
	var err error
	if restConfig, err = environment.Start(); err != nil {
		return fail("start API server", err)
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop API server:", err)
		}
	}()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fail("build scheme", err)
		}
	}
	if api, err = client.New(restConfig, client.Options{Scheme: scheme}); err != nil {
		return fail("create client", err)
	}
	return m.Run()
}

// minimal is the smallest fleet the API accepts.
func minimal(name string) *v1alpha1.RouterFleet {
	return &v1alpha1.RouterFleet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1alpha1.RouterFleetSpec{
			Image: "router:1",
			Workers: v1alpha1.WorkersSpec{Plain: &v1alpha1.PlainDiscovery{
				Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "engine"}},
			}},
		},
	}
}

// rule is one CEL rule with a neighbour on each side of its border.
type rule struct {
	// message is how the rule's message begins.
	message string
	accept  func(*v1alpha1.RouterFleet)
	reject  func(*v1alpha1.RouterFleet)
}

var rules = []rule{
	{
		message: "metadata.name must be at most 40 characters",
		accept:  func(f *v1alpha1.RouterFleet) { f.Name = strings.Repeat("a", 40) },
		reject:  func(f *v1alpha1.RouterFleet) { f.Name = strings.Repeat("a", 41) },
	}, {
		message: "metadata.name becomes a Service name",
		accept:  func(f *v1alpha1.RouterFleet) { f.Name = "a-1" },
		reject:  func(f *v1alpha1.RouterFleet) { f.Name = "1-a" },
	}, {
		message: "metadata.name must not end in '-peers'",
		accept:  func(f *v1alpha1.RouterFleet) { f.Name = "peers" },
		reject:  func(f *v1alpha1.RouterFleet) { f.Name = "a-peers" },
	}, {
		message: "plain is required when discovery is Plain",
		accept:  func(*v1alpha1.RouterFleet) {},
		reject: func(f *v1alpha1.RouterFleet) {
			f.Spec.Workers = v1alpha1.WorkersSpec{Discovery: v1alpha1.DiscoveryPlain}
		},
	}, {
		message: "plain must not be set unless discovery is Plain",
		accept: func(f *v1alpha1.RouterFleet) {
			f.Spec.Workers = staticWorkers("http://10.0.0.1:8000")
		},
		reject: func(f *v1alpha1.RouterFleet) {
			plain := f.Spec.Workers.Plain
			f.Spec.Workers = staticWorkers("http://10.0.0.1:8000")
			f.Spec.Workers.Plain = plain
		},
	}, {
		message: "static needs at least one worker",
		accept:  func(f *v1alpha1.RouterFleet) { f.Spec.Workers.Static = staticWorkers("http://a").Static },
		reject: func(f *v1alpha1.RouterFleet) {
			f.Spec.Workers = v1alpha1.WorkersSpec{Discovery: v1alpha1.DiscoveryStatic}
		},
	}, {
		message: "selector must not be empty",
		accept: func(f *v1alpha1.RouterFleet) {
			f.Spec.Workers.Plain.Selector = metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}},
			}
		},
		reject: func(f *v1alpha1.RouterFleet) {
			f.Spec.Workers.Plain.Selector = metav1.LabelSelector{MatchLabels: map[string]string{}}
		},
	}, {
		message: "port must be 1 to 65535 or a port name",
		accept:  func(f *v1alpha1.RouterFleet) { f.Spec.Workers.Port = intstr.FromInt32(65535) },
		reject:  func(f *v1alpha1.RouterFleet) { f.Spec.Workers.Port = intstr.FromInt32(65536) },
	}, {
		message: "url must be http(s)://host",
		accept:  func(f *v1alpha1.RouterFleet) { f.Spec.Workers.Static = staticWorkers("https://[::1]:8000/v").Static },
		reject:  func(f *v1alpha1.RouterFleet) { f.Spec.Workers.Static = staticWorkers("http://user:pw@a").Static },
	}, {
		message: "staleRequestTimeoutSeconds must be at least",
		accept:  func(f *v1alpha1.RouterFleet) { f.Spec.Routing.RequestTimeoutSeconds = 1800 },
		reject:  func(f *v1alpha1.RouterFleet) { f.Spec.Routing.RequestTimeoutSeconds = 1801 },
	}, {
		message: "each of extraArgs must be one --flag",
		accept:  extraArgs("--log-level=debug", "--verbose"),
		reject:  extraArgs("--log-level", "debug"),
	}, {
		message: "extraArgs must not set a flag",
		accept:  extraArgs("--max-body-bytes=1", "--stream-idle-timeout-secs=9", "--log-format=json", "--allow-foreign-event-hosts"),
		reject:  extraArgs("--port=1"),
	}, {
		message: "progressDeadlineSeconds must exceed minReadySeconds",
		accept:  func(f *v1alpha1.RouterFleet) { f.Spec.Rollout.ProgressDeadlineSeconds = 11 },
		reject:  func(f *v1alpha1.RouterFleet) { f.Spec.Rollout.ProgressDeadlineSeconds = 10 },
	}, {
		message: "service ports must be unique",
		accept:  servicePorts(80, 81),
		reject:  servicePorts(80, 80),
	}, {
		message: "keys are at most 317",
		accept:  serviceAnnotation(strings.Repeat("k", 317), "v"),
		reject:  serviceAnnotation(strings.Repeat("k", 318), "v"),
	}, {
		message: "annotations must not use the reserved prefix",
		accept:  serviceAnnotation("example.com/routerfleet.io", "v"),
		reject:  serviceAnnotation("routerfleet.io/a", "v"),
	}, {
		message: "labels must not use the reserved prefix",
		accept:  serviceLabel("app", "x"),
		reject:  serviceLabel("app.kubernetes.io/instance", "x"),
	}, {
		message: "terminationGracePeriodSeconds must exceed preStopSeconds",
		accept:  func(f *v1alpha1.RouterFleet) { f.Spec.Drain.TerminationGracePeriodSeconds = 11 },
		reject:  func(f *v1alpha1.RouterFleet) { f.Spec.Drain.TerminationGracePeriodSeconds = 10 },
	}, {
		message: "env must not set POD_NAME",
		accept:  env("MY_POD_NAME"),
		reject:  env("ROUTERFLEET_SLOT"),
	}, {
		message: "volume names must not use the reserved prefix",
		accept:  volume("my-routerfleet-volume"),
		reject:  volume("routerfleet-tokens"),
	}, {
		message: "volumeMounts must not touch /etc/routerfleet",
		accept:  mount("/etc/routerfleets"),
		reject:  mount("/etc/routerfleet/tokens"),
	}, {
		message: "port leaves no room for dpSize ranks",
		accept:  kvEvents(v1alpha1.KVEventsSpec{Port: 65535 - 255, DPSize: 256}),
		reject:  kvEvents(v1alpha1.KVEventsSpec{Port: 65535 - 254, DPSize: 256}),
	}, {
		message: "replayPort leaves no room for dpSize ranks",
		accept:  kvEvents(v1alpha1.KVEventsSpec{ReplayPort: 65534, DPSize: 2}),
		reject:  kvEvents(v1alpha1.KVEventsSpec{ReplayPort: 65535, DPSize: 2}),
	}, {
		message: "replayPort and port overlap",
		accept:  kvEvents(v1alpha1.KVEventsSpec{Port: 5557, ReplayPort: 5561, DPSize: 4}),
		reject:  kvEvents(v1alpha1.KVEventsSpec{Port: 5557, ReplayPort: 5560, DPSize: 4}),
	}, {
		message: "algorithm and seed belong together",
		accept:  kvHash(v1alpha1.HashSHA256CBOR, "42"),
		reject:  kvHash("", "42"),
	},
}

func TestAnAlgorithmWithoutASeedIsRefusedToo(t *testing.T) {
	f := minimal("hash")
	kvHash(v1alpha1.HashSHA256CBOR, "")(f)
	if err := tryCreate(f); err == nil || !strings.Contains(err.Error(), "algorithm and seed belong together") {
		t.Errorf("got %v, want a rejection", err)
	}
}

// The same from the other side, at the default port, and with one rank, which
// nobody has to spell out.
func TestReplayMayBeOnEitherSideOfTheEvents(t *testing.T) {
	for replayPort, fits := range map[int32]bool{5555: true, 5556: true, 5557: false, 5558: true} {
		f := minimal("replay")
		kvEvents(v1alpha1.KVEventsSpec{ReplayPort: replayPort})(f)
		if err := tryCreate(f); (err == nil) != fits {
			t.Errorf("one rank, replay on %d beside events on 5557: %v, want accepted %v", replayPort, err, fits)
		}
	}
	for replayPort, fits := range map[int32]bool{5554: false, 5553: true} {
		f := minimal("replay")
		kvEvents(v1alpha1.KVEventsSpec{Port: 5557, DPSize: 4, ReplayPort: replayPort})(f)
		if err := tryCreate(f); (err == nil) != fits {
			t.Errorf("four ranks, replay on %d beside events on 5557: %v, want accepted %v", replayPort, err, fits)
		}
	}
}

func TestEveryRuleAcceptsOneSideOfItsBorderAndRejectsTheOther(t *testing.T) {
	for _, r := range slices.Concat(rules, modelRules, bootstrapRules) {
		t.Run(r.message, func(t *testing.T) {
			good := minimal("rule")
			r.accept(good)
			if err := tryCreate(good); err != nil {
				t.Errorf("rejected though it is allowed: %v", err)
			}
			bad := minimal("rule")
			r.reject(bad)
			if err := tryCreate(bad); err == nil || !strings.Contains(err.Error(), r.message) {
				t.Errorf("got %v, want a rejection that says %q", err, r.message)
			}
		})
	}
}

// A rule that nobody tests is a rule nobody knows.
func TestEveryRuleOfTheSchemaIsInTheTable(t *testing.T) {
	var missing []string
	eachRule(readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema, func(v apiextensionsv1.ValidationRule) {
		if !slices.ContainsFunc(slices.Concat(rules, modelRules, bootstrapRules), func(r rule) bool { return strings.HasPrefix(v.Message, r.message) }) {
			missing = append(missing, v.Message)
		}
	})
	if len(missing) > 0 {
		t.Errorf("rules without a test:\n%s", strings.Join(missing, "\n"))
	}
}

func eachRule(s *apiextensionsv1.JSONSchemaProps, visit func(apiextensionsv1.ValidationRule)) {
	for _, v := range s.XValidations {
		visit(v)
	}
	for _, p := range s.Properties {
		eachRule(&p, visit)
	}
	if s.Items != nil && s.Items.Schema != nil {
		eachRule(s.Items.Schema, visit)
	}
}

// Every flag that a field or the operator owns, in the spellings a user may try.
func TestExtraArgsCannotSetOwnedFlags(t *testing.T) {
	for _, flag := range []string{
		"--host=::", "--port=1", "--admin-host=a", "--admin-port=1", "--token-dir=/tmp",
		"--selector=a=b", "--service-discovery", "--no-service-discovery", "--service-discovery-namespace=x",
		"--worker=http://a", "--worker-urls=http://a", "--worker-port=1", "--worker-api-key-file=/a",
		"--shutdown-drain-secs=1", "--shutdown-linger-secs=1", "--model-id=m", "--models-file=/m", "--worker-labels=a=b=c", "--policy=round_robin",
		"--request-timeout-secs=1", "--stale-request-timeout-secs=1", "--cb-threshold=1", "--cb-cool-down-secs=1",
		"--max-concurrent-requests=1", "--kubeconfig=/a", "--hash-seed-file=/a", "--pod-uid=x", "--revision=x",
		"--kv-events", "--no-kv-events", "--kv-events-port=1", "--kv-events-topic=a", "--kv-events-block-size=1",
		"--kv-events-dp-size=1", "--kv-events-replay-port=1", "--kv-events-hash-algorithm=sha256_cbor", "--kv-events-hash-seed=1",
		"--host-tier-percent=1", "--disk-tier-percent=1", "--untrusted-percent=1", "--pile-up-tokens=1", "--predict-ttl-secs=1",
		"--prefill-scale-percent=1", "--decode-weight-percent=1", "--index-max-blocks=1", "--match=contiguous",
		"--kv-peer-selector=a", "--kv-bootstrap-mode=x", "--kv-upstream-peer-selector=a", "--kv-snapshot-dir=/a",
	} {
		f := minimal("args")
		extraArgs(flag)(f)
		if err := tryCreate(f); err == nil || !strings.Contains(err.Error(), "extraArgs must not set") {
			t.Errorf("%s: got %v, want a rejection", flag, err)
		}
	}
}

// Case 20: names that would not fit the children are refused at admission, with
// the limit in the message.
func TestNamesThatDoNotFitChildrenAreRefusedWithTheLimit(t *testing.T) {
	for _, name := range []string{
		strings.Repeat("a", 63), strings.Repeat("a", 60) + ".bc", strings.Repeat("a", 253),
		"1starts-with-a-digit", "has.a.dot",
	} {
		err := tryCreate(minimal(name))
		if err == nil || !strings.Contains(err.Error(), "at most 40 characters") {
			t.Errorf("name of %d characters %.20q: got %v, want the limit of 40 in the rejection", len(name), name, err)
		}
	}
	if err := tryCreate(minimal("ends-in-a")); err != nil {
		t.Errorf("ends-in-a: %v", err)
	}
}

func TestRequiredAndBoundedFieldsAreChecked(t *testing.T) {
	for path, spoil := range map[string]func(*v1alpha1.RouterFleet){
		"spec.image":                func(f *v1alpha1.RouterFleet) { f.Spec.Image = "" },
		"spec.workers":              func(f *v1alpha1.RouterFleet) { f.Spec.Workers = v1alpha1.WorkersSpec{} },
		"spec.replicas":             func(f *v1alpha1.RouterFleet) { f.Spec.Replicas = ptr.To[int32](1001) },
		"spec.routing.policy":       func(f *v1alpha1.RouterFleet) { f.Spec.Routing.Policy = "Random" },
		"spec.workers.discovery":    func(f *v1alpha1.RouterFleet) { f.Spec.Workers.Discovery = "Guess" },
		"spec.service.type":         func(f *v1alpha1.RouterFleet) { f.Spec.Service.Type = corev1.ServiceTypeExternalName },
		"spec.rollout.state":        func(f *v1alpha1.RouterFleet) { f.Spec.Rollout.State = "Stopped" },
		"spec.rollout.restartToken": func(f *v1alpha1.RouterFleet) { f.Spec.Rollout.RestartToken = strings.Repeat("x", 64) },
		"spec.workers.static[0].id": func(f *v1alpha1.RouterFleet) {
			f.Spec.Workers.Static = []v1alpha1.StaticWorker{{ID: "A", URL: "http://a"}}
		},
		"spec.drain.preStopSeconds":   func(f *v1alpha1.RouterFleet) { f.Spec.Drain.PreStopSeconds = ptr.To[int32](-1) },
		"spec.routing.circuitBreaker": func(f *v1alpha1.RouterFleet) { f.Spec.Routing.CircuitBreaker.FailureThreshold = -1 },
		"spec.podTemplate.metadata": func(f *v1alpha1.RouterFleet) {
			f.Spec.PodTemplate.Metadata.Labels = map[string]v1alpha1.LabelValue{v1alpha1.LabelSlot: "1"}
		},
		"spec.podTemplate.env":                         func(f *v1alpha1.RouterFleet) { f.Spec.PodTemplate.Env = make([]corev1.EnvVar, 65) },
		"spec.routing.extraArgs":                       func(f *v1alpha1.RouterFleet) { f.Spec.Routing.ExtraArgs = slices.Repeat([]string{"--a"}, 33) },
		"spec.service.ports":                           servicePorts(1, 2, 3, 4, 5, 6, 7, 8, 9),
		"spec.workers.static[0].url":                   func(f *v1alpha1.RouterFleet) { f.Spec.Workers.Static = staticWorkers("ftp://a").Static },
		"spec.workers.port":                            func(f *v1alpha1.RouterFleet) { f.Spec.Workers.Port = intstr.FromString("8000") },
		"spec.service.labels.a":                        serviceLabel("a", strings.Repeat("v", 64)),
		"spec.service.labels.b":                        serviceLabel("b", "-"),
		"spec.service.annotations.a":                   serviceAnnotation("a", strings.Repeat("v", 4097)),
		"spec.imagePullPolicy":                         func(f *v1alpha1.RouterFleet) { f.Spec.ImagePullPolicy = "Sometimes" },
		"spec.workers.kvEvents.mode":                   kvEvents(v1alpha1.KVEventsSpec{Mode: "Maybe"}),
		"spec.workers.kvEvents.port":                   kvEvents(v1alpha1.KVEventsSpec{Port: 1023}),
		"spec.workers.kvEvents.port: Invalid value: 6": kvEvents(v1alpha1.KVEventsSpec{Port: 65536}),
		"spec.workers.kvEvents.replayPort":             kvEvents(v1alpha1.KVEventsSpec{ReplayPort: 1023}),
		"spec.workers.kvEvents.blockSize":              kvEvents(v1alpha1.KVEventsSpec{BlockSize: 65537}),
		"spec.workers.kvEvents.dpSize":                 kvEvents(v1alpha1.KVEventsSpec{DPSize: 257}),
		"spec.workers.kvEvents.topic":                  kvEvents(v1alpha1.KVEventsSpec{Topic: strings.Repeat("t", 257)}),
		"spec.workers.kvEvents.topic in body":          kvEvents(v1alpha1.KVEventsSpec{Topic: "caché"}),
		"spec.workers.kvEvents.hash.algorithm: Unsupported": kvEvents(v1alpha1.KVEventsSpec{
			Hash: v1alpha1.KVEventsHash{Algorithm: "sha256", Seed: "42"}}),
		"spec.workers.kvEvents.hash.seed in body": kvEvents(v1alpha1.KVEventsSpec{
			Hash: v1alpha1.KVEventsHash{Algorithm: v1alpha1.HashSHA256CBOR, Seed: "random"}}),
		"spec.routing.cacheAware.hostTierPercent":  cacheAware(v1alpha1.CacheAwareSpec{HostTierPercent: ptr.To[int32](101)}),
		"spec.routing.cacheAware.diskTierPercent":  cacheAware(v1alpha1.CacheAwareSpec{DiskTierPercent: ptr.To[int32](-1)}),
		"spec.routing.cacheAware.untrustedPercent": cacheAware(v1alpha1.CacheAwareSpec{UntrustedPercent: ptr.To[int32](101)}),
		"spec.routing.cacheAware.pileUpTokens":     cacheAware(v1alpha1.CacheAwareSpec{PileUpTokens: ptr.To[int32](1000000001)}),
		"spec.routing.cacheAware.predictTTL":       cacheAware(v1alpha1.CacheAwareSpec{PredictTTLSeconds: ptr.To[int32](601)}),
		"spec.routing.cacheAware.prefillScale":     cacheAware(v1alpha1.CacheAwareSpec{PrefillScalePercent: ptr.To[int32](10001)}),
		"spec.routing.cacheAware.decodeWeight":     cacheAware(v1alpha1.CacheAwareSpec{DecodeWeightPercent: ptr.To[int32](10001)}),
		"spec.index.match":                         func(f *v1alpha1.RouterFleet) { f.Spec.Index.Match = "Longest" },
		"spec.index.maxBlocks":                     func(f *v1alpha1.RouterFleet) { f.Spec.Index.MaxBlocks = -1 },
		"spec.routing.maxConcurrentRequ":           func(f *v1alpha1.RouterFleet) { f.Spec.Routing.MaxConcurrentRequests = ptr.To[int32](0) },
	} {
		f := minimal("bounds")
		spoil(f)
		if err := tryCreate(f); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want a rejection that names the field", path, err)
		}
	}
}

// The least and the most of each bounded field are values.
func TestBoundsAreInclusive(t *testing.T) {
	all := func(percent, tokens, seconds, weight int32) func(*v1alpha1.RouterFleet) {
		return cacheAware(v1alpha1.CacheAwareSpec{
			HostTierPercent: &percent, DiskTierPercent: &percent, UntrustedPercent: &percent,
			PileUpTokens: &tokens, PredictTTLSeconds: &seconds, PrefillScalePercent: &weight, DecodeWeightPercent: &weight,
		})
	}
	hash := func(seed string) v1alpha1.KVEventsHash {
		return v1alpha1.KVEventsHash{Algorithm: v1alpha1.HashSHA256CBOR, Seed: seed}
	}
	for name, changes := range map[string][]func(*v1alpha1.RouterFleet){
		"least": {
			all(0, 0, 0, 0),
			kvEvents(v1alpha1.KVEventsSpec{Port: 1024, ReplayPort: 1025, Topic: " ", BlockSize: 1, DPSize: 1, Hash: hash("0")}),
			func(f *v1alpha1.RouterFleet) { f.Spec.Index.MaxBlocks = 1 },
		},
		"most": {
			all(100, 1000000000, 600, 10000),
			kvEvents(v1alpha1.KVEventsSpec{
				Mode: v1alpha1.KVEventsDisabled, Port: 65024, ReplayPort: 65280,
				Topic: strings.Repeat("~", 256), BlockSize: 65536, DPSize: 256, Hash: hash("4294967295"),
			}),
			func(f *v1alpha1.RouterFleet) {
				f.Spec.Index = v1alpha1.IndexSpec{MaxBlocks: 10000000000, Match: v1alpha1.MatchContiguous}
			},
		},
	} {
		f := minimal("bounds")
		for _, change := range changes {
			change(f)
		}
		if err := tryCreate(f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func tryCreate(f *v1alpha1.RouterFleet) error {
	return api.Create(context.Background(), f, client.DryRunAll)
}

func kvEvents(e v1alpha1.KVEventsSpec) func(*v1alpha1.RouterFleet) {
	return func(f *v1alpha1.RouterFleet) { f.Spec.Workers.KVEvents = e }
}

func kvHash(algorithm v1alpha1.KVEventsHashAlgorithm, seed string) func(*v1alpha1.RouterFleet) {
	return kvEvents(v1alpha1.KVEventsSpec{Hash: v1alpha1.KVEventsHash{Algorithm: algorithm, Seed: seed}})
}

func cacheAware(c v1alpha1.CacheAwareSpec) func(*v1alpha1.RouterFleet) {
	return func(f *v1alpha1.RouterFleet) { f.Spec.Routing.CacheAware = c }
}

func staticWorkers(url string) v1alpha1.WorkersSpec {
	return v1alpha1.WorkersSpec{
		Discovery: v1alpha1.DiscoveryStatic,
		Static:    []v1alpha1.StaticWorker{{ID: "a", URL: url}},
	}
}

func extraArgs(args ...string) func(*v1alpha1.RouterFleet) {
	return func(f *v1alpha1.RouterFleet) { f.Spec.Routing.ExtraArgs = args }
}

func servicePorts(ports ...int32) func(*v1alpha1.RouterFleet) {
	return func(f *v1alpha1.RouterFleet) {
		for i, p := range ports {
			f.Spec.Service.Ports = append(f.Spec.Service.Ports, v1alpha1.ServicePort{Name: fmt.Sprint("p", i), Port: p})
		}
	}
}

func serviceAnnotation(key, value string) func(*v1alpha1.RouterFleet) {
	return func(f *v1alpha1.RouterFleet) {
		f.Spec.Service.Annotations = map[string]v1alpha1.AnnotationValue{key: v1alpha1.AnnotationValue(value)}
	}
}

func serviceLabel(key, value string) func(*v1alpha1.RouterFleet) {
	return func(f *v1alpha1.RouterFleet) {
		f.Spec.Service.Labels = map[string]v1alpha1.LabelValue{key: v1alpha1.LabelValue(value)}
	}
}

func env(name string) func(*v1alpha1.RouterFleet) {
	return func(f *v1alpha1.RouterFleet) { f.Spec.PodTemplate.Env = []corev1.EnvVar{{Name: name, Value: "v"}} }
}

func volume(name string) func(*v1alpha1.RouterFleet) {
	return func(f *v1alpha1.RouterFleet) {
		f.Spec.PodTemplate.Volumes = []corev1.Volume{{
			Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		}}
	}
}

func mount(path string) func(*v1alpha1.RouterFleet) {
	return func(f *v1alpha1.RouterFleet) {
		volume("v")(f)
		f.Spec.PodTemplate.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: path}}
	}
}
