package controllers

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

func unselected(n int) status.Problem {
	return status.Problem{Code: status.CodeWorkersUnselected, Count: n, Example: "ns/engine-1: not for a message"}
}

// nobodyUsable takes the usable workers out of every answer.
func nobodyUsable(f *facts) {
	for i := range 3 {
		f.answers[f.decision.Replicas[i].Pod.Container].Status.Workers.Usable = 0
	}
}

func TestWorkersThatNoModelSelectsAreAReason(t *testing.T) {
	report := func(problems ...status.Problem) func(*facts) {
		return func(f *facts) {
			for i := range 3 {
				f.report(i, 4, problems...)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*facts)
		value  metav1.ConditionStatus
		reason string
		says   string
	}{
		"beside usable ones": {report(unselected(2)), metav1.ConditionTrue, v1alpha1.ReasonWorkersUnselected,
			"; 2 serve nothing: the selector of no model"},
		"alone": {func(f *facts) { report(unselected(2))(f); nobodyUsable(f) }, metav1.ConditionFalse, v1alpha1.ReasonWorkersUnselected,
			"no worker they can use: 2 are taken by the selector of no model"},
		"none": {nobodyUsable, metav1.ConditionFalse, v1alpha1.ReasonNoWorkers, "no worker they can use"},
		"the most of any replica": {func(f *facts) { report(unselected(1))(f); f.report(2, 4, unselected(3)) }, metav1.ConditionTrue,
			v1alpha1.ReasonWorkersUnselected, "; 3 serve nothing"},
		"beside other tokens": {report(unselected(1), status.Problem{Code: status.CodeTokenParity, Count: 1}), metav1.ConditionTrue,
			v1alpha1.ReasonWorkersUnselected, "token_parity"},
		"with no stream trusted": {report(unselected(1), untrusted(4)), metav1.ConditionFalse, v1alpha1.ReasonKVStreamUntrusted, ""},
	} {
		got := conditionWorkersDiscovered(facts3(c.change))
		if got.Status != c.value || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %s/%s %q, want %s/%s that says %q", name, got.Status, got.Reason, got.Message, c.value, c.reason, c.says)
		}
		if strings.Contains(got.Message, "engine-1") {
			t.Errorf("%s: the message names an engine: %s", name, got.Message)
		}
	}
}
