//go:build envtest

package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

// settled gives a fleet of three at rest.
func settled(t *testing.T, change ...func(*v1alpha1.RouterFleet)) *bench {
	t.Helper()
	b := newBench(t)
	b.player.net.setWorkers(2)
	b.fleet("demo", 3, change...)
	b.complete("demo")
	b.has("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonFleetReady)
	b.player.mark()
	return b
}

// wait does what kubectl wait --for=condition=RollingOut=False does: it follows the object from now on, and believes a
// condition only if its observedGeneration has reached the object's generation.
func (b *bench) wait(name string, since string) *v1alpha1.RouterFleet {
	b.Helper()
	api, err := client.NewWithWatch(apiServer, client.Options{Scheme: scheme})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	w, err := api.Watch(ctx, &v1alpha1.RouterFleetList{}, client.InNamespace(b.ns),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: since, FieldSelector: "metadata.name=" + name}})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		f, ok := event.Object.(*v1alpha1.RouterFleet)
		if !ok {
			continue
		}
		for _, c := range f.Status.Conditions {
			if c.Type == v1alpha1.ConditionRollingOut && c.ObservedGeneration >= f.Generation && c.Status == metav1.ConditionFalse {
				return f
			}
		}
	}
	b.Fatalf("the wait did not end\n%s", b.dump())
	return nil
}

// TestARollingUpdateReplacesOneSlotAtATimeAndAWaitEndsWithIt also is row 29: a wait that starts right after the apply
// ends only when every pod is new.
func TestARollingUpdateReplacesOneSlotAtATimeAndAWaitEndsWithIt(t *testing.T) {
	b := settled(t)
	old := b.get("demo").Status.StableRevision
	b.op.wire.take()
	f := &v1alpha1.RouterFleet{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "demo"}}
	if err := b.api.Patch(t.Context(), f, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"image":"router:v2"}}`))); err != nil {
		t.Fatal(err)
	}
	done := b.wait("demo", f.ResourceVersion)
	for _, name := range b.live() {
		if !strings.Contains(name, done.Status.UpdateRevision) {
			t.Errorf("the wait ended with %s alive", name)
		}
	}
	if reasonOf(done.Status, v1alpha1.ConditionRollingOut) != v1alpha1.ReasonComplete || done.Status.StableRevision == old {
		t.Errorf("the wait ended at %+v", done.Status)
	}
	fewest, most, bad := b.player.extremes()
	if fewest < 3 || most > 4 || bad > 1 {
		t.Errorf("fewest ready %d, most live %d, most unready %d; want >= 3, <= 4, <= 1", fewest, most, bad)
	}
	b.eventually("retired ReplicaSets are deleted", func() error {
		if n := len(b.sets()); n != 3 {
			return fmt.Errorf("%d ReplicaSets", n)
		}
		return nil
	})
	b.rollIsAccounted(3)
}

// rollIsAccounted: a slot costs a creation, a retirement and a deletion; a rollout a revision and two marks. Only a
// retirement may be sent again, when its pod's status moved in between (409).
func (b *bench) rollIsAccounted(slots int) {
	b.Helper()
	writes, _ := b.op.wire.take()
	count := map[string]int{}
	for _, w := range writes {
		method, path, _ := strings.Cut(w, " ")
		parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
		kind := parts[min(5, len(parts)-1)]
		if strings.HasSuffix(path, "/status") {
			kind = "status"
		}
		count[method+" "+kind]++
	}
	b.Logf("a roll of %d slots: %v", slots, count)
	want := map[string][2]int{
		"POST replicasets": {slots, slots}, "PATCH replicasets": {slots, slots + 2}, "DELETE replicasets": {slots, slots},
		"PATCH controllerrevisions": {3, 3}, "PATCH status": {1, 9 * slots},
	}
	for what, n := range count {
		if limit, known := want[what]; !known || n < limit[0] || n > limit[1] {
			b.Errorf("%d x %s, want between %d and %d", n, what, limit[0], limit[1])
		}
	}
}

// TestABadImageLeavesTheOldFleetAloneAndAFixRepairsIt is rows 2 and 6: however often it is reconciled, one bad pod.
func TestABadImageLeavesTheOldFleetAloneAndAFixRepairsIt(t *testing.T) {
	b := settled(t)
	b.patch("demo", `{"spec":{"image":"router:bad"}}`)
	b.has("demo", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonImagePullFailed)
	b.has("demo", v1alpha1.ConditionRollingOut, metav1.ConditionFalse, v1alpha1.ReasonHeld)
	b.has("demo", v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonMinimumReplicasAvailable)
	b.atRest(2)
	for range 100 {
		if _, err := b.op.Reconcile(t.Context(), reconcile.Request{NamespacedName: keyOf(b.get("demo"))}); err != nil {
			t.Fatal(err)
		}
	}
	if writes, _ := b.op.wire.take(); len(writes) > 0 {
		t.Errorf("a held rollout writes: %v", writes)
	}
	b.patch("demo", `{"spec":{"image":"router:v3"}}`)
	b.complete("demo")
	b.has("demo", v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonNotStalled)
	fewest, most, _ := b.player.extremes()
	if fewest < 3 || most > 4 {
		t.Errorf("fewest ready %d, most live %d; want >= 3, <= 4", fewest, most)
	}
}

func TestUndoMidRollReturnsToTheOldReplicas(t *testing.T) {
	b := settled(t)
	f := b.get("demo")
	stable := f.Status.StableRevision
	kept := map[types.UID]bool{}
	for _, rs := range b.sets() {
		kept[rs.UID] = true
	}
	b.patch("demo", `{"spec":{"image":"router:hang"}}`)
	b.eventually("a successor exists", func() error {
		if n := len(b.live()); n != 4 {
			return fmt.Errorf("%d live", n)
		}
		return nil
	})
	b.patch("demo", `{"spec":{"image":"router:v1"}}`)
	b.complete("demo")
	for _, rs := range b.sets() {
		if *rs.Spec.Replicas > 0 && !kept[rs.UID] {
			t.Errorf("%s is new: the old replicas should have stayed", rs.Name)
		}
	}
	if s := b.get("demo").Status; s.UpdateRevision != stable || s.StableRevision != stable {
		t.Errorf("target %s, stable %s, want %s", s.UpdateRevision, s.StableRevision, stable)
	}
	if fewest, _, _ := b.player.extremes(); fewest < 3 {
		t.Errorf("fewest ready %d, want 3", fewest)
	}
}

// TestAnUndoAfterACompletedRollGetsTheHighestRevisionNumber keeps the history in the order of wishes.
func TestAnUndoAfterACompletedRollGetsTheHighestRevisionNumber(t *testing.T) {
	b := settled(t)
	first := b.get("demo").Status.StableRevision
	b.patch("demo", `{"spec":{"image":"router:v2"}}`)
	b.complete("demo")
	b.patch("demo", `{"spec":{"image":"router:v1"}}`)
	b.complete("demo")
	if got := b.get("demo").Status.StableRevision; got != first {
		t.Errorf("stable %s, want the first again, %s", got, first)
	}
	b.eventually("two revisions, the first with number 3 and the only mark", func() error {
		var list appsv1.ControllerRevisionList
		if err := b.api.List(b.Context(), &list, client.InNamespace(b.ns)); err != nil {
			return err
		}
		for _, cr := range list.Items {
			_, marked := cr.Annotations[v1alpha1.AnnotationStable]
			isFirst := cr.Labels[v1alpha1.LabelRevision] == first
			if marked != isFirst || isFirst && cr.Revision != 3 {
				return fmt.Errorf("%s number %d marked %v", cr.Name, cr.Revision, marked)
			}
		}
		if len(list.Items) != 2 {
			return fmt.Errorf("%d revisions", len(list.Items))
		}
		return nil
	})
}

func TestTheHistoryIsLimited(t *testing.T) {
	b := settled(t, func(f *v1alpha1.RouterFleet) { f.Spec.Rollout.RevisionHistoryLimit = new(int32) })
	for i := range 3 {
		b.patch("demo", fmt.Sprintf(`{"spec":{"image":"router:v%d"}}`, i+2))
		b.complete("demo")
	}
	b.eventually("one revision is left", func() error {
		var list appsv1.ControllerRevisionList
		if err := b.api.List(b.Context(), &list, client.InNamespace(b.ns)); err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("%d revisions", len(list.Items))
		}
		return nil
	})
}

// TestScalingByTheScaleSubresourceIsFollowedAndNeverTakenOver is rows 22, 26, 27: an autoscaler writes /scale, no
// revision follows, the operator owns nothing of the spec, and selector and count agree.
func TestScalingByTheScaleSubresourceIsFollowedAndNeverTakenOver(t *testing.T) {
	b := settled(t)
	revision := b.get("demo").Status.UpdateRevision
	scale := func(n int32) {
		s := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
		if err := b.api.SubResource("scale").Update(t.Context(), b.get("demo"), client.WithSubResourceBody(s), client.FieldOwner("hpa")); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int32{5, 2, 4} {
		scale(n)
		f := b.complete("demo")
		if *f.Status.ReadyReplicas != n || *f.Spec.Replicas != n {
			t.Errorf("scaled to %d: spec %d, ready %d", n, *f.Spec.Replicas, *f.Status.ReadyReplicas)
		}
		if f.Status.UpdateRevision != revision {
			t.Errorf("scaling made revision %s", f.Status.UpdateRevision)
		}
		var got autoscalingv1.Scale
		if err := b.api.SubResource("scale").Get(t.Context(), f, &got); err != nil {
			t.Fatal(err)
		}
		b.eventually("selector and count of /scale agree", func() error {
			selected := 0
			for _, pod := range b.pods() {
				if pod.Labels[v1alpha1.LabelFleet] == "demo" && pod.DeletionTimestamp == nil {
					selected++
				}
			}
			if got.Status.Selector != "routerfleet.io/fleet=demo" || int(got.Status.Replicas) != selected {
				return fmt.Errorf("/scale says %+v, %d pods match", got.Status, selected)
			}
			return nil
		})
	}
	for _, m := range b.get("demo").ManagedFields {
		if m.Manager == v1alpha1.FieldManager && strings.Contains(m.FieldsV1.GetRawString(), "f:spec") {
			t.Errorf("the operator owns fields of the spec: %s", m.FieldsV1.GetRawString())
		}
	}
}

// TestPauseStopsTheRolloutAndNotTheScaling is row 12.
func TestPauseStopsTheRolloutAndNotTheScaling(t *testing.T) {
	b := settled(t)
	stable := b.get("demo").Status.StableRevision
	b.patch("demo", `{"spec":{"image":"router:v2","replicas":5,"rollout":{"state":"Paused"}}}`)
	b.has("demo", v1alpha1.ConditionRollingOut, metav1.ConditionFalse, v1alpha1.ReasonPaused)
	b.eventually("five of the stable revision are ready", func() error {
		if s := b.get("demo").Status; *s.ReadyReplicas != 5 {
			return fmt.Errorf("%d ready", *s.ReadyReplicas)
		}
		return nil
	})
	for _, name := range b.live() {
		if !strings.Contains(name, stable) {
			t.Errorf("%s was created while paused", name)
		}
	}
	b.patch("demo", `{"spec":{"rollout":{"state":"Running"}}}`)
	b.complete("demo")
	b.eventually("each transition has one event", func() error {
		count := map[string]int{}
		var list eventsv1.EventList
		if err := b.api.List(b.Context(), &list, client.InNamespace(b.ns)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Regarding.Kind == "RouterFleet" {
				count[e.Reason]++
			}
		}
		for _, reason := range []string{v1alpha1.EventRolloutStarted, v1alpha1.EventRolloutPaused, v1alpha1.EventRolloutResumed} {
			if count[reason] != 1 {
				return fmt.Errorf("%d x %s in %v", count[reason], reason, count)
			}
		}
		if count[v1alpha1.EventRolloutCompleted] != 2 || count[v1alpha1.EventReplicaSurged] != 10 || count[v1alpha1.EventReplicaRetired] != 5 {
			return fmt.Errorf("%v, want 2 completions, 10 replicas created, 5 retired", count)
		}
		return nil
	})
}

// TestAnOperatorThatDiesAfterEachWriteConverges is the crash test on the API: every operator lives for one write of a
// child, then another one takes over with nothing but the objects.
func TestAnOperatorThatDiesAfterEachWriteConverges(t *testing.T) {
	b := newBenchWithoutOperator(t)
	b.player.net.setWorkers(2)
	b.fleet("demo", 2)
	generation := int64(0)
	rolled := false
	for life := 1; ; life++ {
		if life > 60 {
			t.Fatalf("not converged after %d operators\n%s", life, b.dump())
		}
		if b.liveOneWrite(life) {
			if rolled {
				break
			}
			rolled = true
			generation = b.patch("demo", `{"spec":{"image":"router:v2"}}`)
			b.player.mark()
		}
	}
	if f := b.get("demo"); f.Generation != generation || !toldComplete(f.Status, generation) || f.Status.StableRevision != f.Status.UpdateRevision {
		t.Errorf("the end: %+v", f.Status)
	}
	fewest, most, _ := b.player.extremes()
	if live := b.live(); len(live) != 2 || fewest < 2 || most > 3 {
		t.Errorf("live %v, fewest ready %d, most live %d", live, fewest, most)
	}
}

// liveOneWrite runs an operator that is cut off from the API server right after its first write that changed a child, or
// until it told Complete without one. It gives the latter.
func (b *bench) liveOneWrite(life int) (complete bool) {
	b.Helper()
	op := startOperator(b.T, b.ns, b.player.net, nil)
	defer op.stop()
	var dead atomic.Bool
	op.wire.setFault(func(req *http.Request) *http.Response {
		if dead.Load() && req.Method != http.MethodGet {
			return answer(req, http.StatusInternalServerError, metav1.StatusReasonInternalError, "the operator is dead")
		}
		return nil
	})
	op.wire.setAfter(func(req *http.Request, resp *http.Response) {
		if changesAChild(req, resp) {
			dead.Store(true)
		}
	})
	b.eventually(fmt.Sprintf("operator %d wrote a child", life), func() error {
		f := b.get("demo")
		complete = !dead.Load() && toldComplete(f.Status, f.Generation) && len(b.sets()) == 2
		if dead.Load() || complete {
			return nil
		}
		return errors.New("nothing written yet")
	})
	return complete
}

// changesAChild leaves out status, events, and applies that found everything as intended.
func changesAChild(req *http.Request, resp *http.Response) bool {
	switch {
	case strings.Contains(req.URL.Path, "/events"), strings.HasSuffix(req.URL.Path, "/status"), resp.StatusCode > 299:
		return false
	case req.Method == http.MethodPatch && strings.Contains(req.Header.Get("Content-Type"), "apply-patch"):
		return resp.StatusCode == http.StatusCreated
	default:
		return req.Method != http.MethodGet
	}
}
