package controllers

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

// conditionAvailable says whether as many replicas serve as are asked for.
func conditionAvailable(f facts) metav1.Condition {
	want, ready := int(*f.fleet.Spec.Replicas), readyReplicas(f)
	not := func(reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, reason, message)
	}
	switch {
	case scaledToZero(f):
		return not(v1alpha1.ReasonScaledToZero, "replicas is 0")
	case ready == 0:
		return not(v1alpha1.ReasonNoReplicas, "no replica is ready")
	case ready < want-maxUnavailable:
		return not(v1alpha1.ReasonMinimumReplicasUnavailable, fmt.Sprintf("%d of %d replicas are ready", ready, want))
	default:
		return condition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonMinimumReplicasAvailable,
			fmt.Sprintf("at least %d replicas are ready", want-maxUnavailable))
	}
}
