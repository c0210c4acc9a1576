package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"
	"github.com/routerfleet/routerfleet/controllers/rollout"
	"github.com/routerfleet/routerfleet/internal/signed"
)

// tokensAge is how long the keys of a tokens Secret are used before it is read again. Secrets are neither cached nor
// watched, so this is how a deleted or rotated one is noticed. A fleet at rest is not reconciled and reads nothing.
const tokensAge = time.Minute

// untilTokens is when the keys of a fleet that is still worked on are to be read again: a pod that starts hangs on a
// missing Secret, and nothing else would wake the fleet. It is 0 once the rollout is complete, or without keys: then an
// error asks to come back.
func (r *Reconciler) untilTokens(p *plan) time.Duration {
	page := r.notes.read(p.fleet)
	if p.decision.Reason == rollout.Complete || page.keys == nil {
		return 0
	}
	return max(tokensAge-r.now().Sub(page.keysRead), time.Millisecond)
}

// keepTokens creates the tokens Secret, fills in what is missing, and remembers the peer keys to ask routers with.
func (r *Reconciler) keepTokens(ctx context.Context, f *v1alpha1.RouterFleet) error {
	now := r.now()
	if p := r.notes.read(f); p.keys != nil && now.Sub(p.keysRead) < tokensAge {
		return nil
	}
	secret, err := r.writeTokens(ctx, f)
	if err != nil {
		return err
	}
	tokens, err := signed.ParseTokens(secret.Data)
	if err != nil {
		return fmt.Errorf("read tokens: %w", err)
	}
	r.notes.write(f, func(p *page) { p.keys, p.keysRead = tokens.Keys(), now })
	return nil
}

func (r *Reconciler) writeTokens(ctx context.Context, f *v1alpha1.RouterFleet) (*corev1.Secret, error) {
	existing := &corev1.Secret{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: children.TokensName(f.Name)}, existing)
	switch {
	case apierrors.IsNotFound(err):
		existing = nil
	case err != nil:
		return nil, fmt.Errorf("read: %w", err)
	case !children.IsOwned(f, existing):
		return nil, errForeign
	}
	secret, changed, err := children.Tokens(f, existing, r.rand)
	switch {
	case err != nil:
		return nil, err
	case existing == nil:
		if err := r.client.Create(ctx, secret, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
			return nil, fmt.Errorf("create: %w", err)
		}
	case changed: // the resourceVersion in it is the guard
		if err := r.client.Update(ctx, secret, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
			return nil, fmt.Errorf("update: %w", err)
		}
	}
	return secret, nil
}
