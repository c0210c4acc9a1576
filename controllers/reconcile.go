package controllers

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Reconcile brings one fleet a step nearer to its spec, and its status to the truth.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	seen, err := r.observe(ctx, r.client, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if seen == nil {
		r.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	planned, err := r.plan(ctx, seen)
	if err != nil {
		return reconcile.Result{}, err
	}
	if planned == nil {
		r.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	done := r.apply(ctx, planned)
	r.track(planned)
	return r.report(ctx, planned, done)
}
