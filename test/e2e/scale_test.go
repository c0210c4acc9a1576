//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

func TestKubectlScaleChangesTheNumberOfRouters(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(1)
	f := s.createFleet("scales", replicas(2))
	before, revision := f.uids(), f.get().Status.UpdateRevision

	s.mustKubectl("scale", "rf/"+f.name, "--replicas=4")
	f.awaitReady()
	after := f.uids()
	for uid := range before {
		if !after[uid] {
			t.Errorf("scaling out replaced pod %s", uid)
		}
	}
	f.scaleSays(4)

	s.mustKubectl("scale", "rf/"+f.name, "--replicas=1")
	f.awaitReady()
	f.await("one pod is left", func() error { return same("living pods", len(f.pods()), 1) })
	f.scaleSays(1)
	if slots := slotsOf(f.pods()); slots["0"] != 1 {
		t.Errorf("scaling in kept slots %v, want the lowest", slots)
	}
	if !before[string(f.pods()[0].UID)] {
		t.Error("scaling in replaced the pod of the slot that stayed")
	}

	s.mustKubectl("scale", "rf/"+f.name, "--replicas=0")
	f.await("the fleet is empty and says so", func() error {
		fleet := f.get()
		return all(
			same("living pods", len(f.pods()), 0),
			hasCondition(fleet, v1alpha1.ConditionReady, "False", v1alpha1.ReasonScaledToZero),
			hasCondition(fleet, v1alpha1.ConditionAvailable, "False", v1alpha1.ReasonScaledToZero),
		)
	})

	s.mustKubectl("scale", "rf/"+f.name, "--replicas=2", "--current-replicas=0")
	f.awaitReady()
	if got := f.get().Status.UpdateRevision; got != revision {
		t.Errorf("scaling made a new revision: %s, was %s", got, revision)
	}
	if err := f.chats(f.forward(f.pods()[0].Name)); err != nil {
		t.Errorf("a fleet back from zero does not serve: %v", err)
	}
}

// scaleSays compares what an autoscaler reads with the living pods.
func (f *fleet) scaleSays(want int32) {
	f.Helper()
	f.await(fmt.Sprintf("/scale says %d", want), func() error {
		var scale autoscalingv1.Scale
		if err := f.client.SubResource("scale").Get(f.ctx, f.get(), &scale); err != nil {
			return err
		}
		selected, err := f.Pods(f.ctx, f.namespace, scale.Status.Selector)
		if err != nil {
			return err
		}
		return all(
			same("scale spec.replicas", scale.Spec.Replicas, want),
			same("scale status.replicas", scale.Status.Replicas, want),
			same("pods its selector finds", int32(len(selected)), want),
		)
	})
}
