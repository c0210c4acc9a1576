//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/test/e2e/live"
)

// rollTimeout is what a roll of three replicas gets on two busy cores.
const rollTimeout = 3 * time.Minute

func TestAnImageChangeRollsOneSlotAtATimeAndFailsNoRequest(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(2)
	f := s.createFleet("rolls", replicas(3))
	before, stable := f.uids(), f.get().Status.StableRevision
	load := f.startLoad()
	witness := f.witnessRoll(3)

	f.mustApply(replicas(3), image(f.images.routerNext))
	took := f.eventually(rollTimeout, "the new image is rolled out", func() error { return f.settled(f.get()) })
	witness.verdict(f)
	f.everyPodRuns(f.images.routerNext)
	for uid := range f.uids() {
		if before[uid] {
			t.Errorf("pod %s of the old revision is still there", uid)
		}
	}
	if got := f.get().Status.StableRevision; got == stable {
		t.Errorf("status.stableRevision is still %s", got)
	}
	result := load.mustHaveServedAll()
	t.Logf("rolled 3 replicas in %s under load: %d requests, none failed", took.Round(100*time.Millisecond), result.Requests)
}

// everyPodRuns checks what the living pods run.
func (f *fleet) everyPodRuns(image string) {
	f.Helper()
	for _, pod := range f.pods() {
		if got := pod.Spec.Containers[0].Image; got != image {
			f.Errorf("pod %s runs %s, want %s", pod.Name, got, image)
		}
	}
}

func TestWaitingForRollingOutFalseRightAfterAnApplyWaitsForTheTrueEnd(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(1)
	f := s.createFleet("waits", replicas(2))

	f.mustApply(replicas(2), image(f.images.routerNext))
	f.mustKubectl("wait", "--for=condition=RollingOut=False", "rf/"+f.name, "--timeout=150s")
	// What is read next was true when kubectl returned: nothing in here waits.
	pods, fleet := f.pods(), f.get()
	if len(pods) != 2 {
		t.Errorf("%d pods live when the wait returned, want 2", len(pods))
	}
	for i := range pods {
		if !live.PodReady(&pods[i]) || pods[i].Spec.Containers[0].Image != f.images.routerNext {
			t.Errorf("pod %s: ready %v, image %s; want ready with %s",
				pods[i].Name, live.PodReady(&pods[i]), pods[i].Spec.Containers[0].Image, f.images.routerNext)
		}
	}
	if err := f.settled(fleet); err != nil {
		t.Errorf("the status when the wait returned: %v", err)
	}
}

func TestAFleetSurvivesItsOperatorBeingKilledInTheMiddleOfARoll(t *testing.T) {
	// Not parallel: it takes the operator away from everybody.
	s := newScope(t)
	s.startEngines(2)
	f := s.createFleet("orphan", replicas(3))
	load := f.startLoad()
	witness := f.witnessRoll(3)

	f.mustApply(replicas(3), image(f.images.routerNext))
	f.await("the first successor exists", func() error { return f.atLeastNew(1) })
	s.killOperator()
	f.await("one slot is done", func() error { return f.atLeastNew(2) })
	if f.settled(f.get()) == nil {
		t.Fatal("the roll was over before the operator was killed in its middle")
	}
	s.killOperator()

	took := f.eventually(rollTimeout, "the roll ends", func() error { return f.settled(f.get()) })
	witness.verdict(f)
	f.everyPodRuns(f.images.routerNext)
	result := load.mustHaveServedAll()
	t.Logf("rolled out %s after the second kill: %d requests, none failed", took.Round(100*time.Millisecond), result.Requests)
}

// atLeastNew is nil once n living pods run the next image.
func (f *fleet) atLeastNew(n int) error {
	found := 0
	for _, pod := range f.pods() {
		if pod.Spec.Containers[0].Image == f.images.routerNext {
			found++
		}
	}
	if found < n {
		return fmt.Errorf("%d pods run the new image", found)
	}
	return nil
}

// killOperator takes every manager pod away at once, without a chance to say goodbye.
func (s *scope) killOperator() {
	s.Helper()
	now := int64(0)
	pods := s.Client.CoreV1().Pods(live.OperatorNamespace)
	list, err := pods.List(s.ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		s.Fatalf("list the operator's pods: %v, %d found", err, len(list.Items))
	}
	for _, pod := range list.Items {
		if err := pods.Delete(s.ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			s.Fatalf("kill the operator's pod %s: %v", pod.Name, err)
		}
	}
}

func TestAPausedRolloutStopsAndGoesOnWhenResumed(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(1)
	f := s.createFleet("pauses", replicas(2))
	before := f.uids()

	f.mustApply(replicas(2), image(f.images.routerNext), set("rollout.state", string(v1alpha1.RolloutPaused)))
	f.await("the fleet says Paused", func() error {
		return hasCondition(f.get(), v1alpha1.ConditionRollingOut, metav1.ConditionFalse, v1alpha1.ReasonPaused)
	})
	f.consistently(3*time.Second, "no pod of a paused fleet changes", func() error {
		for uid := range f.uids() {
			if !before[uid] {
				return errors.New("there is a new pod " + uid)
			}
		}
		return same("living pods", len(f.pods()), 2)
	})
	f.mustKubectl("scale", "rf/"+f.name, "--replicas=3")
	f.await("a paused fleet still scales", func() error { return same("living pods", len(f.pods()), 3) })

	f.mustApply(replicas(3), image(f.images.routerNext))
	f.eventually(rollTimeout, "the resumed rollout ends", func() error { return f.settled(f.get()) })
	f.everyPodRuns(f.images.routerNext)
}

func TestADeletedRouterPodIsReplacedInItsSlot(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(1)
	f := s.createFleet("heals", replicas(2))
	victim := f.pods()[0]
	if err := f.client.Delete(f.ctx, victim.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	f.await("another pod took the slot", func() error {
		pods := f.pods()
		uids := f.uids()
		if len(pods) != 2 || uids[string(victim.UID)] {
			return fmt.Errorf("%d pods live, the victim among them: %v", len(pods), uids[string(victim.UID)])
		}
		slots := slotsOf(pods)
		return all(same("pods in slot 0", slots["0"], 1), same("pods in slot 1", slots["1"], 1))
	})
	f.awaitReady()
}
