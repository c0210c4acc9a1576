package rollout

import (
	"fmt"
	"time"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

// Plan gives the next step of a fleet. It never fails: what it cannot judge it leaves alone and says so.
func Plan(w World, now time.Time) Decision {
	v := newView(w, now)
	d := v.decide()
	d.Delete = v.deletions()
	d.Replicas = v.replicas
	d.Active = v.active(d)
	d.DeadlineExceeded = v.deadlineExceeded(d)
	d.RequeueAfter = v.requeue(d)
	return d
}

// decide asks the steps in order; the first that has something to say decides.
func (v *view) decide() Decision {
	for _, step := range []func() (Decision, bool){v.scaleIn, v.fill, v.pause, v.settled, v.retire, v.surge} {
		if d, ok := step(); ok {
			return d
		}
	}
	return v.waiting()
}

// deletions is step 0. A retired set is the controller its terminating pod is looked up by: deleted earlier, the
// disruption controller would forbid every eviction in the fleet until the drain ends.
func (v *view) deletions() []Deletion {
	owners := map[string]bool{}
	for _, p := range v.Pods {
		owners[string(p.ReplicaSet)] = true
	}
	var out []Deletion
	for _, rs := range v.ReplicaSets {
		if rs.Retired() && !owners[string(rs.UID)] {
			out = append(out, Deletion{Name: rs.Name, UID: rs.UID, Note: "retired and its last pod is gone"})
		}
	}
	return out
}

// pause is the first half of step 4.
func (v *view) pause() (Decision, bool) {
	if !v.Spec.Paused {
		return Decision{}, false
	}
	note := "paused; scaling and self-healing go on"
	if n := len(v.wrong); n > 0 {
		note = fmt.Sprintf("paused with %d of %d replicas to roll to %s; scaling and self-healing go on", n, len(v.replicas), v.Target)
	}
	return Decision{Kind: None, Reason: Paused, Note: note}, true
}

// settled is the second half of step 4: nothing is wrong, so the fleet is complete or waits for proof.
func (v *view) settled() (Decision, bool) {
	if len(v.wrong) > 0 {
		return Decision{}, false
	}
	for _, r := range v.replicas {
		if !r.Proven {
			return v.waiting(), true
		}
	}
	d := Decision{Kind: None, Reason: Complete, Note: "scaled to zero"}
	if n := len(v.replicas); n > 0 {
		d.Note = fmt.Sprintf("%d of %d replicas run %s and are available", n, v.Spec.Replicas, v.Target)
		if v.Target != v.Stable {
			d.MarkStable = v.Target
		}
	}
	return d, true
}

// waiting is step 7: nothing may be done, and this is what it waits for. The worst of the replicas that should come
// into being gives the reason.
func (v *view) waiting() Decision {
	d := Decision{Kind: None}
	waits := v.blockers()
	for _, r := range waits {
		if r.Class == ClassFailed {
			d.Reason, d.Note = Held, fmt.Sprintf("slot %d: %s", r.ReplicaSet.Slot, r.Failure.sentence(r))
			return d
		}
	}
	for _, r := range waits {
		if !r.Ready {
			d.Reason = WaitingForBootstrap
			d.Note = fmt.Sprintf("slot %d: %s is not ready yet%s", r.ReplicaSet.Slot, r.ReplicaSet.Name, v.whyUnready(r))
			return d
		}
	}
	for _, r := range waits {
		d.Reason = WaitingForMinReady
		d.Note = fmt.Sprintf("slot %d: %s must stay ready for %s", r.ReplicaSet.Slot, r.ReplicaSet.Name, v.Spec.MinReady)
		return d
	}
	return v.waitingForOld()
}

// waitingForOld explains why nothing may retire although every replica of the target is proven.
func (v *view) waitingForOld() Decision {
	d := Decision{Kind: None, Reason: Held, Note: "no replica may retire or be surged now", Kept: v.kept()}
	if v.terminating() >= v.Spec.MaxTerminating {
		d.Reason, d.Note = WaitingForDrain, fmt.Sprintf("%d pods are draining, no more may at once", v.Spec.MaxTerminating)
		return d
	}
	for _, r := range v.replicas {
		if !r.Ready {
			d.Reason = WaitingForBootstrap
			d.Note = fmt.Sprintf("slot %d: %s is not ready%s; nothing retires before it is",
				r.ReplicaSet.Slot, r.ReplicaSet.Name, v.whyUnready(r))
			return d
		}
	}
	if len(d.Kept) > 0 {
		d.Note = d.Kept[0].Name + " stays: " + d.Kept[0].Why
	}
	return d
}

// whyUnready is what a router that has looked for workers and is not Ready told of it, as the end of a sentence; empty
// when it told nothing. Only whether there is a worker is said: how many there are moves.
func (v *view) whyUnready(r Replica) string {
	if r.Pod == nil {
		return ""
	}
	answer := v.Answers[r.Pod.Container].Status
	if answer == nil || answer.Workers.Usable > 0 ||
		(answer.State != status.StateSettled && answer.State != status.StateBootstrapping) {
		return ""
	}
	return ": it has found no usable worker"
}

// blockers are the replicas of the target that are not proven, by slot.
func (v *view) blockers() []Replica {
	var out []Replica
	for _, r := range v.replicas {
		if r.ReplicaSet.Runs(v.Target) && !r.Proven {
			out = append(out, r)
		}
	}
	return out
}

// active tells whether a rollout runs. Pods that come and go at rest are not one: no deadline counts for them.
func (v *view) active(d Decision) bool {
	return d.Reason != Complete && (len(v.wrong) > 0 || v.Target != v.Stable)
}

// Explain says what is wrong with a failed replica and what to do; empty for one that did not fail.
func (r Replica) Explain() string {
	if r.Failure == NotFailed {
		return ""
	}
	return r.Failure.sentence(r)
}

// sentence explains a failure and says what to do about it.
func (f Failure) sentence(r Replica) string {
	name := r.ReplicaSet.Name
	switch f {
	case ImagePullFailed:
		image := "its image"
		if r.ReplicaSet.Image != "" {
			image = "the image " + r.ReplicaSet.Image
		}
		return name + " cannot pull " + image + "; correct spec.image or the pull secrets"
	case CrashLooping:
		return name + " keeps crashing; see its log"
	case ContainerInvalid:
		return name + " cannot create its container; see the pod's events"
	case Unschedulable:
		return name + " fits on no node; see spec.scheduling and spec.resources"
	case QuotaExceeded:
		return name + " is refused by a resource quota of the namespace"
	case PodRefused:
		return name + " is refused by the API server: " + r.ReplicaSet.CreateFailure
	case PodEnded:
		return name + " ended and waits for its replacement"
	case Silent:
		return fmt.Sprintf("%s runs but has not answered on its admin port for %s", name, silentLimit)
	default:
		return name + " failed"
	}
}
