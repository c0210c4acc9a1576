package controllers

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/rollout"
)

func TestStatusCountsPodsOfLiveReplicaSets(t *testing.T) {
	f := facts3(unready(1), func(f *facts) {
		f.decision.Replicas[1].Proven = false
		f.decision.Replicas[2].ReplicaSet.Revision = "r0"
		empty := readyReplica(3)
		empty.Pod, empty.Ready, empty.Proven = nil, false, false
		f.decision.Replicas = append(f.decision.Replicas, empty)
		f.terminating = []rollout.Pod{{Name: "old"}}
	})
	s := statusOf(f)
	for name, c := range map[string]struct {
		got  *int32
		want int32
	}{
		"replicas": {s.Replicas, 3}, "ready": {s.ReadyReplicas, 2}, "available": {s.AvailableReplicas, 1},
		"updated": {s.UpdatedReplicas, 2}, "terminating": {s.TerminatingReplicas, 1},
	} {
		if ptr.Deref(c.got, -1) != c.want {
			t.Errorf("%s is %d, want %d", name, ptr.Deref(c.got, -1), c.want)
		}
	}
	if s.Selector != "routerfleet.io/fleet=demo" || s.ObservedGeneration != 7 {
		t.Errorf("selector %q, generation %d", s.Selector, s.ObservedGeneration)
	}
}

func TestTheRolloutsClocksMoveOnlyWithTheRollout(t *testing.T) {
	earlier := metav1.NewTime(noon.Add(-time.Hour))
	running := v1alpha1.RouterFleetStatus{UpdateRevision: "r1", AvailableReplicas: ptr.To[int32](3),
		Rollout: &v1alpha1.RolloutStatus{Cause: "c", StartTime: &earlier, LastProgressTime: &earlier}}
	paused := *running.DeepCopy()
	paused.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRollingOut, Reason: v1alpha1.ReasonPaused}}
	for _, c := range []struct {
		name            string
		previous        v1alpha1.RouterFleetStatus
		change          func(*facts)
		start, progress metav1.Time
	}{
		{"at rest", running, same, earlier, earlier},
		{"a new target", running, func(f *facts) { f.target = "r2" }, noon, noon},
		{"nothing happened", running, func(f *facts) { f.decision.Active = true }, earlier, earlier},
		{"a replica was created or retired", running, func(f *facts) { f.decision.Active, f.progressed = true, true }, earlier, noon},
		{"self-healing is no rollout", running, func(f *facts) { f.progressed = true }, earlier, earlier},
		{"resumed", paused, func(f *facts) { f.decision.Active = true }, earlier, noon},
		{"status lost", v1alpha1.RouterFleetStatus{}, same, noon, noon},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := statusOf(facts3(func(f *facts) { f.previous = c.previous }, c.change)).Rollout
			if !got.StartTime.Equal(&c.start) || !got.LastProgressTime.Equal(&c.progress) {
				t.Errorf("start %s, progress %s; want %s and %s", got.StartTime, got.LastProgressTime, c.start, c.progress)
			}
		})
	}
	gained := facts3(func(f *facts) {
		f.previous, f.decision.Active = running, true
		f.previous.AvailableReplicas = ptr.To[int32](2)
	})
	if got := statusOf(gained).Rollout; !got.LastProgressTime.Equal(&noon) {
		t.Error("one more available replica is no progress")
	}
}

func TestTheCauseSaysWhatReplacesWhat(t *testing.T) {
	for want, change := range map[string]func(*facts){
		"first rollout, of r1": func(f *facts) { f.stable = "" },
		"r1 replaces r0":       func(f *facts) { f.stable = "r0" },
		"back to r1":           same,
		"back to r1 from r2":   func(f *facts) { f.stable, f.olderTarget = "r2", true },
	} {
		if got := statusOf(facts3(change)).Rollout.Cause; got != want {
			t.Errorf("cause %q, want %q", got, want)
		}
	}
}

func TestDetailListsWhatNeedsAttentionFirstAndCapsTheRest(t *testing.T) {
	f := facts3(func(f *facts) {
		for slot := int32(3); slot < 80; slot++ {
			f.decision.Replicas = append(f.decision.Replicas, readyReplica(slot))
		}
		f.fail(70, rollout.ImagePullFailed)
		f.terminating = []rollout.Pod{{Name: "old", ReplicaSet: "demo-4-r1"}, {Name: "older", ReplicaSet: "gone"}}
	})
	s := statusOf(f)
	if len(s.ReplicasDetail) != v1alpha1.MaxReplicasDetail || s.Truncated != 82-64 {
		t.Fatalf("%d rows, %d truncated", len(s.ReplicasDetail), s.Truncated)
	}
	for i, want := range []string{"older Terminating", "old Terminating", "demo-70-r1-x Failed", "demo-0-r1-x Ready"} {
		row := s.ReplicasDetail[i]
		if got := row.Name + " " + string(row.State); got != want {
			t.Errorf("row %d is %s, want %s", i, got, want)
		}
	}
	if r := s.ReplicasDetail[2]; r.Reason != "ImagePullFailed" || *r.Slot != 70 || !r.Since.Equal(&noon) {
		t.Errorf("the failed row %+v", r)
	}
	f.previous, f.now = s, metav1.NewTime(noon.Add(time.Hour))
	if r := statusOf(f).ReplicasDetail[2]; !r.Since.Equal(&noon) {
		t.Errorf("the state lasts, its time moved to %s", r.Since)
	}
}

func TestAReplicasStateIsOneWord(t *testing.T) {
	for want, change := range map[v1alpha1.ReplicaState]func(*facts){
		v1alpha1.ReplicaReady:   same,
		v1alpha1.ReplicaFailed:  func(f *facts) { f.fail(0, rollout.CrashLooping) },
		v1alpha1.ReplicaPending: func(f *facts) { unready(1)(f); f.decision.Replicas[0].Pod.Running = false },
		v1alpha1.ReplicaStarting: func(f *facts) {
			unready(1)(f)
			f.silence(0, time.Second)
		},
		v1alpha1.ReplicaUnreachable: func(f *facts) {
			unready(1)(f)
			f.silence(0, time.Minute)
		},
	} {
		f := facts3(change)
		if got := stateOf(f, f.decision.Replicas[0]); got != want {
			t.Errorf("state %s, want %s", got, want)
		}
	}
}

func TestOneStoryATransition(t *testing.T) {
	reasons := func(before, after facts) string {
		var out []string
		for _, s := range storiesOfStatus(statusOf(before), statusOf(after)) {
			out = append(out, s.reason)
		}
		return fmt.Sprint(out)
	}
	held := facts3(func(f *facts) { f.fail(2, rollout.ImagePullFailed) })
	paused := facts3(func(f *facts) { f.decision.Reason = rollout.Paused })
	conflict := facts3(func(f *facts) { f.conflicts = []problem{{"Service", "demo", "taken"}} })
	invalid := facts3(func(f *facts) { f.unrendered = "no" })
	other := facts3(func(f *facts) { f.target, f.decision.Reason = "r2", rollout.Surging })
	for _, c := range []struct {
		name          string
		before, after facts
		want          string
	}{
		{"nothing", facts3(), facts3(), "[]"},
		{"still held", held, held, "[]"},
		{"held", facts3(), held, "[RolloutHeld ImagePullFailed]"},
		{"healed", held, facts3(), "[]"},
		{"paused", facts3(), paused, "[RolloutPaused]"},
		{"resumed", paused, facts3(), "[RolloutResumed]"},
		{"conflict", facts3(), conflict, "[ChildConflict]"},
		{"invalid", facts3(), invalid, "[RolloutHeld InvalidSpec]"},
		{"rollout", facts3(), other, "[RolloutStarted]"},
	} {
		if got := reasons(c.before, c.after); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
