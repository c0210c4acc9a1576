package controllers

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/rollout"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

// freshness is how much older than the newest an answer may be to count for workers. At rest only the scout is read
// every ten seconds; what others said minutes ago must not outvote it.
const freshness = 15 * time.Second

// settledAnswers are the answers that may say something about workers: of replicas' present containers, not silent,
// settled (before, a router has not looked yet), and about as new as the newest.
func settledAnswers(f facts) []*status.Status {
	var newest time.Time
	var candidates []rollout.Answer
	for _, r := range f.decision.Replicas {
		if r.Pod == nil {
			continue
		}
		a, ok := f.answers[r.Pod.Container]
		if !ok || a.Status == nil || a.Status.State != status.StateSettled || silent(a, f.now) {
			continue
		}
		candidates = append(candidates, a)
		if a.ReadAt.After(newest) {
			newest = a.ReadAt
		}
	}
	var out []*status.Status
	for _, a := range candidates {
		if newest.Sub(a.ReadAt) <= freshness {
			out = append(out, a.Status)
		}
	}
	return out
}

// workersOf counts the engines: the most any replica reports. Nil while nobody knows.
func workersOf(f facts) *v1alpha1.WorkersStatus {
	answers := settledAnswers(f)
	if len(answers) == 0 && unasked(f) {
		return f.previous.Workers
	}
	if len(answers) == 0 {
		return nil
	}
	most := 0
	for _, s := range answers {
		most = max(most, s.Workers.Discovered)
	}
	return &v1alpha1.WorkersStatus{Discovered: ptr.To(int32(most))}
}
