//go:build envtest

package v1alpha1_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	fleetac "github.com/routerfleet/routerfleet/api/v1alpha1/applyconfiguration/api/v1alpha1"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// create makes a fleet that is deleted with the test.
func create(t *testing.T, f *v1alpha1.RouterFleet) *v1alpha1.RouterFleet {
	t.Helper()
	if err := api.Create(t.Context(), f); err != nil {
		t.Fatalf("create %s: %v", f.Name, err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(api.Delete(context.Background(), f)); err != nil {
			t.Errorf("delete %s: %v", f.Name, err)
		}
	})
	return f
}

func applyStatus(t *testing.T, name string, status *fleetac.RouterFleetStatusApplyConfiguration) {
	t.Helper()
	intent := fleetac.RouterFleet(name, "default").WithStatus(status)
	if err := api.SubResource("status").Apply(t.Context(), intent, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		t.Fatalf("apply status of %s: %v", name, err)
	}
}

func TestStoredFleetEqualsGoDefaults(t *testing.T) {
	want := minimal("defaults")
	want.Spec.Default()
	got := create(t, minimal("defaults"))
	if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
		t.Errorf("stored fleet differs from Default (-want +got):\n%s", diff)
	}
}

func TestScaleSubresourceReadsStatusAndWritesReplicas(t *testing.T) {
	f := create(t, minimal("scale"))
	applyStatus(t, f.Name, fleetac.RouterFleetStatus().WithReplicas(4).WithSelector("routerfleet.io/fleet=scale"))

	scale := &autoscalingv1.Scale{}
	if err := api.SubResource("scale").Get(t.Context(), f, scale); err != nil {
		t.Fatal(err)
	}
	if scale.Spec.Replicas != 2 || scale.Status.Replicas != 4 || scale.Status.Selector != "routerfleet.io/fleet=scale" {
		t.Errorf("scale is %+v %+v, want 2 wanted, 4 there and the selector of the status", scale.Spec, scale.Status)
	}
	scale.Spec.Replicas = 7
	if err := api.SubResource("scale").Update(t.Context(), f, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(f), f); err != nil {
		t.Fatal(err)
	}
	if got := *f.Spec.Replicas; got != 7 {
		t.Errorf("spec.replicas is %d after scaling to 7", got)
	}
}

// kubectl scale validates the whole object: no rule may forbid any number.
func TestEveryNumberOfReplicasIsAccepted(t *testing.T) {
	f := create(t, minimal("numbers"))
	for _, n := range []int32{0, 1, 1000} {
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
		if err := api.SubResource("scale").Update(t.Context(), f, client.WithSubResourceBody(scale)); err != nil {
			t.Errorf("scale to %d: %v", n, err)
		}
	}
}

func TestStatusUpdatesLeaveTheGenerationAlone(t *testing.T) {
	f := create(t, minimal("generation"))
	applyStatus(t, f.Name, fleetac.RouterFleetStatus().WithObservedGeneration(1).WithReadyReplicas(0))
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(f), f); err != nil {
		t.Fatal(err)
	}
	if f.Generation != 1 {
		t.Errorf("generation is %d after a status write, want 1", f.Generation)
	}
	if f.Status.ReadyReplicas == nil || *f.Status.ReadyReplicas != 0 {
		t.Errorf("readyReplicas is %v, want a 0 that was observed", f.Status.ReadyReplicas)
	}
}

// An object that was stored before a rule existed may still be scaled; the bad
// field itself may not become another bad value.
func TestRulesLetUnchangedBadFieldsPass(t *testing.T) {
	setRules := withoutRules(t)
	f := minimal("ratchet")
	f.Spec.Routing.ExtraArgs = []string{"--port=1"}
	create(t, f)
	setRules()

	f.Spec.Replicas = ptr.To[int32](5)
	if err := api.Update(t.Context(), f); err != nil {
		t.Errorf("scaling a fleet with an old bad field: %v", err)
	}
	f.Spec.Routing.ExtraArgs = []string{"--port=2"}
	if err := api.Update(t.Context(), f); err == nil {
		t.Error("a bad field became another bad value, and nobody objected")
	}
}

// withoutRules removes the rules on extraArgs and returns how to set them again.
func withoutRules(t *testing.T) (setAgain func()) {
	t.Helper()
	set := func(rules apiextensionsv1.ValidationRules) apiextensionsv1.ValidationRules {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := api.Get(t.Context(), client.ObjectKey{Name: "routerfleets.routerfleet.io"}, crd); err != nil {
			t.Fatal(err)
		}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		routing := spec.Properties["routing"]
		args := routing.Properties["extraArgs"]
		old := args.XValidations
		args.XValidations = rules
		routing.Properties["extraArgs"] = args
		spec.Properties["routing"] = routing
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
		if err := api.Update(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
		bad := minimal("probe")
		bad.Spec.Routing.ExtraArgs = []string{"--port=1"}
		eventually(t, "the API server serves the changed schema", func() bool {
			return (tryCreate(bad.DeepCopy()) == nil) == (rules == nil)
		})
		return old
	}
	old := set(nil)
	return func() { set(old) }
}

func TestFleetsAreSelectableByRolloutStateAndRevision(t *testing.T) {
	paused := minimal("paused")
	paused.Spec.Rollout.State = v1alpha1.RolloutPaused
	create(t, paused)
	create(t, minimal("running"))
	applyStatus(t, "running", fleetac.RouterFleetStatus().WithUpdateRevision("abc"))

	for selector, want := range map[string]string{"spec.rollout.state=Paused": "paused", "status.updateRevision=abc": "running"} {
		list := &v1alpha1.RouterFleetList{}
		raw := &client.ListOptions{Namespace: "default", Raw: &metav1.ListOptions{FieldSelector: selector}}
		if err := api.List(t.Context(), list, raw); err != nil {
			t.Fatalf("%s: %v", selector, err)
		}
		if len(list.Items) != 1 || list.Items[0].Name != want {
			t.Errorf("%s selects %d fleets, want only %s", selector, len(list.Items), want)
		}
	}
}

func TestKubectlGetShowsTheColumns(t *testing.T) {
	f := create(t, minimal("columns"))
	condition := func(kind, status, reason string) *metav1ac.ConditionApplyConfiguration {
		return metav1ac.Condition().WithType(kind).WithStatus(metav1.ConditionStatus(status)).WithReason(reason).
			WithMessage("").WithLastTransitionTime(metav1.Now())
	}
	applyStatus(t, f.Name, fleetac.RouterFleetStatus().
		WithReadyReplicas(1).WithUpdatedReplicas(0).
		WithStableRevision("old").WithUpdateRevision("new").
		WithWorkers(fleetac.WorkersStatus().WithDiscovered(4)).
		WithConditions(condition("Available", "True", "MinimumReplicasAvailable"), condition("RollingOut", "True", "Surging")))

	table := getTable(t, f.Name)
	var names []string
	cells := map[string]string{}
	for i, c := range table.ColumnDefinitions {
		name := c.Name
		if c.Priority > 0 {
			name += " (wide)"
		}
		names = append(names, name)
		value, err := json.Marshal(table.Rows[0].Cells[i])
		if err != nil {
			t.Fatal(err)
		}
		cells[c.Name] = string(value)
	}
	want := "Name DESIRED READY UPDATED AVAILABLE ROLLOUT AGE CURRENT (wide) UPDATE (wide) WORKERS (wide) IMAGE (wide)"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("columns are\n%s\nwant\n%s", got, want)
	}
	delete(cells, "AGE")
	wantCells := map[string]string{
		"Name": `"columns"`, "DESIRED": "2", "READY": "1", "UPDATED": "0", "AVAILABLE": `"True"`, "ROLLOUT": `"Surging"`,
		"CURRENT": `"old"`, "UPDATE": `"new"`, "WORKERS": "4", "IMAGE": `"router:1"`,
	}
	if diff := cmp.Diff(wantCells, cells); diff != "" {
		t.Errorf("cells differ (-want +got):\n%s", diff)
	}
}

func getTable(t *testing.T, name string) *metav1.Table {
	t.Helper()
	config := rest.CopyConfig(restConfig)
	config.GroupVersion = &v1alpha1.GroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializerFor()
	rc, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := rc.Get().Namespace("default").Resource("routerfleets").Name(name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	table := &metav1.Table{}
	if err := json.Unmarshal(raw, table); err != nil {
		t.Fatal(err)
	}
	return table
}

func TestShortNameAndCategory(t *testing.T) {
	names := readCRD(t).Spec.Names
	if diff := cmp.Diff([]string{"rf"}, names.ShortNames); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"llm"}, names.Categories); diff != "" {
		t.Error(diff)
	}
}
