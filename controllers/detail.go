package controllers

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/prober"
	"github.com/routerfleet/routerfleet/controllers/rollout"
)

// detailOf gives a row for each replica and each draining pod, those that are not steady first, and how many rows
// beyond the cap are left out.
func detailOf(f facts) ([]v1alpha1.ReplicaStatus, int32) {
	var rows []v1alpha1.ReplicaStatus
	slots := map[string]rollout.ReplicaSet{}
	for _, r := range f.decision.Replicas {
		slots[string(r.ReplicaSet.UID)] = r.ReplicaSet
		if r.Pod != nil {
			rows = append(rows, rowOf(f, r))
		}
	}
	for _, pod := range f.terminating {
		row := v1alpha1.ReplicaStatus{Name: pod.Name, State: v1alpha1.ReplicaTerminating}
		if rs, live := slots[string(pod.ReplicaSet)]; live {
			row.Slot, row.Revision = ptr.To(rs.Slot), rs.Revision
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b v1alpha1.ReplicaStatus) int {
		return cmp.Or(
			compareSteady(a, b),
			cmp.Compare(ptr.Deref(a.Slot, -1), ptr.Deref(b.Slot, -1)),
			strings.Compare(a.Name, b.Name),
		)
	})
	truncated := max(0, len(rows)-v1alpha1.MaxReplicasDetail)
	rows = rows[:len(rows)-truncated]
	for i := range rows {
		rows[i].Since = sinceOf(rows[i], f.previous, f.now)
	}
	return rows, int32(truncated)
}

func compareSteady(a, b v1alpha1.ReplicaStatus) int {
	return cmp.Compare(count(a.State == v1alpha1.ReplicaReady), count(b.State == v1alpha1.ReplicaReady))
}

func rowOf(f facts, r rollout.Replica) v1alpha1.ReplicaStatus {
	row := v1alpha1.ReplicaStatus{
		Name: r.Pod.Name, Slot: ptr.To(r.ReplicaSet.Slot), Revision: r.ReplicaSet.Revision,
		State: stateOf(f, r), Reason: string(r.Failure),
	}
	if row.State == v1alpha1.ReplicaReady {
		row.Since = ptr.To(metav1.NewTime(r.Pod.ReadySince))
	}
	return row
}

func stateOf(f facts, r rollout.Replica) v1alpha1.ReplicaState {
	switch {
	case r.Ready:
		return v1alpha1.ReplicaReady
	case r.Class == rollout.ClassFailed:
		return v1alpha1.ReplicaFailed
	case !r.Pod.Running:
		return v1alpha1.ReplicaPending
	case silent(f.answers[r.Pod.Container], f.now):
		return v1alpha1.ReplicaUnreachable
	default:
		return v1alpha1.ReplicaStarting
	}
}

// silent tells whether a router was asked and has not answered for long enough to say so.
func silent(a rollout.Answer, now metav1.Time) bool {
	return !a.SilentSince.IsZero() && now.Sub(a.SilentSince) >= prober.Silence-answerSlack
}

// answerSlack makes up for the clock of conditions, which counts whole seconds: the prober wakes the reconciler exactly
// when Silence is over, and that moment must not be missed by rounding.
const answerSlack = 1e9

// sinceOf is when a row's state began: as it says itself, as the previous status says of the same state, or now.
func sinceOf(row v1alpha1.ReplicaStatus, previous v1alpha1.RouterFleetStatus, now metav1.Time) *metav1.Time {
	if row.Since != nil {
		return row.Since
	}
	for _, was := range previous.ReplicasDetail {
		if was.Name == row.Name && was.State == row.State && was.Since != nil {
			return was.Since
		}
	}
	return &now
}
