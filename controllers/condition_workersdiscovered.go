package controllers

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

// conditionWorkersDiscovered says whether the routers found engines they can use, as they tell it themselves.
//
//  1. a settled replica reports a usable worker, and no replica trusts any rank's events: false
//  2. a settled replica reports a usable worker: true; the message names problems with some engines' events, and the reason
//     is WorkersUnselected while the selector of no model takes some of them, else TokenParity while some replica's
//     tokenizer is not that of an engine
//  3. settled replicas report none: false; the reason is WorkersUnselected if there are some that no selector takes
//  4. running replicas were asked and are silent: unknown, unreachable
//  5. Ready replicas exist and none was asked yet (the operator just started): as it was said before
//  6. nobody has answered yet, or there is nobody to ask: unknown
func conditionWorkersDiscovered(f facts) metav1.Condition {
	is := func(value metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionWorkersDiscovered, value, reason, message)
	}
	answers := freshAnswers(f)
	unselected := mostOf(f, status.CodeWorkersUnselected)
	usable := slices.ContainsFunc(answers, func(s *status.Status) bool { return s.Workers.Usable > 0 })
	switch {
	case usable && streamsUntrusted(f):
		return is(metav1.ConditionFalse, v1alpha1.ReasonKVStreamUntrusted,
			"the routers found workers and serve, but trust the KV events of none: batches are missing or were not understood")
	case usable:
		message, reason := "the routers found workers", v1alpha1.ReasonWorkersFound
		if trouble := eventTrouble(f); trouble != "" {
			message += "; some have trouble with their KV events: " + trouble
		}
		if n := mostOf(f, status.CodeTokenParity); n > 0 {
			message += fmt.Sprintf("; the routers' tokenizer makes other tokens than %d of them (token_parity): prompts of text are routed without it", n)
			reason = v1alpha1.ReasonTokenParity
		}
		if unselected > 0 {
			message += fmt.Sprintf("; %d serve nothing: the selector of no model in spec.models takes them (workers_unselected)", unselected)
			reason = v1alpha1.ReasonWorkersUnselected
		}
		return is(metav1.ConditionTrue, reason, message)
	case len(answers) > 0 && unselected > 0:
		return is(metav1.ConditionFalse, v1alpha1.ReasonWorkersUnselected,
			fmt.Sprintf("the routers found no worker they can use: %d are taken by the selector of no model in spec.models", unselected))
	}
	if len(answers) > 0 {
		return is(metav1.ConditionFalse, v1alpha1.ReasonNoWorkers,
			"the routers found no worker they can use: compare spec.workers with the engines' Service and their readiness")
	}
	for _, r := range f.decision.Replicas {
		if r.Pod != nil && silent(f.answers[r.Pod.Container], f.now) {
			return is(metav1.ConditionUnknown, v1alpha1.ReasonStatusUnreachable,
				"the routers do not answer the operator on their admin port: is a NetworkPolicy in the way?")
		}
	}
	if was := meta.FindStatusCondition(f.previous.Conditions, v1alpha1.ConditionWorkersDiscovered); was != nil && unasked(f) {
		return is(was.Status, was.Reason, was.Message)
	}
	return is(metav1.ConditionUnknown, v1alpha1.ReasonNoReplicaAnswered, "no replica has told yet")
}

// unasked tells whether replicas serve that this operator has not tried to read yet. It lasts until the first read, a
// second or two after the operator started, and at most until silence is noticed.
func unasked(f facts) bool {
	ready := false
	for _, r := range f.decision.Replicas {
		if r.Pod == nil {
			continue
		}
		if _, asked := f.answers[r.Pod.Container]; asked {
			return false
		}
		ready = ready || r.Ready
	}
	return ready
}
