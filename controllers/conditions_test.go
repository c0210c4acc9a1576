package controllers

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/prober"
	"github.com/routerfleet/routerfleet/controllers/rollout"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

func TestAvailableCountsReadyReplicas(t *testing.T) {
	check(t, v1alpha1.ConditionAvailable, []expected{
		{"all ready", same, yes, v1alpha1.ReasonMinimumReplicasAvailable},
		{"one not ready", unready(1), no, v1alpha1.ReasonMinimumReplicasUnavailable},
		{"none ready", unready(3), no, v1alpha1.ReasonNoReplicas},
		{"scaled to zero", toZero, no, v1alpha1.ReasonScaledToZero},
		{"a surge replica that fails takes nothing away", func(f *facts) {
			f.decision.Replicas = append(f.decision.Replicas, readyReplica(2))
			f.fail(3, rollout.ImagePullFailed)
		}, yes, v1alpha1.ReasonMinimumReplicasAvailable},
	})
}

func TestWorkersDiscoveredIsWhatRoutersTell(t *testing.T) {
	none := status.Workers{}
	check(t, v1alpha1.ConditionWorkersDiscovered, []expected{
		{"found", same, yes, v1alpha1.ReasonWorkersFound},
		{"one replica finds one", func(f *facts) {
			f.answer(0, 0, none)
			f.answer(1, 0, none)
		}, yes, v1alpha1.ReasonWorkersFound},
		{"none finds any", func(f *facts) {
			for i := range 3 {
				f.answer(i, 0, none)
			}
		}, no, v1alpha1.ReasonNoWorkers},
		{"discovered but not usable", func(f *facts) {
			for i := range 3 {
				f.answer(i, 0, status.Workers{Discovered: 4})
			}
		}, no, v1alpha1.ReasonNoWorkers},
		{"the scout outvotes answers of minutes ago", func(f *facts) {
			f.answer(0, time.Second, none)
			f.answer(1, 4*time.Minute, status.Workers{Discovered: 2, Usable: 2})
			f.answer(2, 4*time.Minute, status.Workers{Discovered: 2, Usable: 2})
		}, no, v1alpha1.ReasonNoWorkers},
		{"a router that has not settled has not looked", func(f *facts) {
			for i := range 3 {
				f.answer(i, 0, none)
				f.answers[f.decision.Replicas[i].Pod.Container].Status.State = status.StateStarting
			}
		}, unknown, v1alpha1.ReasonNoReplicaAnswered},
		{"all silent for a while", func(f *facts) {
			for i := range 3 {
				f.silence(i, prober.Silence)
			}
		}, unknown, v1alpha1.ReasonStatusUnreachable},
		{"silent for a moment", func(f *facts) {
			for i := range 3 {
				f.silence(i, 3*time.Second)
			}
		}, yes, v1alpha1.ReasonWorkersFound},
		{"two silent, one tells", func(f *facts) {
			f.silence(0, time.Minute)
			f.silence(1, time.Minute)
		}, yes, v1alpha1.ReasonWorkersFound},
		{"nobody asked yet, nothing known before", noAnswers, unknown, v1alpha1.ReasonNoReplicaAnswered},
		{"nobody asked yet, known before the operator restarted", func(f *facts) {
			noAnswers(f)
			f.previous.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionWorkersDiscovered, Status: yes, Reason: v1alpha1.ReasonWorkersFound, Message: "m"}}
		}, yes, v1alpha1.ReasonWorkersFound},
		{"an earlier container's answer does not count", func(f *facts) {
			for i := range 3 {
				f.decision.Replicas[i].Pod.Container.ID = "restarted"
			}
		}, unknown, v1alpha1.ReasonNoReplicaAnswered},
		{"nobody to ask", toZero, unknown, v1alpha1.ReasonNoReplicaAnswered},
	})
}

func untrusted(ranks int) status.Problem {
	return status.Problem{Code: status.CodeKVStreamUntrusted, Count: ranks, Example: "ns/engine-x: rank 0 at seq 7"}
}

func TestWorkersAreNotDiscoveredWhileNobodyTrustsAnyStream(t *testing.T) {
	all := func(ranks int, problems ...status.Problem) func(*facts) {
		return func(f *facts) {
			for i := range 3 {
				f.report(i, ranks, problems...)
			}
		}
	}
	and := func(changes ...func(*facts)) func(*facts) {
		return func(f *facts) {
			for _, change := range changes {
				change(f)
			}
		}
	}
	check(t, v1alpha1.ConditionWorkersDiscovered, []expected{
		{"every rank, for every replica", all(4, untrusted(4)), no, v1alpha1.ReasonKVStreamUntrusted},
		{"all but one rank", all(4, untrusted(3)), yes, v1alpha1.ReasonWorkersFound},
		{"every rank is followed and trusted", all(4), yes, v1alpha1.ReasonWorkersFound},
		{"no rank is followed", all(0), yes, v1alpha1.ReasonWorkersFound},
		{"one replica trusts one rank", and(all(4, untrusted(4)), func(f *facts) { f.report(2, 4, untrusted(3)) }), yes, v1alpha1.ReasonWorkersFound},
		{"one replica follows none", and(all(4, untrusted(4)), func(f *facts) { f.report(2, 0) }), no, v1alpha1.ReasonKVStreamUntrusted},
		{"the one that trusted is silent", and(all(4, untrusted(4)), func(f *facts) {
			f.report(2, 4)
			f.silence(2, prober.Silence)
		}), no, v1alpha1.ReasonKVStreamUntrusted},
		{"other problems cost no trust", all(4, status.Problem{Code: status.CodeEventSettings, Count: 4}), yes, v1alpha1.ReasonWorkersFound},
		{"without workers that is what is said", and(all(4, untrusted(4)), func(f *facts) {
			for i := range 3 {
				f.answers[f.decision.Replicas[i].Pod.Container].Status.Workers.Usable = 0
			}
		}), no, v1alpha1.ReasonNoWorkers},
	})
	ready := meta.FindStatusCondition(conditionsOf(facts3(all(4, untrusted(4)))), v1alpha1.ConditionReady)
	if ready.Status != no || ready.Reason != v1alpha1.ReasonWorkersNotDiscovered || !strings.Contains(ready.Message, "and serve") {
		t.Errorf("Ready is %+v", ready)
	}
}

func TestAMessageNamesTheTroubleWithEventsAndNotItsExample(t *testing.T) {
	f := facts3(func(f *facts) {
		f.report(0, 4, untrusted(1), status.Problem{Code: status.CodeForeignEventHost, Count: 1, Example: "10.9.9.9"})
		f.report(1, 4, untrusted(2), status.Problem{Code: status.CodeUnknown, Count: 5}, status.Problem{Code: status.CodeClockSkew, Count: 3})
	})
	const want = "the routers found workers; some have trouble with their KV events: foreign_event_host (1), kv_stream_untrusted (2)"
	if got := conditionWorkersDiscovered(f).Message; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Requests are served, so a wrong tokenizer costs no readiness; it is a reason of its own, as long as any replica reports it.
func TestAWrongTokenizerIsNamedAndCostsNoReadiness(t *testing.T) {
	wrong := status.Problem{Code: status.CodeTokenParity, Count: 2, Example: "ns/engine: token 3 of 9 is 4, and 5 at the engine"}
	for name, c := range map[string]struct {
		report func(*facts)
		reason string
	}{
		"none":            {func(f *facts) { f.report(0, 4); f.report(1, 4) }, v1alpha1.ReasonWorkersFound},
		"one replica":     {func(f *facts) { f.report(0, 4); f.report(1, 4, wrong) }, v1alpha1.ReasonTokenParity},
		"beside a stream": {func(f *facts) { f.report(0, 4, untrusted(1), wrong); f.report(1, 4) }, v1alpha1.ReasonTokenParity},
		"all untrusted": {func(f *facts) {
			f.report(0, 4, untrusted(4), wrong)
			f.report(1, 4, untrusted(4))
			f.report(2, 4, untrusted(4))
		}, v1alpha1.ReasonKVStreamUntrusted},
	} {
		got := conditionWorkersDiscovered(facts3(c.report))
		if got.Reason != c.reason || (got.Status == yes) == (c.reason == v1alpha1.ReasonKVStreamUntrusted) {
			t.Errorf("%s: %s %s, want %s", name, got.Status, got.Reason, c.reason)
		}
		if named := strings.Contains(got.Message, "than 2 of them (token_parity)"); named != (c.reason == v1alpha1.ReasonTokenParity) {
			t.Errorf("%s: %s", name, got.Message)
		}
		if strings.Contains(got.Message, "ns/engine") {
			t.Errorf("%s repeats an example", got.Message)
		}
	}
}

// One replica reports more than the others, for good. The scout is read every ten seconds, the others every five
// minutes: whose answer is fresh must not show.
func TestWhatIsSaidOfEventsDoesNotDependOnWhoseAnswerIsFresh(t *testing.T) {
	said := map[string]bool{}
	for fresh := range 3 {
		f := facts3(func(f *facts) {
			for i := range 3 {
				ago := 4 * time.Minute
				if i == fresh {
					ago = time.Second
				}
				f.answer(i, ago, status.Workers{Discovered: 4, Usable: 4, Subscribed: 4 - i})
				f.report(i, 4, untrusted(1+i))
			}
		})
		s := statusOf(f)
		said[meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionWorkersDiscovered).Message] = true
		if s.Workers.Subscribed == nil || *s.Workers.Subscribed != 2 {
			t.Errorf("subscribed is %v, want the fewest, 2", s.Workers.Subscribed)
		}
	}
	if len(said) != 1 {
		t.Errorf("the message moves at rest: %v", said)
	}
}

func TestNobodyIsCountedAsSubscribedWhereEventsAreNotRead(t *testing.T) {
	for name, change := range map[string]func(*facts){
		"events are off":       func(f *facts) { f.fleet.Spec.Workers.KVEvents.Mode = v1alpha1.KVEventsDisabled },
		"no policy needs them": func(f *facts) { f.fleet.Spec.Routing.Policy = v1alpha1.PolicyRoundRobin },
	} {
		if w := workersOf(facts3(change)); w.Subscribed != nil || *w.Discovered != 2 {
			t.Errorf("%s: workers %+v", name, w)
		}
	}
}

func TestRollingOutMapsEachReasonOfThePlanner(t *testing.T) {
	at := func(r rollout.Reason) func(*facts) {
		return func(f *facts) { f.decision.Reason = r }
	}
	check(t, v1alpha1.ConditionRollingOut, []expected{
		{"complete", same, no, v1alpha1.ReasonComplete},
		{"paused", at(rollout.Paused), no, v1alpha1.ReasonPaused},
		{"held", at(rollout.Held), no, v1alpha1.ReasonHeld},
		{"fill", at(rollout.Fill), yes, v1alpha1.ReasonSurging},
		{"surge", at(rollout.Surging), yes, v1alpha1.ReasonSurging},
		{"boot", at(rollout.WaitingForBootstrap), yes, v1alpha1.ReasonWaitingForBootstrap},
		{"proof", at(rollout.WaitingForMinReady), yes, v1alpha1.ReasonWaitingForMinReady},
		{"retire", at(rollout.Retiring), yes, v1alpha1.ReasonRetiring},
		{"scale in", at(rollout.ScaleIn), yes, v1alpha1.ReasonRetiring},
		{"drain", at(rollout.WaitingForDrain), yes, v1alpha1.ReasonRetiring},
		{"a reason nobody mapped is never complete", at("Novel"), no, v1alpha1.ReasonHeld},
		{"an undo", func(f *facts) {
			f.decision.Reason, f.decision.Active, f.olderTarget = rollout.Retiring, true, true
		}, yes, v1alpha1.ReasonRollingBack},
		{"an undo that is done", func(f *facts) { f.olderTarget = true }, no, v1alpha1.ReasonComplete},
		{"complete, but not recorded as stable yet", func(f *facts) { f.stable, f.decision.MarkStable = "r0", "r1" }, yes, v1alpha1.ReasonRetiring},
		{"complete and recorded just now", func(f *facts) { f.decision.MarkStable = "r1" }, no, v1alpha1.ReasonComplete},
		{"a spec nobody can render", func(f *facts) { f.unrendered = "routing.extraArgs: no" }, no, v1alpha1.ReasonHeld},
	})
}

func TestStalledNamesWhatStandsInTheWay(t *testing.T) {
	failed := func(why rollout.Failure) func(*facts) { return func(f *facts) { f.fail(2, why) } }
	check(t, v1alpha1.ConditionStalled, []expected{
		{"nothing", same, no, v1alpha1.ReasonNotStalled},
		{"image", failed(rollout.ImagePullFailed), yes, v1alpha1.ReasonImagePullFailed},
		{"crash", failed(rollout.CrashLooping), yes, v1alpha1.ReasonCrashLooping},
		{"container", failed(rollout.ContainerInvalid), yes, v1alpha1.ReasonInvalidSpec},
		{"scheduling", failed(rollout.Unschedulable), yes, v1alpha1.ReasonUnschedulable},
		{"quota", failed(rollout.QuotaExceeded), yes, v1alpha1.ReasonQuotaExceeded},
		{"refused", failed(rollout.PodRefused), yes, v1alpha1.ReasonInvalidSpec},
		{"silent", failed(rollout.Silent), yes, v1alpha1.ReasonStatusUnreachable},
		{"an ended pod is replaced", failed(rollout.PodEnded), no, v1alpha1.ReasonNotStalled},
		{"an old replica's failure stops nobody", func(f *facts) {
			f.fail(2, rollout.CrashLooping)
			f.decision.Replicas[2].ReplicaSet.Revision = "r0"
		}, no, v1alpha1.ReasonNotStalled},
		{"deadline", func(f *facts) { f.decision.DeadlineExceeded = true }, yes, v1alpha1.ReasonProgressDeadlineExceeded},
		{"a cause before the deadline", func(f *facts) {
			f.fail(2, rollout.ImagePullFailed)
			f.decision.DeadlineExceeded = true
		}, yes, v1alpha1.ReasonImagePullFailed},
		{"conflict before all", func(f *facts) {
			f.fail(2, rollout.ImagePullFailed)
			f.conflicts = []problem{{"Service", "demo", "taken"}}
		}, yes, v1alpha1.ReasonOwnershipConflict},
		{"refused child", func(f *facts) { f.invalid = []problem{{"Service", "demo", "no"}} }, yes, v1alpha1.ReasonInvalidSpec},
		{"unrendered", func(f *facts) { f.unrendered = "no" }, yes, v1alpha1.ReasonInvalidSpec},
	})
}

func TestReconcilingIsNeverTrueAtRestOrWhileStalled(t *testing.T) {
	check(t, v1alpha1.ConditionReconciling, []expected{
		{"at rest", same, no, v1alpha1.ReasonSettled},
		{"paused", func(f *facts) { f.decision.Reason = rollout.Paused }, no, v1alpha1.ReasonSettled},
		{"surging", func(f *facts) { f.decision.Reason = rollout.Surging }, yes, v1alpha1.ReasonProgressing},
		{"complete, but not recorded as stable yet", func(f *facts) { f.stable, f.decision.MarkStable = "r0", "r1" }, yes, v1alpha1.ReasonProgressing},
		{"stalled", func(f *facts) { f.fail(2, rollout.ImagePullFailed) }, no, v1alpha1.ReasonSettled},
		{"a child fails", func(f *facts) { f.failing = true }, yes, v1alpha1.ReasonProgressing},
	})
}

func TestReadySummarisesTheFirstThatDoesNotHold(t *testing.T) {
	check(t, v1alpha1.ConditionReady, []expected{
		{"all hold", same, yes, v1alpha1.ReasonFleetReady},
		{"zero", toZero, no, v1alpha1.ReasonScaledToZero},
		{"conflict", func(f *facts) {
			unready(3)(f)
			f.conflicts = []problem{{"Service", "demo", "taken"}}
		}, no, v1alpha1.ReasonDependenciesNotReady},
		{"a child fails", func(f *facts) { f.failing = true }, no, v1alpha1.ReasonDependenciesNotReady},
		{"not available", func(f *facts) {
			unready(1)(f)
			f.answer(2, 0, status.Workers{})
		}, no, v1alpha1.ReasonNotAvailable},
		{"no workers", func(f *facts) {
			for i := range 3 {
				f.answer(i, 0, status.Workers{})
			}
		}, no, v1alpha1.ReasonWorkersNotDiscovered},
		{"workers unknown", noAnswers, unknown, v1alpha1.ReasonWorkersNotDiscovered},
		{"stalled", func(f *facts) {
			f.decision.Replicas = append(f.decision.Replicas, readyReplica(2))
			f.fail(3, rollout.ImagePullFailed)
		}, no, v1alpha1.ReasonRolloutStalled},
		{"rolling out, and serving", func(f *facts) { f.decision.Reason = rollout.Surging }, yes, v1alpha1.ReasonFleetReady},
	})
}

// TestConditionTimesMoveOnlyWithTheStatus is row 21: a reason or message may change, the time stays.
func TestConditionTimesMoveOnlyWithTheStatus(t *testing.T) {
	f := facts3(func(f *facts) { f.decision.Reason, f.decision.Note = rollout.Surging, "one" })
	first := statusOf(f)
	f.previous, f.now = first, metav1.NewTime(noon.Add(time.Minute))
	f.decision.Reason, f.decision.Note = rollout.Retiring, "two"
	second := statusOf(f)
	rolling := meta.FindStatusCondition(second.Conditions, v1alpha1.ConditionRollingOut)
	if !rolling.LastTransitionTime.Equal(&noon) || rolling.Message != "two" {
		t.Errorf("true stayed true, yet the condition is %+v", rolling)
	}
	f.previous, f.decision.Reason = second, rollout.Complete
	third := meta.FindStatusCondition(statusOf(f).Conditions, v1alpha1.ConditionRollingOut)
	if !third.LastTransitionTime.Equal(&f.now) {
		t.Errorf("it flipped, yet the time is %s", third.LastTransitionTime)
	}
}

// TestNothingInAStatusMovesAtRest: derived again an hour later from the same world, it is the same to the byte.
func TestNothingInAStatusMovesAtRest(t *testing.T) {
	f := facts3()
	first := statusOf(f)
	f.previous, f.now = first, metav1.NewTime(noon.Add(time.Hour))
	for i := range 3 {
		f.answer(i, -time.Hour, status.Workers{Discovered: 2, Usable: 2}) // read again meanwhile
	}
	a, _ := json.Marshal(first)
	b, _ := json.Marshal(statusOf(f))
	if string(a) != string(b) {
		t.Errorf("the status moved:\n%s\n%s", a, b)
	}
}

func TestMessagesNameNoPod(t *testing.T) {
	for _, change := range []func(*facts){same, unready(2), func(f *facts) { f.fail(1, rollout.CrashLooping) }, noAnswers} {
		for _, c := range conditionsOf(facts3(change)) {
			if strings.Contains(c.Message, "-x") || strings.Contains(c.Message, "pod-") {
				t.Errorf("%s names a pod: %s", c.Type, c.Message)
			}
		}
	}
}

func TestProblemsAreListedInASteadyOrder(t *testing.T) {
	a := listed([]problem{{"Service", "b", "x"}, {"Role", "a", "y"}})
	b := listed([]problem{{"Role", "a", "y"}, {"Service", "b", "x"}})
	if a != b || a != "Role a: y; Service b: x" {
		t.Errorf("%q and %q", a, b)
	}
}

func TestAMessageIsCutToWhatTheAPIServerAccepts(t *testing.T) {
	c := condition("T", yes, "R", strings.Repeat("x", maxMessage+1))
	if len(c.Message) != maxMessage || !strings.HasSuffix(c.Message, "...") {
		t.Errorf("%d bytes", len(c.Message))
	}
}
