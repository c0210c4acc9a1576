//go:build envtest

package controllers

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"
)

// TestAForeignObjectOfAChildsNameIsLeftAloneAndNamed: the rest of the fleet is built all the same.
func TestAForeignObjectOfAChildsNameIsLeftAloneAndNamed(t *testing.T) {
	b := newBench(t)
	b.player.net.setWorkers(2)
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "demo"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}
	if err := b.api.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	b.fleet("demo", 2)
	b.has("demo", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonOwnershipConflict)
	b.has("demo", v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonMinimumReplicasAvailable)
	b.has("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDependenciesNotReady)
	if m := messageOf(b.get("demo").Status, v1alpha1.ConditionStalled); !strings.Contains(m, "Service demo:") {
		t.Errorf("the message does not name the object: %s", m)
	}
	var got corev1.Service
	if err := b.api.Get(t.Context(), client.ObjectKeyFromObject(foreign), &got); err != nil || len(got.OwnerReferences) > 0 || got.Spec.Ports[0].Port != 1 {
		t.Errorf("the foreign Service was touched: %+v %v", got, err)
	}
	if err := b.api.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	b.op.wake(keyOf(b.get("demo"))) // it would come by itself after problemRetry
	b.has("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonFleetReady)
}

// TestDriftOfEachChildIsRepaired: deleted children come back, edited ones return to the intent, an edited pod template
// is replaced by a new ReplicaSet.
func TestDriftOfEachChildIsRepaired(t *testing.T) {
	b := settled(t)
	for _, o := range []client.Object{
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "demo"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "demo-peers"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "demo-router"}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "demo-router"}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "demo-router"}},
	} {
		o.SetNamespace(b.ns)
		if err := b.api.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		b.eventually(fmt.Sprintf("%T %s is back", o, o.GetName()), func() error {
			return b.api.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		})
	}
	role := &rbacv1.Role{}
	key := types.NamespacedName{Namespace: b.ns, Name: "demo-router"}
	if err := b.api.Get(t.Context(), key, role); err != nil {
		t.Fatal(err)
	}
	want := role.DeepCopy().Rules
	role.Rules = nil
	if err := b.api.Update(t.Context(), role, client.FieldOwner("someone")); err != nil {
		t.Fatal(err)
	}
	b.eventually("the Role has its rules again", func() error {
		if err := b.api.Get(t.Context(), key, role); err != nil {
			return err
		}
		if len(role.Rules) != len(want) {
			return fmt.Errorf("%d rules", len(role.Rules))
		}
		return nil
	})
	rs := b.sets()[1]
	rs.Spec.Template.Spec.Containers[0].Image = "router:hacked"
	if err := b.api.Update(t.Context(), &rs); err != nil {
		t.Fatal(err)
	}
	b.eventually("the edited ReplicaSet is replaced", func() error {
		for _, now := range b.sets() {
			if now.UID == rs.UID {
				return fmt.Errorf("%s is still there", now.Name)
			}
		}
		return nil
	})
	b.complete("demo")
	if fewest, _, _ := b.player.extremes(); fewest < 3 {
		t.Errorf("fewest ready %d", fewest)
	}
}

// TestAnErrorOfOneChildStopsNoOther is row 20.
func TestAnErrorOfOneChildStopsNoOther(t *testing.T) {
	b := newBench(t)
	b.player.net.setWorkers(2)
	b.op.wire.setFault(func(req *http.Request) *http.Response {
		if req.Method == http.MethodPatch && strings.HasSuffix(req.URL.Path, "/services/demo") {
			return answer(req, http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd is tired")
		}
		return nil
	})
	b.fleet("demo", 2)
	b.has("demo", v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonMinimumReplicasAvailable)
	b.has("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDependenciesNotReady)
	b.op.wire.setFault(nil)
	b.op.wake(keyOf(b.get("demo"))) // it would come by itself, later each time it failed
	b.has("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonFleetReady)
}

// TestARefusedChildIsNamedAndStopsNoOther is the other half: the API server says no and means it.
func TestARefusedChildIsNamedAndStopsNoOther(t *testing.T) {
	b := newBench(t)
	b.player.net.setWorkers(2)
	b.op.wire.setFault(func(req *http.Request) *http.Response {
		if req.Method == http.MethodPatch && strings.HasSuffix(req.URL.Path, "/services/demo") {
			return answer(req, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "spec.clusterIP: field is immutable")
		}
		return nil
	})
	b.fleet("demo", 2)
	b.has("demo", v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonMinimumReplicasAvailable)
	b.has("demo", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidSpec)
	if m := messageOf(b.get("demo").Status, v1alpha1.ConditionStalled); m != "Service demo: spec.clusterIP: field is immutable" {
		t.Errorf("message %q", m)
	}
}

// TestAConflictOnRetireMakesItLookAgain: 409 is no error, the plan is made anew.
func TestAConflictOnRetireMakesItLookAgain(t *testing.T) {
	b := settled(t)
	var refused atomic.Int32
	b.op.wire.setFault(func(req *http.Request) *http.Response {
		if req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/replicasets/") && refused.Add(1) <= 2 {
			return answer(req, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
		}
		return nil
	})
	b.patch("demo", `{"spec":{"image":"router:v2"}}`)
	b.complete("demo")
	if n := refused.Load(); n < 5 {
		t.Errorf("%d retirements were sent, want 3 after 2 refused", n)
	}
	if fewest, most, _ := b.player.extremes(); fewest < 3 || most > 4 {
		t.Errorf("fewest ready %d, most live %d", fewest, most)
	}
}

// TestAFleetBeingDeletedIsLeftToTheGarbageCollector: nothing is created for it any more.
func TestAFleetBeingDeletedIsLeftToTheGarbageCollector(t *testing.T) {
	b := settled(t)
	b.patch("demo", `{"metadata":{"finalizers":["test/hold"]}}`)
	if err := b.api.Delete(t.Context(), b.get("demo")); err != nil {
		t.Fatal(err)
	}
	b.player.pause(true)
	b.eventually("the deletion is seen", func() error {
		if b.op.prober.Answers(types.NamespacedName{Namespace: b.ns, Name: "demo"}) != nil {
			return fmt.Errorf("its routers are still asked")
		}
		return nil
	})
	b.op.wire.take()
	for _, rs := range b.sets() {
		if err := b.api.Delete(t.Context(), &rs, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
			t.Fatal(err)
		}
	}
	b.atRest(2)
	if n := len(b.live()); n > 0 && b.sets()[0].DeletionTimestamp == nil {
		t.Errorf("%d ReplicaSets were created for a fleet that goes", n)
	}
	b.patch("demo", `{"metadata":{"finalizers":null}}`)
}

// TestWorkersAreFollowedAtRest: engines go and come, nothing else moves.
func TestWorkersAreFollowedAtRest(t *testing.T) {
	b := settled(t)
	b.player.net.setWorkers(0)
	b.has("demo", v1alpha1.ConditionWorkersDiscovered, metav1.ConditionFalse, v1alpha1.ReasonNoWorkers)
	b.has("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWorkersNotDiscovered)
	b.player.net.setWorkers(4)
	b.has("demo", v1alpha1.ConditionWorkersDiscovered, metav1.ConditionTrue, v1alpha1.ReasonWorkersFound)
	b.eventually("four workers", func() error {
		if w := b.get("demo").Status.Workers; w == nil || *w.Discovered != 4 {
			return fmt.Errorf("%+v", w)
		}
		return nil
	})
	b.player.net.setWorkers(-1)
	b.has("demo", v1alpha1.ConditionWorkersDiscovered, metav1.ConditionUnknown, v1alpha1.ReasonStatusUnreachable)
	b.op.wire.take()
	b.atRest(3)
}

// TestUntrustedStreamsAreSaidAsTheySpread: a rank in the message, all of them in the reason, and back; at rest nothing moves.
func TestUntrustedStreamsAreSaidAsTheySpread(t *testing.T) {
	b := settled(t)
	b.player.net.setWorkers(3)
	b.eventually("three are subscribed", func() error {
		if w := b.get("demo").Status.Workers; w == nil || w.Subscribed == nil || *w.Subscribed != 3 {
			return fmt.Errorf("%+v", w)
		}
		return nil
	})
	b.player.net.setUntrusted(2)
	b.eventually("two ranks are named", func() error {
		if m := messageOf(b.get("demo").Status, v1alpha1.ConditionWorkersDiscovered); !strings.Contains(m, "kv_stream_untrusted (2)") {
			return errors.New(m)
		}
		return nil
	})
	b.has("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonFleetReady)
	b.player.net.setUntrusted(3)
	b.has("demo", v1alpha1.ConditionWorkersDiscovered, metav1.ConditionFalse, v1alpha1.ReasonKVStreamUntrusted)
	b.atRest(3)
	b.player.net.setUntrusted(0)
	b.has("demo", v1alpha1.ConditionWorkersDiscovered, metav1.ConditionTrue, v1alpha1.ReasonWorkersFound)
}

// TestAStatusThatSomebodyChangedIsWrittenAgain, at rest and to the letter: times too.
func TestAStatusThatSomebodyChangedIsWrittenAgain(t *testing.T) {
	b := settled(t)
	b.atRest(1)
	want := b.get("demo").Status
	for name, spoil := range map[string]func(*v1alpha1.RouterFleetStatus){
		"wiped": func(s *v1alpha1.RouterFleetStatus) { *s = v1alpha1.RouterFleetStatus{} },
		"falsified": func(s *v1alpha1.RouterFleetStatus) {
			s.ReadyReplicas, s.StableRevision = ptr.To[int32](7), "forged"
			s.Conditions[0].Status, s.Conditions[0].LastTransitionTime = metav1.ConditionUnknown, metav1.NewTime(time.Unix(0, 0))
			s.Rollout.LastProgressTime = ptr.To(metav1.NewTime(time.Unix(0, 0)))
		},
	} {
		b.eventually(name+" by kubectl", func() error {
			f := b.get("demo")
			spoil(&f.Status)
			return b.api.Status().Update(t.Context(), f, client.FieldOwner("kubectl"))
		})
		b.eventually(name+" is repaired", func() error {
			if got := b.get("demo").Status; !equality.Semantic.DeepEqual(want, got) {
				return fmt.Errorf("want %+v, have %+v", want, got)
			}
			return nil
		})
		b.atRest(1)
	}
}

// TestAnOperatorRestartChangesNothing: neither status nor children move, although nothing is remembered.
func TestAnOperatorRestartChangesNothing(t *testing.T) {
	b := settled(t)
	b.atRest(1)
	before := b.get("demo").ResourceVersion
	b.op.stop()
	op := startOperator(t, b.ns, b.player.net, nil)
	b.op = op
	b.eventually("the new operator has asked the routers", func() error {
		if n := len(op.prober.Answers(types.NamespacedName{Namespace: b.ns, Name: "demo"})); n != 3 {
			return fmt.Errorf("%d answers", n)
		}
		return nil
	})
	b.atRest(2)
	if after := b.get("demo").ResourceVersion; after != before {
		t.Errorf("the fleet moved from %s to %s\n%s", before, after, b.dump())
	}
	for _, rs := range b.sets() {
		if rs.Generation != 1 {
			t.Errorf("ReplicaSet %s was changed", rs.Name)
		}
	}
}

// TestAnEditThatConcernsNoPodAdvancesTheGenerationAndNothingElse is row 28.
func TestAnEditThatConcernsNoPodAdvancesTheGenerationAndNothingElse(t *testing.T) {
	b := settled(t)
	was := b.get("demo").Status
	generation := b.patch("demo", `{"spec":{"service":{"labels":{"team":"a"}},"rollout":{"progressDeadlineSeconds":700}}}`)
	f := b.complete("demo")
	if f.Status.ObservedGeneration != generation || f.Status.UpdateRevision != was.UpdateRevision {
		t.Errorf("generation %d observed %d, revision %s was %s", generation, f.Status.ObservedGeneration, f.Status.UpdateRevision, was.UpdateRevision)
	}
	var s corev1.Service
	if err := b.api.Get(t.Context(), types.NamespacedName{Namespace: b.ns, Name: "demo"}, &s); err != nil || s.Labels["team"] != "a" {
		t.Errorf("the Service has labels %v, %v", s.Labels, err)
	}
	if _, most, _ := b.player.extremes(); most != 3 {
		t.Errorf("%d replicas lived", most)
	}
}

// TestADeletedPodMakesNoRevisionAndNoDeadline is rows 9 and 19.
func TestADeletedPodMakesNoRevisionAndNoDeadline(t *testing.T) {
	b := settled(t)
	was := b.get("demo").Status
	for range 3 {
		pod := b.pods()[0]
		if err := b.api.Delete(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
		b.eventually("it is replaced", func() error {
			ready := 0
			for _, now := range b.pods() {
				if now.UID == pod.UID {
					return fmt.Errorf("not gone yet")
				}
				if isReady(&now) {
					ready++
				}
			}
			if ready != 3 {
				return fmt.Errorf("%d ready", ready)
			}
			return nil
		})
	}
	f := b.complete("demo")
	if f.Status.UpdateRevision != was.UpdateRevision || !f.Status.Rollout.LastProgressTime.Equal(was.Rollout.LastProgressTime) {
		t.Errorf("a pod's death moved the rollout: %+v", f.Status.Rollout)
	}
	for _, e := range b.live() {
		if !strings.Contains(e, was.UpdateRevision) {
			t.Errorf("%s is new", e)
		}
	}
}

// TestADrainingPodKeepsItsReplicaSet: deleted earlier, it would leave its pod without a controller and block every
// eviction of the fleet.
func TestADrainingPodKeepsItsReplicaSet(t *testing.T) {
	b := settled(t)
	for _, pod := range b.pods() {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"test/stuck":"yes"}}}`))
		if err := b.api.Patch(t.Context(), &pod, patch); err != nil {
			t.Fatal(err)
		}
	}
	b.patch("demo", `{"spec":{"image":"router:v2"}}`)
	b.complete("demo")
	sets := b.sets()
	if len(sets) != 6 {
		t.Errorf("%d ReplicaSets while three pods drain, want 6", len(sets))
	}
	if s := b.get("demo").Status; *s.TerminatingReplicas != 3 || *s.Replicas != 3 {
		t.Errorf("replicas %d, terminating %d; want 3 and 3", *s.Replicas, *s.TerminatingReplicas)
	}
	for _, rs := range sets {
		if *rs.Spec.Replicas == 0 && rs.Annotations[v1alpha1.AnnotationRetiredReason] == "" {
			t.Errorf("%s does not say why it retired", rs.Name)
		}
	}
	for _, pod := range b.pods() {
		if pod.DeletionTimestamp != nil {
			if err := b.api.Delete(t.Context(), &pod, client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.eventually("the retired sets go with their pods", func() error {
		if n := len(b.sets()); n != 3 {
			return fmt.Errorf("%d ReplicaSets", n)
		}
		return nil
	})
}

// TestALostTokensSecretIsMadeAnew, within tokensAge and when something wakes the fleet.
func TestALostTokensSecretIsMadeAnew(t *testing.T) {
	b := newBenchWithoutOperator(t)
	b.player.net.setWorkers(1)
	b.op = startOperator(t, b.ns, b.player.net, nil)
	clock := atomic.Int64{}
	b.op.now = func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
	b.fleet("demo", 1)
	b.complete("demo")
	key := types.NamespacedName{Namespace: b.ns, Name: children.TokensName("demo")}
	if err := b.api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}); err != nil {
		t.Fatal(err)
	}
	clock.Store(int64(tokensAge))
	b.op.wake(keyOf(b.get("demo")))
	b.eventually("the Secret is back", func() error { return b.api.Get(t.Context(), key, &corev1.Secret{}) })
}

// TestABadFleetStarvesNoOther: one fleet whose every write fails, one that is fine.
func TestABadFleetStarvesNoOther(t *testing.T) {
	b := newBench(t)
	b.player.net.setWorkers(1)
	b.op.wire.setFault(func(req *http.Request) *http.Response {
		if req.Method != http.MethodGet && strings.Contains(req.URL.Path, "/bad") {
			return answer(req, http.StatusInternalServerError, metav1.StatusReasonInternalError, "no")
		}
		return nil
	})
	b.fleet("bad", 1)
	b.fleet("good", 1)
	b.complete("good")
	b.has("good", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonFleetReady)
}

// Test150FleetsAtRestWriteNothing is row 21: every child is resynchronised several times, and nothing is sent.
func Test150FleetsAtRestWriteNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("creates 150 fleets")
	}
	b := newBenchWithoutOperator(t)
	b.player.net.setWorkers(1)
	sync := 4 * time.Second
	b.op = startOperator(t, b.ns, b.player.net, &sync)
	const fleets = 150
	for i := range fleets {
		b.fleet(fmt.Sprintf("f%d", i), 1)
	}
	b.within(3*time.Minute, "all are ready", func() error {
		var list v1alpha1.RouterFleetList
		if err := b.api.List(t.Context(), &list, client.InNamespace(b.ns)); err != nil {
			return err
		}
		ready := 0
		for _, f := range list.Items {
			if reasonOf(f.Status, v1alpha1.ConditionReady) == v1alpha1.ReasonFleetReady && toldComplete(f.Status, f.Generation) {
				ready++
			}
		}
		if ready != fleets {
			return fmt.Errorf("%d of %d", ready, fleets)
		}
		return nil
	})
	b.op.wire.take()
	b.op.notesAreFresh()
	var all []string
	end := time.After(3 * sync)
	<-end
	writes, reads := b.op.wire.take()
	all = append(writes, reads...)
	if len(all) > 0 {
		t.Errorf("150 fleets at rest sent %d requests in %s, the first: %s", len(all), 3*sync, all[0])
	}
}

// notesAreFresh makes every token look just read, so that reading Secrets once a minute stays out of a count.
func (r *operator) notesAreFresh() {
	r.notes.mu.Lock()
	defer r.notes.mu.Unlock()
	for name, p := range r.notes.pages {
		p.keysRead = time.Now()
		r.notes.pages[name] = p
	}
}

// TestARolloutThatNeverGetsReadyIsStalledByItsDeadline is row 8.
func TestARolloutThatNeverGetsReadyIsStalledByItsDeadline(t *testing.T) {
	b := settled(t, func(f *v1alpha1.RouterFleet) { f.Spec.Rollout.ProgressDeadlineSeconds = 3 })
	b.patch("demo", `{"spec":{"image":"router:hang"}}`)
	b.eventually("the successor exists", func() error {
		if len(b.live()) != 4 {
			return fmt.Errorf("%d live", len(b.live()))
		}
		return nil
	})
	b.has("demo", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonProgressDeadlineExceeded)
	s := b.get("demo").Status
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStalled)
	if late := c.LastTransitionTime.Sub(s.Rollout.LastProgressTime.Time); late < 3*time.Second || late > 5*time.Second {
		t.Errorf("stalled %s after the last progress, want 3 s and at most 2 more on a busy machine", late)
	}
	b.atRest(2)
	if fewest, most, _ := b.player.extremes(); fewest < 3 || most > 4 {
		t.Errorf("fewest ready %d, most live %d", fewest, most)
	}
}

// TestAStrayPodIsWarnedAboutOnce: labelled, but nobody's; it would take requests and switch the budget off.
func TestAStrayPodIsWarnedAboutOnce(t *testing.T) {
	b := settled(t)
	stray := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "stray", Labels: map[string]string{v1alpha1.LabelFleet: "demo"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}}
	if err := b.api.Create(t.Context(), stray); err != nil {
		t.Fatal(err)
	}
	warnings := func() (n int) {
		var list eventsv1.EventList
		if err := b.api.List(b.Context(), &list, client.InNamespace(b.ns)); err != nil {
			t.Error(err)
		}
		for _, e := range list.Items {
			if e.Reason == v1alpha1.EventChildConflict && strings.Contains(e.Note, "Pod stray") {
				n++
			}
		}
		return n
	}
	b.eventually("it is warned about", func() error {
		if n := warnings(); n != 1 {
			return fmt.Errorf("%d warnings", n)
		}
		return nil
	})
	for range 5 {
		b.op.wake(keyOf(b.get("demo")))
	}
	b.atRest(2)
	if n := warnings(); n != 1 {
		t.Errorf("%d warnings", n)
	}
	if s := b.get("demo").Status; *s.Replicas != 3 {
		t.Errorf("%d replicas counted", *s.Replicas)
	}
}

// TestAFleetScaledToZeroSaysSo, and boots again from nothing.
func TestAFleetScaledToZeroSaysSo(t *testing.T) {
	b := settled(t)
	b.patch("demo", `{"spec":{"replicas":0}}`)
	b.complete("demo")
	b.has("demo", v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonScaledToZero)
	b.has("demo", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonScaledToZero)
	b.eventually("nothing is left", func() error {
		if n := len(b.sets()) + len(b.pods()); n > 0 {
			return fmt.Errorf("%d objects", n)
		}
		return nil
	})
	b.patch("demo", `{"spec":{"replicas":2}}`)
	b.complete("demo")
	b.has("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonFleetReady)
}
