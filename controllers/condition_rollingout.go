package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/rollout"
)

// rollingOut maps the planner's reasons to the condition. True means that the operator is at work or waits for pods;
// False that it has nothing to do (Complete), may not (Paused), or cannot go on without help (Held).
var rollingOut = map[rollout.Reason]struct {
	status metav1.ConditionStatus
	reason string
}{
	rollout.ScaleIn:             {metav1.ConditionTrue, v1alpha1.ReasonRetiring},
	rollout.Fill:                {metav1.ConditionTrue, v1alpha1.ReasonSurging},
	rollout.Surging:             {metav1.ConditionTrue, v1alpha1.ReasonSurging},
	rollout.WaitingForBootstrap: {metav1.ConditionTrue, v1alpha1.ReasonWaitingForBootstrap},
	rollout.WaitingForMinReady:  {metav1.ConditionTrue, v1alpha1.ReasonWaitingForMinReady},
	rollout.Retiring:            {metav1.ConditionTrue, v1alpha1.ReasonRetiring},
	rollout.WaitingForDrain:     {metav1.ConditionTrue, v1alpha1.ReasonRetiring},
	rollout.Paused:              {metav1.ConditionFalse, v1alpha1.ReasonPaused},
	rollout.Held:                {metav1.ConditionFalse, v1alpha1.ReasonHeld},
	rollout.Complete:            {metav1.ConditionFalse, v1alpha1.ReasonComplete},
}

// conditionRollingOut says where the rollout stands. It carries the generation the decision was planned for, so that
// a wait for False right after an apply ends when that generation is complete and no sooner. An unrecorded
// revision is not complete: who waited would read the old stableRevision.
func conditionRollingOut(f facts) metav1.Condition {
	at, known := rollingOut[f.decision.Reason]
	if !known {
		at = rollingOut[rollout.Held]
	}
	message := f.decision.Note
	if f.unrecorded() {
		at, message = rollingOut[rollout.Retiring], message+"; this is to be recorded"
	}
	if f.unrendered != "" {
		at, message = rollingOut[rollout.Held], f.unrendered
	}
	if at.status == metav1.ConditionTrue && f.olderTarget && f.decision.Active {
		at.reason = v1alpha1.ReasonRollingBack
	}
	return condition(v1alpha1.ConditionRollingOut, at.status, at.reason, message)
}
