package children

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Invariant I9: none of these is a new revision.
func TestWhatPodsDoNotSeeMakesNoRevision(t *testing.T) {
	want := revisionOf(t, fleet())
	for name, change := range map[string]func(*v1alpha1.RouterFleet){
		"replicas":         func(f *v1alpha1.RouterFleet) { f.Spec.Replicas = ptr.To[int32](9) },
		"labels":           func(f *v1alpha1.RouterFleet) { f.Labels = map[string]string{"a": "b"} },
		"annotations":      func(f *v1alpha1.RouterFleet) { f.Annotations = map[string]string{"a": "b"} },
		"generation":       func(f *v1alpha1.RouterFleet) { f.Generation, f.ResourceVersion = 7, "99" },
		"pause":            func(f *v1alpha1.RouterFleet) { f.Spec.Rollout.State = v1alpha1.RolloutPaused },
		"min ready":        func(f *v1alpha1.RouterFleet) { f.Spec.Rollout.MinReadySeconds = ptr.To[int32](0) },
		"deadline":         func(f *v1alpha1.RouterFleet) { f.Spec.Rollout.ProgressDeadlineSeconds = 99 },
		"history":          func(f *v1alpha1.RouterFleet) { f.Spec.Rollout.RevisionHistoryLimit = ptr.To[int32](0) },
		"service":          func(f *v1alpha1.RouterFleet) { f.Spec.Service.Ports[0].Port = 80 },
		"status":           func(f *v1alpha1.RouterFleet) { f.Status.StableRevision = "x" },
		"no defaults":      func(f *v1alpha1.RouterFleet) { *f = *withoutDefaults() },
		"1000m for 1":      func(f *v1alpha1.RouterFleet) { f.Spec.Resources.Requests["cpu"] = resource.MustParse("0.5") },
		"another notation": func(f *v1alpha1.RouterFleet) { f.Spec.Resources.Requests["memory"] = resource.MustParse("536870912") },
		"empty not nil": func(f *v1alpha1.RouterFleet) {
			f.Spec.PodTemplate.Metadata.Labels = map[string]v1alpha1.LabelValue{}
			f.Spec.PodTemplate.Env = []corev1.EnvVar{}
			f.Spec.Scheduling.NodeSelector = map[string]string{}
			f.Spec.Resources.Limits = corev1.ResourceList{}
			f.Spec.Workers.Plain.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{}
		},
	} {
		if got := revisionOf(t, fleet(change)); got.Hash != want.Hash {
			t.Errorf("%s: revision %s, want %s still:\n%s\n%s", name, got.Hash, want.Hash, want.Data, got.Data)
		}
	}
}

func withoutDefaults() *v1alpha1.RouterFleet {
	f := fleet()
	return &v1alpha1.RouterFleet{
		ObjectMeta: f.ObjectMeta,
		Spec:       v1alpha1.RouterFleetSpec{Image: f.Spec.Image, Workers: v1alpha1.WorkersSpec{Plain: f.Spec.Workers.Plain}},
	}
}

func TestWhatPodsSeeMakesARevision(t *testing.T) {
	seen := map[string]string{revisionOf(t, fleet()).Hash: "unchanged"}
	changes := map[string]func(*v1alpha1.RouterFleet){
		"image":       func(f *v1alpha1.RouterFleet) { f.Spec.Image = "router:2" },
		"pull policy": func(f *v1alpha1.RouterFleet) { f.Spec.ImagePullPolicy = corev1.PullAlways },
		"pull secret": func(f *v1alpha1.RouterFleet) { f.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} },
		"model":       func(f *v1alpha1.RouterFleet) { f.Spec.ModelID = "m" },
		"selector":    func(f *v1alpha1.RouterFleet) { f.Spec.Workers.Plain.Selector.MatchLabels["app"] = "other" },
		"policy":      func(f *v1alpha1.RouterFleet) { f.Spec.Routing.Policy = v1alpha1.PolicyRoundRobin },
		"blind":       func(f *v1alpha1.RouterFleet) { f.Spec.Workers.KVEvents.Mode = v1alpha1.KVEventsDisabled },
		"events port": func(f *v1alpha1.RouterFleet) { f.Spec.Workers.KVEvents.Port = 5600 },
		"block size":  func(f *v1alpha1.RouterFleet) { f.Spec.Workers.KVEvents.BlockSize = 16 },
		"hash": func(f *v1alpha1.RouterFleet) {
			f.Spec.Workers.KVEvents.Hash = v1alpha1.KVEventsHash{Algorithm: v1alpha1.HashSHA256CBOR, Seed: "0"}
		},
		"no host tier": func(f *v1alpha1.RouterFleet) { f.Spec.Routing.CacheAware.HostTierPercent = ptr.To[int32](0) },
		"decode":       func(f *v1alpha1.RouterFleet) { f.Spec.Routing.CacheAware.DecodeWeightPercent = ptr.To[int32](1) },
		"blocks":       func(f *v1alpha1.RouterFleet) { f.Spec.Index.MaxBlocks = 1 },
		"match":        func(f *v1alpha1.RouterFleet) { f.Spec.Index.Match = v1alpha1.MatchContiguous },
		"breaker":      func(f *v1alpha1.RouterFleet) { f.Spec.Routing.CircuitBreaker.CoolDownSeconds = 31 },
		"limit":        func(f *v1alpha1.RouterFleet) { f.Spec.Routing.MaxConcurrentRequests = ptr.To[int32](1) },
		"args":         func(f *v1alpha1.RouterFleet) { f.Spec.Routing.ExtraArgs = []string{"--log-level=debug"} },
		"restart":      func(f *v1alpha1.RouterFleet) { f.Spec.Rollout.RestartToken = "1" },
		"less memory":  func(f *v1alpha1.RouterFleet) { f.Spec.Resources.Requests["memory"] = resource.MustParse("511Mi") },
		"no cpu":       func(f *v1alpha1.RouterFleet) { delete(f.Spec.Resources.Requests, "cpu") },
		"toleration":   func(f *v1alpha1.RouterFleet) { f.Spec.Scheduling.Tolerations = []corev1.Toleration{{Key: "k"}} },
		"no preStop":   func(f *v1alpha1.RouterFleet) { f.Spec.Drain.PreStopSeconds = ptr.To[int32](0) },
		"grace":        func(f *v1alpha1.RouterFleet) { f.Spec.Drain.TerminationGracePeriodSeconds = 631 },
		"pod label": func(f *v1alpha1.RouterFleet) {
			f.Spec.PodTemplate.Metadata.Labels = map[string]v1alpha1.LabelValue{"a": "b"}
		},
		"env": func(f *v1alpha1.RouterFleet) { f.Spec.PodTemplate.Env = []corev1.EnvVar{{Name: "A"}} },
		"static added": func(f *v1alpha1.RouterFleet) {
			f.Spec.Workers.Static = []v1alpha1.StaticWorker{{ID: "a", URL: "http://a"}}
		},
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		hash := revisionOf(t, fleet(changes[name])).Hash
		if other, taken := seen[hash]; taken {
			t.Errorf("%s has the revision of %s", name, other)
		}
		seen[hash] = name
	}
}

// Case 19: one value has many spellings.
func TestQuantitiesCountByValue(t *testing.T) {
	for _, spellings := range [][]string{
		{"2048Mi", "2Gi", "2147483648", "2097152Ki"},
		{"1", "1000m", "1.0", "1000000u"},
		{"0.5", "500m", "5e-1"},
		{"1e3", "1k", "1000", "1E3"},
		{"0", "0m", "0Gi"},
		{"1024", "1Ki", "1.024k"},
		{"1e30"},
		{"1500", "1.5k"},
	} {
		var first string
		for i, text := range spellings {
			canonical := canonicalQuantity(resource.MustParse(text))
			if i == 0 {
				first = canonical.String()
			}
			original := resource.MustParse(text)
			if canonical.String() != first || canonical.Cmp(original) != 0 {
				t.Errorf("%s becomes %s, want %s", text, canonical.String(), first)
			}
		}
	}
}

// The frozen defaults of the renderVersion and those of the API must say the
// same, or a default spelt out would be a revision of its own.
func TestAFleetOfDefaultsHasAnEmptyRevision(t *testing.T) {
	var spec v1alpha1.RouterFleetSpec
	spec.Default()
	data, err := canonical(rolloutRelevant(spec))
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != "{}" {
		t.Errorf("defaults leave %s in the revision: add them to the frozen defaults of a new renderVersion", data)
	}
	back, err := expand(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rolloutRelevant(spec), back); diff != "" {
		t.Errorf("expanding gives other defaults:\n%s", diff)
	}
}

func TestARevisionSurvivesItsControllerRevision(t *testing.T) {
	for _, f := range []*v1alpha1.RouterFleet{
		fleet(), readFleet(t, "testdata/production/fleet.yaml"), readFleet(t, "testdata/static/fleet.yaml"),
	} {
		want := revisionOf(t, f)
		got, err := DecodeRevision(stored(t, f, want))
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: revision changed on its way:\n%s", f.Name, diff)
		}
		wantSpec := defaulted(f).Spec
		spec, err := got.Spec()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rolloutRelevant(wantSpec), spec); diff != "" {
			t.Errorf("%s: undo would write another spec:\n%s", f.Name, diff)
		}
	}
}

// stored is the ControllerRevision as an API server hands it out.
func stored(t testing.TB, f *v1alpha1.RouterFleet, r Revision) *appsv1.ControllerRevision {
	t.Helper()
	raw, err := json.Marshal(ControllerRevision(f, r, 3))
	if err != nil {
		t.Fatal(err)
	}
	cr := &appsv1.ControllerRevision{}
	if err := json.Unmarshal(raw, cr); err != nil {
		t.Fatal(err)
	}
	return cr
}

func TestRevisionsThatCannotBeTrustedAreRefused(t *testing.T) {
	for wanted, spoil := range map[string]func(*appsv1.ControllerRevision){
		"it was edited": func(cr *appsv1.ControllerRevision) {
			cr.Data.Raw = []byte(strings.Replace(string(cr.Data.Raw), "router:1", "router:2", 1))
		},
		"renderVersion 9": func(cr *appsv1.ControllerRevision) {
			cr.Data.Raw = []byte(strings.Replace(string(cr.Data.Raw), `"renderVersion":1`, `"renderVersion":9`, 1))
		},
		"renderVersion 0": func(cr *appsv1.ControllerRevision) { cr.Data.Raw = []byte(`{}`) },
		"unexpected end":  func(cr *appsv1.ControllerRevision) { cr.Data.Raw = nil },
	} {
		cr := stored(t, fleet(), revisionOf(t, fleet()))
		spoil(cr)
		_, err := DecodeRevision(cr)
		if err == nil || !strings.Contains(err.Error(), wanted) || !strings.Contains(err.Error(), cr.Name) {
			t.Errorf("got %v, want an error that names %s and says %q", err, cr.Name, wanted)
		}
	}
}

// The API server does not look into a selector inside a custom resource.
func TestASelectorThatCannotBeIsAUserError(t *testing.T) {
	for name, selector := range map[string]metav1.LabelSelector{
		"operator": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}},
		"values":   {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn}}},
		"key":      {MatchLabels: map[string]string{"no spaces": "b"}},
		"empty":    {},
	} {
		f := fleet(func(f *v1alpha1.RouterFleet) { f.Spec.Workers.Plain.Selector = selector })
		if _, err := RevisionOf(f); err == nil || !strings.Contains(err.Error(), "workers.plain.selector") {
			t.Errorf("%s: got %v, want an error that names the field", name, err)
		}
	}
}

func TestAnOldRevisionIsRenderedFromItselfNotFromTheSpec(t *testing.T) {
	old := revisionOf(t, fleet())
	now := fleet(func(f *v1alpha1.RouterFleet) { f.Spec.Image = "router:2" })
	rs, err := ReplicaSet(now, old, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := *rs.Spec.Template.Spec.Containers[0].Image; got != "router:1" {
		t.Errorf("image is %s, want that of the revision", got)
	}
}
