package controllers

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"
	"github.com/routerfleet/routerfleet/controllers/rollout"
)

// facts are all that a status depends on.
type facts struct {
	fleet       *v1alpha1.RouterFleet
	target      string
	stable      string
	render      int // renderVersion of the target
	decision    rollout.Decision
	answers     map[rollout.Container]rollout.Answer
	terminating []rollout.Pod

	conflicts, invalid []problem
	unrendered         string // why the spec cannot be rendered
	failing            bool   // a child could not be applied and is tried again
	olderTarget        bool   // the spec asks for a revision recorded before one that still runs
	progressed         bool   // this reconcile created or retired a replica

	previous v1alpha1.RouterFleetStatus
	now      metav1.Time
}

func factsOf(p *plan, out *outcome) facts {
	f := facts{
		fleet: p.fleet, target: p.target, stable: p.stable(), render: p.revision.RenderVersion,
		decision: p.decision, answers: p.answers, conflicts: out.conflicts, invalid: out.invalid,
		failing: len(out.errs) > 0, olderTarget: p.olderTarget(), progressed: len(out.created)+len(out.retired) > 0,
		previous: p.previous, now: p.now,
	}
	if out.stable != "" {
		f.stable = out.stable
	}
	if p.invalid != nil {
		f.unrendered = p.invalid.Error()
	}
	for i := range p.pods {
		if view := podView(&p.pods[i]); view.Terminating {
			f.terminating = append(f.terminating, view)
		}
	}
	return f
}

// unrecorded tells whether a revision is to be recorded as stable and is not yet: the world moved between two looks, or
// the write failed. Either way a next look is due.
func (f facts) unrecorded() bool {
	return f.decision.MarkStable != "" && f.decision.MarkStable != f.stable
}

// olderTarget tells whether some replica runs a revision that was recorded later than the one wanted now: an undo.
func (p *plan) olderTarget() bool {
	wanted := p.observation.revision(p.target)
	if wanted == nil {
		return false
	}
	for _, replica := range p.decision.Replicas {
		cr := p.observation.revision(replica.ReplicaSet.Revision)
		if cr != nil && wanted.CreationTimestamp.Before(&cr.CreationTimestamp) {
			return true
		}
	}
	return false
}

// statusOf derives the whole status. From the previous one it takes only what has to survive: times of transitions, and
// the rollout's clocks.
func statusOf(f facts) v1alpha1.RouterFleetStatus {
	previous := f.previous
	next := v1alpha1.RouterFleetStatus{
		ObservedGeneration: f.fleet.Generation,
		Selector:           labels.SelectorFromSet(children.PodSelector(f.fleet.Name)).String(),
		StableRevision:     f.stable,
		UpdateRevision:     f.target,
		RenderVersion:      int32(f.render),
		ServiceURL:         children.ServiceURL(f.fleet),
		PeerServiceName:    children.PeerServiceName(f.fleet.Name),
		Workers:            workersOf(f),
	}
	countReplicas(f, &next)
	next.Rollout = rolloutOf(f, next)
	next.ReplicasDetail, next.Truncated = detailOf(f)
	next.Conditions = previous.DeepCopy().Conditions
	for _, c := range conditionsOf(f) {
		c.ObservedGeneration, c.LastTransitionTime = f.fleet.Generation, f.now
		setCondition(&next.Conditions, c)
	}
	return next
}

// countReplicas counts pods that stand for a live ReplicaSet of ours; labels alone do not count.
func countReplicas(f facts, next *v1alpha1.RouterFleetStatus) {
	var all, ready, available, updated int32
	for _, r := range f.decision.Replicas {
		if r.Pod == nil {
			continue
		}
		all += count(true)
		ready += count(r.Ready)
		available += count(r.Proven)
		updated += count(r.ReplicaSet.Runs(f.target))
	}
	next.Replicas, next.ReadyReplicas, next.AvailableReplicas = ptr.To(all), ptr.To(ready), ptr.To(available)
	next.UpdatedReplicas, next.TerminatingReplicas = ptr.To(updated), ptr.To(int32(len(f.terminating)))
}

func count(yes bool) int32 {
	if yes {
		return 1
	}
	return 0
}

// setCondition replaces the condition of a type. Its time moves only when its status does; order of types stays.
func setCondition(conditions *[]metav1.Condition, c metav1.Condition) {
	if was := meta.FindStatusCondition(*conditions, c.Type); was != nil {
		if was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
		*was = c
		return
	}
	*conditions = append(*conditions, c)
}

// rolloutOf keeps the clocks of a rollout. A new target starts new ones; progress moves the second: a replica created
// or retired, or one more available. It is no heartbeat.
func rolloutOf(f facts, next v1alpha1.RouterFleetStatus) *v1alpha1.RolloutStatus {
	previous := f.previous
	if f.target == "" {
		return previous.Rollout
	}
	if previous.Rollout == nil || previous.UpdateRevision != f.target {
		return &v1alpha1.RolloutStatus{Cause: causeOf(f), StartTime: &f.now, LastProgressTime: &f.now}
	}
	rollout := previous.Rollout.DeepCopy()
	gained := ptr.Deref(next.AvailableReplicas, 0) > ptr.Deref(previous.AvailableReplicas, 0)
	resumed := wasPaused(previous) && f.fleet.Spec.Rollout.State != v1alpha1.RolloutPaused
	if resumed || f.decision.Active && (f.progressed || gained) {
		rollout.LastProgressTime = &f.now
	}
	return rollout
}

func causeOf(f facts) string {
	switch {
	case f.stable == "":
		return "first rollout, of " + f.target
	case f.stable == f.target:
		return "back to " + f.target
	case f.olderTarget:
		return "back to " + f.target + " from " + f.stable
	default:
		return f.target + " replaces " + f.stable
	}
}

// ownConditions are the conditions that stand, with those of the operator's types as it wrote them. A condition that
// somebody else keeps beside them is left as it is.
func ownConditions(written, live []metav1.Condition) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(live))
	for _, c := range live {
		if was := meta.FindStatusCondition(written, c.Type); was != nil && isOwnCondition(c.Type) {
			c = *was
		}
		out = append(out, c)
	}
	for _, c := range written {
		if isOwnCondition(c.Type) && meta.FindStatusCondition(live, c.Type) == nil {
			out = append(out, c)
		}
	}
	return out
}

func isOwnCondition(kind string) bool {
	switch kind {
	case v1alpha1.ConditionReady, v1alpha1.ConditionAvailable, v1alpha1.ConditionWorkersDiscovered,
		v1alpha1.ConditionRollingOut, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled:
		return true
	}
	return false
}
