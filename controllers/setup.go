package controllers

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

const (
	// defaultWorkers is how many fleets are reconciled at once where the manager does not say.
	defaultWorkers = 4
	// defaultTimeout bounds one reconcile where the manager does not say.
	defaultTimeout = 30 * time.Second

	// A fleet that fails is tried again after firstRetry, then twice as late each time, up to lastRetry. The limit is
	// per fleet: one bad fleet starves no other.
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
)

// SetupWithManager watches fleets, their children and their pods, and runs the prober on the leader.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.events == nil {
		r.events = mgr.GetEventRecorder(v1alpha1.FieldManager)
	}
	if err := mgr.Add(r.prober); err != nil {
		return fmt.Errorf("add prober: %w", err)
	}
	// A status that changes wakes too, or one that somebody wiped would stay so at rest. A write of our own then costs
	// one reconcile from the cache, which sends nothing.
	return ctrl.NewControllerManagedBy(mgr).
		Named("routerfleet").
		For(&v1alpha1.RouterFleet{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, statusChanged()))).
		Owns(&appsv1.ReplicaSet{}).
		Owns(&appsv1.ControllerRevision{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&corev1.Service{}).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(fleetOfPod)).
		WatchesRawSource(source.Func(r.takeQueue)).
		WithOptions(controllerOptions(mgr)).
		Complete(r)
}

// statusChanged lets updates of a fleet's status through. A resync is none.
func statusChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.RouterFleet)
		after, okAfter := e.ObjectNew.(*v1alpha1.RouterFleet)
		return ok && okAfter && !equality.Semantic.DeepEqual(before.Status, after.Status)
	}}
}

// controllerOptions fills in what the manager leaves open.
func controllerOptions(mgr ctrl.Manager) controller.Options {
	given := mgr.GetControllerOptions()
	o := controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}
	if given.MaxConcurrentReconciles == 0 {
		o.MaxConcurrentReconciles = defaultWorkers
	}
	if given.ReconciliationTimeout == 0 {
		o.ReconciliationTimeout = defaultTimeout
	}
	if given.RecoverPanic == nil {
		yes := true
		o.RecoverPanic = &yes
	}
	return o
}

// takeQueue is a source without events of its own: it remembers the queue that wake adds to.
func (r *Reconciler) takeQueue(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = queue
	return nil
}

// fleetOfPod wakes a fleet by its pods' label. Pods are not owned by the fleet but by its ReplicaSets.
func fleetOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	fleet := fleetOf(pod.GetLabels(), pod.GetNamespace())
	if fleet == (types.NamespacedName{}) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: fleet}}
}
