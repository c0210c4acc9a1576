package rollout

import "time"

// requeue is the one time at which the plan may change although nothing in the world does. It is 0 at rest.
func (v *view) requeue(d Decision) time.Duration {
	var next time.Duration
	soonest := func(at time.Duration) {
		if at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	for i := range v.replicas {
		soonest(v.changesIn(&v.replicas[i]))
	}
	if d.Active && !v.Spec.Paused {
		left, _ := v.deadlineIn()
		soonest(left)
	}
	if len(v.wrong) > 0 {
		for _, p := range v.Pods {
			if p.Terminating {
				soonest(p.GraceEnd.Sub(v.now))
			}
		}
	}
	return next
}

// changesIn is when the judgement of a replica changes by time alone; 0 or less means never.
func (v *view) changesIn(r *Replica) time.Duration {
	p := r.Pod
	switch {
	case p == nil:
		return 0
	case r.Ready && !r.Proven:
		return p.ReadySince.Add(v.Spec.MinReady).Sub(v.now)
	case p.Unschedulable && r.Class == ClassBoot:
		return p.UnschedulableSince.Add(schedulingPatience).Sub(v.now)
	case r.Failure == CrashLooping && crashedRecently(p, v.now):
		return p.LastCrash.Add(crashMemory).Sub(v.now)
	case r.Class == ClassUnreachable && !v.Answers[p.Container].SilentSince.IsZero():
		return v.Answers[p.Container].SilentSince.Add(silentLimit).Sub(v.now)
	default:
		return 0
	}
}

// deadlineIn is how long the rollout may still go without progress; 0 or less is too late. It is false without a
// deadline. Before anybody recorded progress it is the whole deadline.
func (v *view) deadlineIn() (time.Duration, bool) {
	switch {
	case v.Spec.ProgressDeadline <= 0:
		return 0, false
	case v.LastProgress.IsZero():
		return v.Spec.ProgressDeadline, true
	default:
		return v.LastProgress.Add(v.Spec.ProgressDeadline).Sub(v.now), true
	}
}

// deadlineExceeded: time spent paused is not held against a rollout.
func (v *view) deadlineExceeded(d Decision) bool {
	left, counted := v.deadlineIn()
	return d.Active && !v.Spec.Paused && counted && left <= 0
}
