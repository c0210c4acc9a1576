package controllers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"
	"github.com/routerfleet/routerfleet/controllers/rollout"
)

// plan is an observation with what is to be done about it.
type plan struct {
	*observation
	target   string            // hash of the revision the decision works towards
	revision children.Revision // of target; zero if the spec cannot be rendered
	invalid  error             // why the spec cannot be rendered; its text is for the user
	decision rollout.Decision

	// moved tells that the cache and the API server led to different decisions. Nothing of it is carried out.
	moved bool
}

// plan decides from the cache, and again with fresh eyes if ReplicaSets would be written or Complete be told: the cache
// may be seconds old, and with one ReplicaSet a slot no conflict tells that another slot's pod died. It is nil without
// error if the fleet went meanwhile.
func (r *Reconciler) plan(ctx context.Context, seen *observation) (*plan, error) {
	p := r.decide(seen)
	if !p.needsFreshEyes() {
		return p, nil
	}
	live, err := r.observe(ctx, r.live, keyOf(seen.fleet))
	if live == nil || err != nil {
		return nil, err
	}
	again := r.decide(live)
	again.moved = !again.decision.SameWrites(p.decision) || live.fleet.UID != seen.fleet.UID
	return again, nil
}

func (r *Reconciler) decide(o *observation) *plan {
	p := &plan{observation: o}
	p.revision, p.invalid = children.RevisionOf(o.fleet)
	p.target = p.revision.Hash
	if p.invalid != nil {
		// The spec is unusable, the fleet is not: it goes on healing and scaling what it was last asked for.
		p.target = o.previous.UpdateRevision
		if cr := o.revision(p.target); cr != nil {
			p.revision, _ = children.DecodeRevision(cr)
		}
	}
	if p.target == "" {
		p.decision = rollout.Decision{Kind: rollout.None, Reason: rollout.Held, Note: "the spec cannot be rendered"}
		return p
	}
	p.decision = rollout.Plan(o.world(p.target), o.now.Time)
	return p
}

// needsFreshEyes is false at rest: a fleet that was already told to be complete at this generation asks nothing.
func (p *plan) needsFreshEyes() bool {
	return p.decision.Writes() || p.decision.MarkStable != "" ||
		p.decision.Reason == rollout.Complete && !toldComplete(p.previous, p.fleet.Generation)
}

// toldComplete tells whether a status already says that the rollout of a generation is complete.
func toldComplete(s v1alpha1.RouterFleetStatus, generation int64) bool {
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionRollingOut)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonComplete && c.ObservedGeneration == generation
}

func wasPaused(s v1alpha1.RouterFleetStatus) bool {
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionRollingOut)
	return c != nil && c.Reason == v1alpha1.ReasonPaused
}
