package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

// conditionReady summarises. The first input that does not hold gives the reason:
//
//  1. the fleet is scaled to zero: nothing is meant to serve
//  2. a child could not be applied
//  3. Available is not true
//  4. WorkersDiscovered is not true; Unknown makes Ready Unknown
//  5. Stalled is true
func conditionReady(f facts, available, workers, stalled metav1.Condition) metav1.Condition {
	not := func(reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	}
	switch {
	case scaledToZero(f):
		return not(v1alpha1.ReasonScaledToZero, "replicas is 0")
	case len(f.conflicts)+len(f.invalid) > 0:
		return not(v1alpha1.ReasonDependenciesNotReady, stalled.Message)
	case f.failing:
		return not(v1alpha1.ReasonDependenciesNotReady, "a child could not be applied and is tried again; see the operator's log")
	case available.Status != metav1.ConditionTrue:
		return not(v1alpha1.ReasonNotAvailable, available.Message)
	case workers.Status != metav1.ConditionTrue:
		return condition(v1alpha1.ConditionReady, workers.Status, v1alpha1.ReasonWorkersNotDiscovered, workers.Message)
	case stalled.Status == metav1.ConditionTrue:
		return not(v1alpha1.ReasonRolloutStalled, stalled.Message)
	default:
		return condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonFleetReady, "the fleet serves")
	}
}
