package controllers

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/rollout"
)

// stalledReasons maps failures of a replica that should come into being. Others (an ended pod that is being replaced)
// pass by themselves.
var stalledReasons = map[rollout.Failure]string{
	rollout.ImagePullFailed:  v1alpha1.ReasonImagePullFailed,
	rollout.CrashLooping:     v1alpha1.ReasonCrashLooping,
	rollout.ContainerInvalid: v1alpha1.ReasonInvalidSpec,
	rollout.Unschedulable:    v1alpha1.ReasonUnschedulable,
	rollout.QuotaExceeded:    v1alpha1.ReasonQuotaExceeded,
	rollout.PodRefused:       v1alpha1.ReasonInvalidSpec,
	rollout.Silent:           v1alpha1.ReasonStatusUnreachable,
}

// conditionStalled says that the fleet will not get to its spec by itself. The first that holds:
//
//  1. a child's name is taken by somebody else
//  2. the spec cannot be rendered, or the API server refuses a child
//  3. a replica of the wanted revision failed; of several, the lowest slot's
//  4. the rollout made no progress for progressDeadlineSeconds
func conditionStalled(f facts) metav1.Condition {
	yes := func(reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
	}
	switch {
	case len(f.conflicts) > 0:
		return yes(v1alpha1.ReasonOwnershipConflict, listed(f.conflicts))
	case f.unrendered != "":
		return yes(v1alpha1.ReasonInvalidSpec, f.unrendered)
	case len(f.invalid) > 0:
		return yes(v1alpha1.ReasonInvalidSpec, listed(f.invalid))
	}
	for _, r := range f.decision.Replicas {
		reason := stalledReasons[r.Failure]
		if reason != "" && r.ReplicaSet.Runs(f.target) {
			return yes(reason, r.Explain())
		}
	}
	if f.decision.DeadlineExceeded {
		return yes(v1alpha1.ReasonProgressDeadlineExceeded,
			fmt.Sprintf("no progress for %d s: %s", f.fleet.Spec.Rollout.ProgressDeadlineSeconds, f.decision.Note))
	}
	return condition(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonNotStalled, "nothing stands in the way")
}

// listed joins problems in a steady order.
func listed(problems []problem) string {
	var out []string
	for _, p := range problems {
		out = append(out, p.String())
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}
