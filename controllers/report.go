package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

const (
	// lookAgainAfter is the rest before a plan that met a moved world is made anew. The watch that tells of the move
	// usually comes first.
	lookAgainAfter = 500 * time.Millisecond

	// problemRetry is how often a child that is refused or in conflict is tried again: foreign objects are not watched.
	problemRetry = 30 * time.Second

	// workersRest is how often at most status.workers is written: engines come in dozens when they scale.
	workersRest = 10 * time.Second
)

// report writes the status once if it differs from what stands, tells the transitions as events, and gives the one time to come back.
// It runs on the error path too: a failed child is part of the truth.
func (r *Reconciler) report(ctx context.Context, p *plan, out *outcome) (reconcile.Result, error) {
	next := statusOf(factsOf(p, out))
	again := r.restWorkers(p, &next)
	if !equality.Semantic.DeepEqual(p.live, next) {
		if err := r.writeStatus(ctx, p.fleet, &next); err != nil {
			return reconcile.Result{}, errors.Join(append(out.errs, err)...)
		}
	}
	r.tell(p, out, next)
	if err := errors.Join(out.errs...); err != nil {
		return reconcile.Result{}, fmt.Errorf("reconcile RouterFleet %s: %w", keyOf(p.fleet), err)
	}
	waits := []time.Duration{p.decision.RequeueAfter, again, r.untilTokens(p)}
	if out.lookAgain {
		waits = append(waits, lookAgainAfter)
	}
	if len(out.conflicts)+len(out.invalid) > 0 {
		waits = append(waits, problemRetry)
	}
	return reconcile.Result{RequeueAfter: soonest(waits)}, nil
}

// soonest is the least positive duration, 0 if there is none.
func soonest(waits []time.Duration) time.Duration {
	var least time.Duration
	for _, w := range waits {
		if w > 0 && (least == 0 || w < least) {
			least = w
		}
	}
	return least
}

// restWorkers keeps the old counts of workers if they were written less than workersRest ago, and gives the time until
// the new ones may be. Conditions are not held back.
func (r *Reconciler) restWorkers(p *plan, next *v1alpha1.RouterFleetStatus) time.Duration {
	if equality.Semantic.DeepEqual(p.previous.Workers, next.Workers) {
		return 0
	}
	now := r.now()
	if rest := r.notes.read(p.fleet).workersWritten.Add(workersRest).Sub(now); rest > 0 && p.previous.Workers != nil {
		next.Workers = p.previous.Workers
		return rest
	}
	r.notes.write(p.fleet, func(page *page) { page.workersWritten = now })
	return 0
}

// writeStatus applies the whole status. The uid keeps it from landing on another fleet of the same name.
func (r *Reconciler) writeStatus(ctx context.Context, fleet *v1alpha1.RouterFleet, next *v1alpha1.RouterFleetStatus) error {
	raw, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.Kind.Kind,
		"metadata": map[string]any{"name": fleet.Name, "namespace": fleet.Namespace, "uid": fleet.UID},
		"status":   next,
	})
	if err != nil {
		return fmt.Errorf("write status of RouterFleet %s: %w", keyOf(fleet), err)
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		return fmt.Errorf("write status of RouterFleet %s: %w", keyOf(fleet), err)
	}
	err = r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)
	if apierrors.IsNotFound(err) {
		return nil // gone meanwhile
	}
	if err != nil {
		return fmt.Errorf("apply status of RouterFleet %s: %w", keyOf(fleet), err)
	}
	r.notes.write(fleet, func(p *page) { p.status, p.version = next.DeepCopy(), object.GetResourceVersion() })
	return nil
}
