package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"
)

// keepModels has a models file for every revision of which there are, or will be, pods: a pod that mounts a missing
// ConfigMap never starts, and one that mounts somebody else's serves what he says. Those of other revisions are deleted;
// an undo renders them again.
func (r *Reconciler) keepModels(ctx context.Context, p *plan, out *outcome) {
	hashes := map[string]bool{p.target: true}
	for _, rs := range p.sets {
		hashes[rs.Labels[v1alpha1.LabelRevision]] = true
	}
	applied, complete := map[string]error{}, true // by name: revisions may share a file
	for _, hash := range slices.Sorted(maps.Keys(hashes)) {
		child, has, err := p.modelsFile(hash)
		if err != nil { // a creation of this revision says so
			complete = false
		}
		if !has {
			continue
		}
		err, done := applied[child.Name]
		if !done {
			_, err = r.applyChild(ctx, p.fleet, child)
			out.book(child.Kind, child.Name, err)
			applied[child.Name] = err
		}
		if err != nil {
			out.withoutModels[hash] = true
		}
	}
	if complete && !p.moved {
		r.pruneModels(ctx, p, applied, out)
	}
}

// modelsFile renders the models file of a revision, false if it has none.
func (p *plan) modelsFile(hash string) (children.Child, bool, error) {
	revision, err := p.render(hash)
	if err != nil {
		return children.Child{}, false, err
	}
	return children.ModelsFile(p.fleet, revision)
}

// pruneModels deletes the models files that no revision in use needs.
func (r *Reconciler) pruneModels(ctx context.Context, p *plan, needed map[string]error, out *outcome) {
	var list corev1.ConfigMapList
	if err := r.client.List(ctx, &list, p.inFleet()...); err != nil {
		out.errs = append(out.errs, fmt.Errorf("list ConfigMaps of RouterFleet %s: %w", keyOf(p.fleet), err))
		return
	}
	for i := range list.Items {
		file := &list.Items[i]
		if _, needs := needed[file.Name]; needs || !children.IsModelsFile(p.fleet, file) || !file.DeletionTimestamp.IsZero() {
			continue
		}
		err := client.IgnoreNotFound(r.client.Delete(ctx, file, client.Preconditions{UID: &file.UID}))
		out.book("ConfigMap", file.Name, err)
	}
}
