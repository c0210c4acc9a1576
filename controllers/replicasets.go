package controllers

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"
	"github.com/routerfleet/routerfleet/controllers/rollout"
)

// applyDecision writes what the plan names: deletions of empty sets beside either creations or retirements.
func (r *Reconciler) applyDecision(ctx context.Context, p *plan, out *outcome) {
	for _, x := range p.decision.Delete {
		out.book("ReplicaSet", x.Name, r.deleteSet(ctx, p.fleet, x))
	}
	for _, x := range p.decision.Create {
		r.createSet(ctx, p, x, out)
	}
	for _, x := range p.decision.Retire {
		set, err := r.retireSet(ctx, p.fleet, x)
		out.book("ReplicaSet", x.Name, err)
		if set != nil {
			out.retired = append(out.retired, replicaWrite{set, x.Note})
		}
	}
	r.markStable(ctx, p, out)
}

// createSet posts a new ReplicaSet. A POST, not an apply: applied onto an existing set, a template would roll its slot
// silently at the next node failure, and replicas 1 would wake a retired one.
func (r *Reconciler) createSet(ctx context.Context, p *plan, x rollout.Creation, out *outcome) {
	if out.withoutModels[x.Revision] {
		return // why is said already
	}
	name := children.ReplicaSetName(p.fleet.Name, x.Revision, x.Slot, x.Retry)
	revision, err := p.render(x.Revision)
	if err != nil {
		out.invalid = append(out.invalid, problem{"ReplicaSet", name, err.Error()})
		return
	}
	rs, err := renderSet(p.fleet, revision, x.Slot, x.Retry)
	if err != nil {
		out.invalid = append(out.invalid, problem{"ReplicaSet", name, err.Error()})
		return
	}
	err = r.client.Create(ctx, rs, client.FieldOwner(v1alpha1.FieldManager))
	if apierrors.IsAlreadyExists(err) {
		err = r.whoTookTheName(ctx, p.fleet, name, out)
	} else if err == nil {
		out.created = append(out.created, replicaWrite{rs, x.Note})
		log.FromContext(ctx).Info("replica created", "replicaSet", name, "slot", x.Slot, "revision", x.Revision, "why", x.Note)
	}
	out.book("ReplicaSet", name, err)
}

// whoTookTheName: ours means that the cache is late, anybody else's is a conflict.
func (r *Reconciler) whoTookTheName(ctx context.Context, f *v1alpha1.RouterFleet, name string, out *outcome) error {
	rs := &appsv1.ReplicaSet{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: name}, rs)
	if err == nil && !children.IsOwned(f, rs) {
		return errForeign
	}
	out.lookAgain = true
	return client.IgnoreNotFound(err)
}

// retireSet writes the durable mark: replicas 0, guarded by uid and resourceVersion. A set that changed since it was
// listed answers 409 (its pod may have turned unready), one that was replaced 422: both mean look again. It gives the
// retired set, nil without error if somebody deleted it.
func (r *Reconciler) retireSet(ctx context.Context, f *v1alpha1.RouterFleet, x rollout.Retirement) (*appsv1.ReplicaSet, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": x.UID, "resourceVersion": x.ResourceVersion,
			"annotations": map[string]string{v1alpha1.AnnotationRetiredReason: x.Note},
		},
		"spec": map[string]any{"replicas": 0},
	})
	if err != nil {
		return nil, fmt.Errorf("write patch: %w", err)
	}
	rs := &appsv1.ReplicaSet{}
	rs.Namespace, rs.Name = f.Namespace, x.Name
	err = r.client.Patch(ctx, rs, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1alpha1.FieldManager))
	switch {
	case err == nil:
		log.FromContext(ctx).Info("replica retired", "replicaSet", x.Name, "slot", x.Slot, "revision", x.Revision, "why", x.Note)
		return rs, nil
	case apierrors.IsInvalid(err):
		return nil, apierrors.NewConflict(appsv1.Resource("replicasets"), x.Name, err)
	default:
		return nil, client.IgnoreNotFound(err)
	}
}

// deleteSet removes a retired set that no pod names as its controller any more.
func (r *Reconciler) deleteSet(ctx context.Context, f *v1alpha1.RouterFleet, x rollout.Deletion) error {
	rs := &appsv1.ReplicaSet{}
	rs.Namespace, rs.Name = f.Namespace, x.Name
	err := r.client.Delete(ctx, rs, client.Preconditions{UID: &x.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return client.IgnoreNotFound(err)
}
