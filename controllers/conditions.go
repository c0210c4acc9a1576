package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditionsOf gives every condition, in the order users read them. Each is a pure function of the facts in a file of
// its own; Ready is the summary of the others. Messages hold no pod names, times or counts that move at rest, or every
// reconcile would be a write.
func conditionsOf(f facts) []metav1.Condition {
	available, workers, stalled := conditionAvailable(f), conditionWorkersDiscovered(f), conditionStalled(f)
	rolling := conditionRollingOut(f)
	return []metav1.Condition{
		conditionReady(f, available, workers, stalled),
		available,
		workers,
		rolling,
		conditionReconciling(f, stalled),
		stalled,
	}
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: cut(message)}
}

// maxMessage is what the API server accepts as a condition's message (metav1.Condition).
const maxMessage = 32768

func cut(message string) string {
	if len(message) > maxMessage {
		return message[:maxMessage-3] + "..."
	}
	return message
}

func scaledToZero(f facts) bool { return *f.fleet.Spec.Replicas == 0 }

// readyReplicas counts the Ready ones, of whatever revision: all of them serve.
func readyReplicas(f facts) int {
	n := 0
	for _, r := range f.decision.Replicas {
		if r.Ready {
			n++
		}
	}
	return n
}
