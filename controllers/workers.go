package controllers

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/rollout"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

// freshness is how much older than the newest an answer may be to count workers. At rest only the scout is read
// every ten seconds; what others said minutes ago must not outvote it.
const freshness = 15 * time.Second

// standingAnswers are the answers that stand: of replicas' present containers, not silent, and settled (before, a router
// has not looked yet).
func standingAnswers(f facts) []rollout.Answer {
	var out []rollout.Answer
	for _, r := range f.decision.Replicas {
		if r.Pod == nil {
			continue
		}
		a, ok := f.answers[r.Pod.Container]
		if !ok || a.Status == nil || a.Status.State != status.StateSettled || silent(a, f.now) {
			continue
		}
		out = append(out, a)
	}
	return out
}

// freshAnswers are the standing answers about as new as the newest: what may say how many workers there are.
func freshAnswers(f facts) []*status.Status {
	standing := standingAnswers(f)
	var newest time.Time
	for _, a := range standing {
		if a.ReadAt.After(newest) {
			newest = a.ReadAt
		}
	}
	var out []*status.Status
	for _, a := range standing {
		if newest.Sub(a.ReadAt) <= freshness {
			out = append(out, a.Status)
		}
	}
	return out
}

// workersOf counts the engines: the most any replica reports, and of those whose events are read the fewest. Nil while
// nobody knows.
func workersOf(f facts) *v1alpha1.WorkersStatus {
	answers := freshAnswers(f)
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
	return &v1alpha1.WorkersStatus{Discovered: ptr.To(int32(most)), Subscribed: subscribedOf(f)}
}

// subscribedOf asks every answer that stands, also those of minutes ago: the fewest of a set that changes with the age of
// its members would move at rest.
func subscribedOf(f facts) *int32 {
	standing := standingAnswers(f)
	if len(standing) == 0 || !readsEvents(&f.fleet.Spec) {
		return nil
	}
	fewest := standing[0].Status.Workers.Subscribed
	for _, a := range standing {
		fewest = min(fewest, a.Status.Workers.Subscribed)
	}
	return ptr.To(int32(fewest))
}

// readsEvents tells whether routers of this spec read KV events: when somebody would use what they tell.
func readsEvents(s *v1alpha1.RouterFleetSpec) bool {
	return s.Workers.KVEvents.Mode != v1alpha1.KVEventsDisabled && s.Routing.Policy == v1alpha1.PolicyCacheAware
}
