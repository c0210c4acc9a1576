package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/rollout"
)

// conditionReconciling is true while the fleet is on its way to its spec: never at rest, and not while stalled (kstatus
// reads the two together).
func conditionReconciling(f facts, stalled metav1.Condition) metav1.Condition {
	settled := f.decision.Reason == rollout.Complete && !f.unrecorded() || f.decision.Reason == rollout.Paused
	if settled && !f.failing || stalled.Status == metav1.ConditionTrue {
		return condition(v1alpha1.ConditionReconciling, metav1.ConditionFalse, v1alpha1.ReasonSettled, "nothing is to be done")
	}
	message := f.decision.Note
	if settled {
		message = "a child could not be applied and is tried again"
	}
	return condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonProgressing, message)
}
