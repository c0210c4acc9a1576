package controllers

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"
	"github.com/routerfleet/routerfleet/controllers/rollout"
)

// worldOf gives the objects of a fleet of three, pods Ready for an hour, all of its present revision.
func worldOf(t *testing.T, f *v1alpha1.RouterFleet) []client.Object {
	t.Helper()
	revision, err := children.RevisionOf(f)
	if err != nil {
		t.Fatal(err)
	}
	cr := controllerRevision(t, f, revision)
	cr.Namespace, cr.Annotations = f.Namespace, map[string]string{v1alpha1.AnnotationStable: "true"}
	cr.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f, v1alpha1.GroupVersion.WithKind("RouterFleet"))}
	out := []client.Object{f, &cr}
	for slot := range int32(3) {
		rs, err := renderSet(f, revision, slot, 0)
		if err != nil {
			t.Fatal(err)
		}
		rs.UID = types.UID(fmt.Sprintf("rs-%d", slot))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: fmt.Sprintf("pod-%d", slot), UID: types.UID(fmt.Sprintf("pod-%d", slot)),
			Labels:          rs.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}}
		out = append(out, rs, pod)
	}
	return out
}

// reads counts what is asked of a reader.
type reads struct {
	client.Reader
	n int
}

func (r *reads) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	r.n++
	return r.Reader.Get(ctx, key, o, opts...)
}

func (r *reads) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	r.n++
	return r.Reader.List(ctx, l, opts...)
}

// planBetween plans with a cache and an API server that show different worlds.
func planBetween(t *testing.T, cached, live []client.Object) (*plan, int) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cached...).WithStatusSubresource(&v1alpha1.RouterFleet{}).Build()
	api := &reads{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(live...).Build()}
	r, err := New(Options{Client: cache, APIReader: api, Now: func() time.Time { return noon.Time }})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := r.observe(t.Context(), cache, types.NamespacedName{Namespace: "ns", Name: "demo"})
	if err != nil || seen == nil {
		t.Fatalf("observed %v, %v", seen, err)
	}
	p, err := r.plan(t.Context(), seen)
	if err != nil {
		t.Fatal(err)
	}
	return p, api.n
}

func wanted(image string) *v1alpha1.RouterFleet {
	f := testFleet()
	three := int32(3)
	f.Spec.Replicas, f.Spec.Image, f.Generation = &three, image, 1
	return f
}

// edited is the world of v1 under a fleet that wants something else by now.
func edited(t *testing.T, change func(*v1alpha1.RouterFleet)) []client.Object {
	t.Helper()
	world := worldOf(t, wanted("router:v1"))
	f := wanted("router:v1")
	change(f)
	world[0] = f
	return world
}

func toV2(f *v1alpha1.RouterFleet) { f.Spec.Image, f.Generation = "router:v2", 2 }

func TestAPlanIsCarriedOutOnlyIfFreshEyesMakeTheSame(t *testing.T) {
	p, asked := planBetween(t, edited(t, toV2), edited(t, toV2))
	if p.moved || p.decision.Kind != rollout.Create || len(p.decision.Create) != 1 || asked != 3 {
		t.Errorf("moved %v, decision %+v, %d reads; want one creation and 3 reads", p.moved, p.decision, asked)
	}
}

func TestAPlanFromAStaleCacheIsNotCarriedOut(t *testing.T) {
	undone := func(f *v1alpha1.RouterFleet) { f.Generation = 3 }
	for name, live := range map[string][]client.Object{
		"the spec was undone meanwhile":       edited(t, undone),
		"the rollout was paused meanwhile":    edited(t, func(f *v1alpha1.RouterFleet) { toV2(f); f.Spec.Rollout.State = v1alpha1.RolloutPaused }),
		"the fleet was scaled down meanwhile": edited(t, func(f *v1alpha1.RouterFleet) { toV2(f); f.Spec.Replicas = new(int32) }),
		"a replica vanished meanwhile":        edited(t, toV2)[:6],
	} {
		p, _ := planBetween(t, edited(t, toV2), live)
		if !p.moved {
			t.Errorf("%s: the stale plan would be carried out: %+v", name, p.decision)
		}
	}
}

func TestAFleetThatWentMeanwhileIsNotPlanned(t *testing.T) {
	if p, _ := planBetween(t, edited(t, toV2), nil); p != nil {
		t.Errorf("planned %+v", p.decision)
	}
}

// TestCompleteIsToldOnlyFromAFreshList, and once told it costs nothing.
func TestCompleteIsToldOnlyFromAFreshList(t *testing.T) {
	cached := worldOf(t, wanted("router:v1"))
	if p, asked := planBetween(t, cached, cached); p.decision.Reason != rollout.Complete || asked != 3 {
		t.Errorf("%s after %d reads, want Complete after 3", p.decision.Reason, asked)
	}
	live := worldOf(t, wanted("router:v1"))
	live[len(live)-1].(*corev1.Pod).Status.Conditions[0].Status = corev1.ConditionFalse
	if p, _ := planBetween(t, cached, live); p.decision.Reason == rollout.Complete {
		t.Error("complete, although a pod is not ready any more")
	}
	told := worldOf(t, wanted("router:v1"))
	told[0].(*v1alpha1.RouterFleet).Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRollingOut,
		Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonComplete, ObservedGeneration: 1, LastTransitionTime: noon}}
	if p, asked := planBetween(t, told, told); p.decision.Reason != rollout.Complete || asked != 0 {
		t.Errorf("%s after %d reads, want Complete after none", p.decision.Reason, asked)
	}
}

// TestAGhostIsNotCounted: a pod that only carries the labels is nobody's replica (rule 7 of slots).
func TestAGhostIsNotCounted(t *testing.T) {
	world := worldOf(t, wanted("router:v1"))
	ghost := world[3].DeepCopyObject().(*corev1.Pod)
	ghost.Name, ghost.UID = "ghost", "ghost"
	ghost.OwnerReferences[0].UID = "a set that is gone"
	stray := world[3].DeepCopyObject().(*corev1.Pod)
	stray.Name, stray.UID, stray.OwnerReferences = "stray", "stray", nil
	world = append(world, ghost, stray)
	p, _ := planBetween(t, world, world)
	if len(p.pods) != 3 || len(p.strays) != 1 || p.decision.Reason != rollout.Complete {
		t.Errorf("%d pods, %d strays, %s", len(p.pods), len(p.strays), p.decision.Reason)
	}
}

// TestASpecThatCannotBeRenderedKeepsTheFleetGoing on what it was last asked for.
func TestASpecThatCannotBeRenderedKeepsTheFleetGoing(t *testing.T) {
	good := worldOf(t, wanted("router:v1"))
	target := good[1].GetLabels()[v1alpha1.LabelRevision]
	bad := wanted("router:v1")
	bad.Spec.Workers.Plain.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
	bad.Status.UpdateRevision = target
	world := append([]client.Object{bad}, good[1:6]...) // slot 2 is missing
	p, _ := planBetween(t, world, world)
	if p.invalid == nil || p.target != target || p.decision.Kind != rollout.Create || p.decision.Create[0].Revision != target {
		t.Errorf("invalid %v, target %s, decision %+v", p.invalid, p.target, p.decision)
	}
	if _, err := p.render(target); err != nil {
		t.Errorf("the last revision cannot be rendered: %v", err)
	}
}
