//go:build envtest

package v1alpha1_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func serializerFor() runtime.NegotiatedSerializer {
	return serializer.NewCodecFactory(clientgoscheme.Scheme).WithoutConversion()
}

// eventually polls: what happens in another process has no clock of ours.
func eventually(t *testing.T, promise string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-ticker.C:
		case <-timeout:
			t.Fatalf("not within 20 s: %s", promise)
		}
	}
}

func documents(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	var out []*unstructured.Unstructured
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if len(object.Object) > 0 && object.GetKind() != "Kustomization" {
			out = append(out, object)
		}
	}
}

func apply(t *testing.T, object *unstructured.Unstructured, options ...client.ApplyOption) error {
	t.Helper()
	strict := append([]client.ApplyOption{client.FieldOwner("kubectl"), client.ForceOwnership}, options...)
	return api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), strict...)
}

// Every manifest we ship is accepted by a real API server. ServiceMonitor is not
// among its kinds.
func TestEveryManifestIsAccepted(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "routerfleet-system"}}
	if err := api.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../config/*/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d manifests, %v", len(files), err)
	}
	for _, file := range files {
		for _, object := range documents(t, file) {
			if object.GetKind() == "ServiceMonitor" {
				continue
			}
			if object.GetNamespace() == "" {
				object.SetNamespace(defaultNamespace(object.GetKind()))
			}
			if err := apply(t, object, client.DryRunAll); err != nil {
				t.Errorf("%s: %s %s: %v", strings.TrimPrefix(file, "../../"), object.GetKind(), object.GetName(), err)
			}
		}
	}
}

func defaultNamespace(kind string) string {
	switch kind {
	case "Namespace", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		return ""
	}
	return "default"
}

func slotReplicaSet(name string) *appsv1.ReplicaSet {
	labels := map[string]string{v1alpha1.LabelFleet: "f", v1alpha1.LabelSlot: "0", v1alpha1.LabelRevision: "abc", v1alpha1.LabelRetry: "0"}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "router", Image: "router:1"}}},
			},
		},
	}
}

func TestSlotPoliciesRefuseWhatWouldRollOrScaleASlotByHand(t *testing.T) {
	for _, object := range append(documents(t, "../../config/policy/slot_template_immutable.yaml"), documents(t, "../../config/policy/slot_scale_bounded.yaml")...) {
		if err := apply(t, object); err != nil {
			t.Fatal(err)
		}
	}
	rs := slotReplicaSet("f-0-abc")
	if err := api.Create(t.Context(), rs); err != nil {
		t.Fatal(err)
	}
	update := func(change func(*appsv1.ReplicaSet)) error {
		changed := rs.DeepCopy()
		change(changed)
		return api.Update(t.Context(), changed, client.DryRunAll)
	}
	scaleTo := func(n int32) error {
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
		return api.SubResource("scale").Update(t.Context(), rs, client.DryRunAll, client.WithSubResourceBody(scale))
	}
	newImage := func(rs *appsv1.ReplicaSet) { rs.Spec.Template.Spec.Containers[0].Image = "router:2" }
	eventually(t, "a new image is refused", func() bool { return update(newImage) != nil })
	eventually(t, "kubectl scale of a slot is refused", func() bool { return scaleTo(2) != nil })
	if err := update(func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = ptr.To[int32](2) }); err == nil {
		t.Error("a slot got two replicas")
	}
	if err := update(func(rs *appsv1.ReplicaSet) { rs.Annotations = map[string]string{"a": "b"} }); err != nil {
		t.Errorf("an edit that touches nothing: %v", err)
	}
	rs.Spec.Replicas = ptr.To[int32](0)
	if err := api.Update(t.Context(), rs); err != nil {
		t.Fatalf("retiring a slot: %v", err)
	}
	if err := update(func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = ptr.To[int32](1) }); err == nil {
		t.Error("a retired slot came back")
	}
}

func TestDigestPolicyAppliesWhereTheNamespaceAsks(t *testing.T) {
	for _, object := range documents(t, "../../config/policy/image_digest_pinned.yaml") {
		if err := apply(t, object); err != nil {
			t.Fatal(err)
		}
	}
	strict := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strict", Labels: map[string]string{"routerfleet.io/require-digest": "true"}}}
	if err := api.Create(t.Context(), strict); err != nil {
		t.Fatal(err)
	}
	f := minimal("digest")
	f.Namespace = "strict"
	eventually(t, "a tag is refused", func() bool { return tryCreate(f.DeepCopy()) != nil })
	f.Spec.Image = "router@sha256:" + strings.Repeat("0", 64)
	if err := tryCreate(f); err != nil {
		t.Errorf("a digest is refused: %v", err)
	}
	if err := tryCreate(minimal("digest")); err != nil {
		t.Errorf("a tag in a namespace that does not ask: %v", err)
	}
}
