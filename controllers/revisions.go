package controllers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"
)

// keepRevision records the revision the spec asks for before any replica of it exists: the last one asked for has the
// highest number, so an undo gives an old revision a new number.
func (r *Reconciler) keepRevision(ctx context.Context, p *plan, out *outcome) {
	number, known := int64(1), p.revision.Hash
	if n := len(p.revisions); n > 0 {
		newest := &p.revisions[n-1]
		number = newest.Revision
		if newest.Labels[v1alpha1.LabelRevision] != known {
			number++
		}
	}
	name := children.RevisionName(p.fleet.Name, known)
	sent, err := r.applyChild(ctx, p.fleet, children.Child{
		Kind: "ControllerRevision", Name: name, Apply: children.ControllerRevision(p.fleet, p.revision, number),
	})
	out.book("ControllerRevision", name, err)
	out.newRevision = sent && p.observation.revision(known) == nil
}

// render gives the revision to render a ReplicaSet from: the spec's own, or one pinned earlier.
func (p *plan) render(hash string) (children.Revision, error) {
	if p.revision.Hash == hash {
		return p.revision, nil
	}
	cr := p.observation.revision(hash)
	if cr == nil {
		return children.Revision{}, fmt.Errorf("there is no ControllerRevision %s to render it from", children.RevisionName(p.fleet.Name, hash))
	}
	return children.DecodeRevision(cr)
}

// markStable records a revision as stable, then takes the mark off others. Between the two writes the newest counts.
func (r *Reconciler) markStable(ctx context.Context, p *plan, out *outcome) {
	stable := p.stable()
	if mark := p.decision.MarkStable; mark != "" {
		name := children.RevisionName(p.fleet.Name, mark)
		if err := r.annotateRevision(ctx, p, name, `"true"`); err != nil {
			out.book("ControllerRevision", name, err)
			return
		}
		stable, out.stable = mark, mark
	}
	for _, cr := range p.revisions {
		if _, marked := cr.Annotations[v1alpha1.AnnotationStable]; marked && cr.Labels[v1alpha1.LabelRevision] != stable {
			out.book("ControllerRevision", cr.Name, r.annotateRevision(ctx, p, cr.Name, "null"))
		}
	}
}

func (r *Reconciler) annotateRevision(ctx context.Context, p *plan, name, value string) error {
	cr := &appsv1.ControllerRevision{}
	cr.Namespace, cr.Name = p.fleet.Namespace, name
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.AnnotationStable, value)
	err := r.client.Patch(ctx, cr, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(v1alpha1.FieldManager))
	if err != nil {
		return fmt.Errorf("mark as stable (%s): %w", value, err)
	}
	r.intents.moved(intentOf(p.fleet, "ControllerRevision", name), cr.ResourceVersion)
	return nil
}

// pruneRevisions deletes the oldest revisions beyond the history limit. One that is wanted, stable, or run by any
// ReplicaSet is kept and does not count.
func (r *Reconciler) pruneRevisions(ctx context.Context, p *plan, out *outcome) {
	used := map[string]bool{p.target: true, p.stable(): true, out.stable: true}
	for _, rs := range p.sets {
		used[rs.Labels[v1alpha1.LabelRevision]] = true
	}
	var history []appsv1.ControllerRevision
	for _, cr := range p.revisions { // oldest first
		if !used[cr.Labels[v1alpha1.LabelRevision]] && cr.DeletionTimestamp.IsZero() {
			history = append(history, cr)
		}
	}
	surplus := len(history) - int(*p.fleet.Spec.Rollout.RevisionHistoryLimit)
	for i := range max(0, surplus) {
		cr := &history[i]
		err := client.IgnoreNotFound(r.client.Delete(ctx, cr, client.Preconditions{UID: &cr.UID}))
		out.book("ControllerRevision", cr.Name, err)
	}
}
