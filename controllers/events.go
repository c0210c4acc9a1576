package controllers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

// story is one event to tell. about is a second object it concerns, or nil: events that differ only in their note are
// folded into one by the recorder, so stories of different replicas must name them.
type story struct {
	kind, reason, action, note string
	about                      runtime.Object
}

// tell writes one event a transition. It compares the status before with the one after, so that a reconcile that
// changed nothing tells nothing.
func (r *Reconciler) tell(p *plan, out *outcome, next v1alpha1.RouterFleetStatus) {
	stories := storiesOfWork(p, out)
	stories = append(stories, storiesOfStatus(p.previous, next)...)
	stories = append(stories, r.storiesOfStrays(p)...)
	if r.events == nil {
		return
	}
	for _, s := range stories {
		r.events.Eventf(p.fleet, s.about, s.kind, s.reason, s.action, "%s", s.note)
	}
}

func normal(reason, action, format string, args ...any) story {
	return story{kind: corev1.EventTypeNormal, reason: reason, action: action, note: fmt.Sprintf(format, args...)}
}

func warning(reason, action, note string) story {
	return story{kind: corev1.EventTypeWarning, reason: reason, action: action, note: note}
}

// storiesOfWork tells what was written.
func storiesOfWork(p *plan, out *outcome) []story {
	var stories []story
	if out.newRevision {
		stories = append(stories, normal(v1alpha1.EventRevisionCreated, "Record", "revision %s", p.target))
	}
	for _, x := range out.created {
		s := normal(v1alpha1.EventReplicaSurged, "Create", "%s: %s", x.set.Name, x.note)
		s.about = x.set
		stories = append(stories, s)
	}
	for _, x := range out.retired {
		s := normal(v1alpha1.EventReplicaRetired, "Retire", "%s: %s", x.set.Name, x.note)
		s.about = x.set
		stories = append(stories, s)
	}
	if out.stable != "" {
		stories = append(stories, normal(v1alpha1.EventRolloutCompleted, "Complete", "%s", p.decision.Note))
	}
	return stories
}

// storiesOfStatus tells what became different.
func storiesOfStatus(before, after v1alpha1.RouterFleetStatus) []story {
	var stories []story
	if before.UpdateRevision != "" && before.UpdateRevision != after.UpdateRevision {
		stories = append(stories, normal(v1alpha1.EventRolloutStarted, "Roll", "%s", after.Rollout.Cause))
	}
	was, is := reasonOf(before, v1alpha1.ConditionRollingOut), reasonOf(after, v1alpha1.ConditionRollingOut)
	switch {
	case was == is:
	case is == v1alpha1.ReasonHeld:
		stories = append(stories, warning(v1alpha1.EventRolloutHeld, "Hold", messageOf(after, v1alpha1.ConditionRollingOut)))
	case is == v1alpha1.ReasonPaused:
		stories = append(stories, normal(v1alpha1.EventRolloutPaused, "Pause", "%s", messageOf(after, v1alpha1.ConditionRollingOut)))
	case was == v1alpha1.ReasonPaused:
		stories = append(stories, normal(v1alpha1.EventRolloutResumed, "Resume", "the rollout goes on"))
	}
	was, is = reasonOf(before, v1alpha1.ConditionStalled), reasonOf(after, v1alpha1.ConditionStalled)
	stalled := meta.IsStatusConditionPresentAndEqual(after.Conditions, v1alpha1.ConditionStalled, metav1.ConditionTrue)
	if was != is && stalled {
		reason := is
		switch is {
		case v1alpha1.ReasonOwnershipConflict:
			reason = v1alpha1.EventChildConflict
		case v1alpha1.ReasonInvalidSpec:
			reason = v1alpha1.EventInvalidSpec
		}
		stories = append(stories, warning(reason, "Reconcile", messageOf(after, v1alpha1.ConditionStalled)))
	}
	return stories
}

func reasonOf(s v1alpha1.RouterFleetStatus, kind string) string {
	if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

func messageOf(s v1alpha1.RouterFleetStatus, kind string) string {
	if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

// storiesOfStrays warns once of each pod that carries the fleet's label without a controller: it takes requests and
// switches the disruption budget off, and only its owner may know why it is there. ReplicaSets of ours whose labels
// make no sense are told the same way.
func (r *Reconciler) storiesOfStrays(p *plan) []story {
	odd := map[string]string{}
	for _, pod := range p.strays {
		odd["Pod "+pod.Name] = "carries the fleet's label but no controller: it takes requests and disables the disruption budget; delete it or its label"
	}
	for i := range p.sets {
		if _, ok := p.setView(&p.sets[i]); !ok {
			odd["ReplicaSet "+p.sets[i].Name] = "has labels no slot can be read from; restore them or delete it"
		}
	}
	warned := r.notes.read(p.fleet).warned
	var stories []story
	for _, name := range sortedKeys(odd) {
		if !warned[name] {
			stories = append(stories, warning(v1alpha1.EventChildConflict, "Observe", name+" "+odd[name]))
		}
	}
	if len(odd) == 0 && len(warned) == 0 {
		return nil
	}
	r.notes.write(p.fleet, func(page *page) {
		page.warned = map[string]bool{}
		for name := range odd {
			page.warned[name] = true
		}
	})
	return stories
}
