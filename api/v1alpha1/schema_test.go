package v1alpha1_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const crdPath = "../../config/crd/bases/routerfleet.io_routerfleets.yaml"

func readCRD(t testing.TB) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	raw, err := os.ReadFile(crdPath)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// Client-side kubectl apply keeps the whole object in an annotation, and all
// annotations together may have 256 KiB.
func TestCRDFitsTheLastAppliedAnnotation(t *testing.T) {
	raw, err := json.Marshal(readCRD(t))
	if err != nil {
		t.Fatal(err)
	}
	yamlFile, err := os.Stat(crdPath)
	if err != nil {
		t.Fatal(err)
	}
	const limit = 256 << 10
	if len(raw) >= limit || yamlFile.Size() >= limit {
		t.Errorf("CRD has %d bytes of JSON, %d of YAML; both must stay below %d: lower maxDescLen in hack/tools/generate.sh",
			len(raw), yamlFile.Size(), limit)
	}
}

// Default must do what the API server does, field by field, or an object that
// never met one would be rendered differently.
func TestGoDefaultsEqualSchemaDefaults(t *testing.T) {
	specs := map[string]v1alpha1.RouterFleetSpec{
		"empty": {},
		"every parent set, no leaf": {
			Workers: v1alpha1.WorkersSpec{Plain: &v1alpha1.PlainDiscovery{}, KVEvents: v1alpha1.KVEventsSpec{BlockSize: 16}},
			Routing: v1alpha1.RoutingSpec{ExtraArgs: []string{"--log-level=debug"}},
			Index:   v1alpha1.IndexSpec{MaxBlocks: 1},
			Rollout: v1alpha1.RolloutSpec{RestartToken: "1"},
			Service: v1alpha1.ServiceSpec{Labels: map[string]v1alpha1.LabelValue{"a": "b"}},
		},
		"zeroes that are values": {
			Replicas: ptr.To[int32](0),
			Rollout:  v1alpha1.RolloutSpec{MinReadySeconds: ptr.To[int32](0), RevisionHistoryLimit: ptr.To[int32](0)},
			Drain:    v1alpha1.DrainSpec{PreStopSeconds: ptr.To[int32](0)},
			Workers:  v1alpha1.WorkersSpec{Port: intstr.FromInt32(8000)},
			Routing: v1alpha1.RoutingSpec{CacheAware: v1alpha1.CacheAwareSpec{
				HostTierPercent: ptr.To[int32](0), DiskTierPercent: ptr.To[int32](0), UntrustedPercent: ptr.To[int32](0),
				PileUpTokens: ptr.To[int32](0), PredictTTLSeconds: ptr.To[int32](0), PrefillScalePercent: ptr.To[int32](0),
			}},
		},
	}
	structural := structuralSchema(t)
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			want := defaultedBySchema(t, structural, spec)
			spec.Default()
			if diff := cmp.Diff(want, spec); diff != "" {
				t.Errorf("Default differs from the schema (-schema +Default):\n%s", diff)
			}
		})
	}
}

func structuralSchema(t testing.TB) *schema.Structural {
	t.Helper()
	v1Schema := readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v1Schema, internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := schema.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	return structural
}

func defaultedBySchema(t testing.TB, s *schema.Structural, spec v1alpha1.RouterFleetSpec) v1alpha1.RouterFleetSpec {
	t.Helper()
	fleet := &v1alpha1.RouterFleet{Spec: spec}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fleet)
	if err != nil {
		t.Fatal(err)
	}
	if object["spec"] == nil {
		object["spec"] = map[string]any{}
	}
	if specObject := object["spec"].(map[string]any); specObject["workers"] == nil {
		specObject["workers"] = map[string]any{} // required of users, so not defaulted
	}
	defaulting.Default(object, s)
	out := &v1alpha1.RouterFleet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, out); err != nil {
		t.Fatal(err)
	}
	return out.Spec
}

// The schema text of our own fields must reach users whole; controller-gen cuts
// what is longer than maxDescLen.
func TestDescriptionsOfOurFieldsAreWhole(t *testing.T) {
	root := readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, part := range []string{"spec", "status"} {
		for name, field := range root.Properties[part].Properties {
			if d := strings.TrimSpace(field.Description); d == "" || !strings.HasSuffix(d, ".") {
				t.Errorf("%s.%s: description %q is missing or cut", part, name, d)
			}
		}
	}
}
