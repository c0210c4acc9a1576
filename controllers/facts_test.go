package controllers

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/rollout"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

var noon = metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))

// facts3 are the facts of a complete fleet of three with two workers; a test changes what it is about.
func facts3(change ...func(*facts)) facts {
	f := facts{
		fleet:  &v1alpha1.RouterFleet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "fleet", Generation: 7}},
		target: "r1", stable: "r1", render: 1, now: noon,
		decision: rollout.Decision{Kind: rollout.None, Reason: rollout.Complete, Note: "3 of 3 replicas run r1 and are available"},
		answers:  map[rollout.Container]rollout.Answer{},
	}
	f.fleet.Spec.Replicas = ptr.To[int32](3)
	f.fleet.Spec.Default()
	for slot := range int32(3) {
		f.decision.Replicas = append(f.decision.Replicas, readyReplica(slot))
		f.answer(int(slot), 0, status.Workers{Discovered: 2, Usable: 2})
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func readyReplica(slot int32) rollout.Replica {
	name := fmt.Sprintf("demo-%d-r1", slot)
	uid := types.UID(fmt.Sprintf("pod-%d", slot))
	return rollout.Replica{
		ReplicaSet: rollout.ReplicaSet{Name: name, UID: types.UID(name), Slot: slot, Revision: "r1", Replicas: 1},
		Pod: &rollout.Pod{UID: uid, Name: name + "-x", Ready: true, Running: true, ReadySince: noon.Add(-time.Hour),
			Container: rollout.Container{Pod: uid, ID: "c"}},
		Class: rollout.ClassReady, Ready: true, Proven: true, Counted: true, Right: true,
	}
}

// answer books what a replica's router said some time ago.
func (f *facts) answer(replica int, ago time.Duration, w status.Workers) {
	f.answers[f.decision.Replicas[replica].Pod.Container] = rollout.Answer{
		ReadAt: noon.Add(-ago), Status: &status.Status{State: status.StateSettled, Workers: w},
	}
}

// report books what a replica's router said of its engines' events, in the answer it gave before.
func (f *facts) report(replica, ranks int, problems ...status.Problem) {
	s := f.answers[f.decision.Replicas[replica].Pod.Container].Status
	s.Ranks.Total, s.Problems = ranks, problems
}

// silence books that a replica's router has not answered for some time; what it said before stays.
func (f *facts) silence(replica int, since time.Duration) {
	box := f.decision.Replicas[replica].Pod.Container
	a := f.answers[box]
	a.SilentSince = noon.Add(-since)
	f.answers[box] = a
}

func (f *facts) fail(replica int, why rollout.Failure) {
	r := &f.decision.Replicas[replica]
	r.Ready, r.Proven, r.Counted, r.Class, r.Failure = false, false, false, rollout.ClassFailed, why
	f.decision.Reason, f.decision.Note = rollout.Held, "slot 2: it failed"
}

func unready(n int) func(*facts) {
	return func(f *facts) {
		for i := range n {
			r := &f.decision.Replicas[i]
			r.Ready, r.Proven, r.Class, r.Pod.Ready = false, false, rollout.ClassUnready, false
		}
	}
}

func noAnswers(f *facts) { f.answers = map[rollout.Container]rollout.Answer{} }

func toZero(f *facts) { f.fleet.Spec.Replicas, f.decision.Replicas = ptr.To[int32](0), nil }

type expected struct {
	name   string
	change func(*facts)
	status metav1.ConditionStatus
	reason string
}

// check runs a table through the whole list of conditions, so that the summary sees its real inputs.
func check(t *testing.T, kind string, table []expected) {
	t.Helper()
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			got := meta.FindStatusCondition(conditionsOf(facts3(c.change)), kind)
			if got == nil || got.Status != c.status || got.Reason != c.reason || got.Message == "" {
				t.Errorf("%s is %+v, want %s/%s with a message", kind, got, c.status, c.reason)
			}
		})
	}
}

const (
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unknown = metav1.ConditionUnknown
)

func same(*facts) {}
