package controllers

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/routerfleet/routerfleet/controllers/children"
)

// outcome is what became of a plan. Problems are the user's to solve, errs are tried again.
type outcome struct {
	conflicts []problem // a child's name is taken by an object of somebody else
	invalid   []problem // the API server refuses a child for what it says
	errs      []error

	// withoutModels are the revisions whose models file could not be applied: they get no new pods.
	withoutModels map[string]bool

	newRevision bool
	created     []replicaWrite
	retired     []replicaWrite
	stable      string // newly marked, empty if none

	// lookAgain: the world moved between the list and the write (409), or between cache and list.
	lookAgain bool
}

// replicaWrite is one ReplicaSet that was created or retired, and why.
type replicaWrite struct {
	set  *appsv1.ReplicaSet
	note string
}

// problem names a child and says what is wrong with it. Its text is steady from one reconcile to the next.
type problem struct{ kind, name, what string }

func (p problem) String() string { return p.kind + " " + p.name + ": " + p.what }

// errForeign says that an object of a child's name is not controlled by the fleet.
var errForeign = errors.New("it exists and belongs to somebody else; delete or rename it, or rename the RouterFleet")

// book files an error of one child where it belongs.
func (out *outcome) book(kind, name string, err error) {
	switch {
	case err == nil:
	case errors.Is(err, errForeign):
		out.conflicts = append(out.conflicts, problem{kind, name, errForeign.Error()})
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
		out.invalid = append(out.invalid, problem{kind, name, steadyWords(rootCause(err))})
	case apierrors.IsConflict(err):
		out.lookAgain = true
	default:
		out.errs = append(out.errs, fmt.Errorf("%s %s: %w", kind, name, err))
	}
}

// rootCause is the API server's own sentence, without how it was reached.
func rootCause(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

// apply carries a plan out, child by child. An error of one stops no other: a Service that cannot be changed must not
// keep a dead replica from being replaced.
func (r *Reconciler) apply(ctx context.Context, p *plan) *outcome {
	out := &outcome{lookAgain: p.moved, withoutModels: map[string]bool{}}
	for _, child := range children.Steady(p.fleet) {
		_, err := r.applyChild(ctx, p.fleet, child)
		out.book(child.Kind, child.Name, err)
	}
	out.book("Secret", children.TokensName(p.fleet.Name), r.keepTokens(ctx, p.fleet))
	if p.invalid == nil {
		r.keepRevision(ctx, p, out)
	}
	if p.target != "" {
		r.keepModels(ctx, p, out)
	}
	if !p.moved {
		r.applyDecision(ctx, p, out)
		r.pruneRevisions(ctx, p, out)
	}
	for _, err := range out.errs {
		log.FromContext(ctx).Info("child not applied, will be tried again", "why", err.Error())
	}
	return out
}
