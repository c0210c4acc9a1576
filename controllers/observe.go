package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"
	"github.com/routerfleet/routerfleet/controllers/rollout"
)

// observation is what was seen of a fleet, sorted by name. Nothing in it may be changed but the fleet, a copy.
type observation struct {
	fleet     *v1alpha1.RouterFleet // with its defaults
	sets      []appsv1.ReplicaSet   // controlled by the fleet
	pods      []corev1.Pod          // controlled by one of sets
	strays    []corev1.Pod          // carry the fleet's label without being ours
	revisions []appsv1.ControllerRevision
	answers   map[rollout.Container]rollout.Answer

	previous v1alpha1.RouterFleetStatus // the last status written
	live     v1alpha1.RouterFleetStatus // the status as it stands; somebody may have changed it since
	now      metav1.Time                // whole seconds, as the API stores them
}

// observe reads a fleet through a reader: the cache, or the API server for fresh eyes. It is nil without error for a
// fleet that is gone or being deleted: its children go by their owner references.
func (r *Reconciler) observe(ctx context.Context, from client.Reader, name types.NamespacedName) (*observation, error) {
	fleet := &v1alpha1.RouterFleet{}
	if err := from.Get(ctx, name, fleet); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read RouterFleet %s: %w", name, err)
	}
	if !fleet.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	o := &observation{fleet: fleet.DeepCopy(), now: metav1.NewTime(r.now().Truncate(1e9))}
	o.fleet.Spec.Default()
	o.previous, o.live = r.statuses(fleet)
	if err := o.readSets(ctx, from); err != nil {
		return nil, err
	}
	if err := o.readPods(ctx, from); err != nil {
		return nil, err
	}
	if err := o.readRevisions(ctx, r.client); err != nil {
		return nil, err
	}
	o.answers = r.prober.Answers(name)
	return o, nil
}

// statuses gives the last status written and the one that stands. The cache may not show the last one yet; once it shows
// that or a later one, any difference is somebody else's, and nothing is derived from it. After a restart the two are
// the same.
func (r *Reconciler) statuses(f *v1alpha1.RouterFleet) (previous, live v1alpha1.RouterFleetStatus) {
	p := r.notes.read(f)
	switch {
	case p.status == nil:
		return *f.Status.DeepCopy(), *f.Status.DeepCopy()
	case older(f.ResourceVersion, p.version):
		return *p.status.DeepCopy(), *p.status.DeepCopy()
	}
	previous, live = *p.status.DeepCopy(), *f.Status.DeepCopy()
	previous.Conditions = ownConditions(previous.Conditions, live.Conditions)
	return previous, live
}

func (o *observation) inFleet() []client.ListOption {
	return []client.ListOption{client.InNamespace(o.fleet.Namespace), client.MatchingLabels(children.PodSelector(o.fleet.Name))}
}

func (o *observation) readSets(ctx context.Context, from client.Reader) error {
	var list appsv1.ReplicaSetList
	if err := from.List(ctx, &list, o.inFleet()...); err != nil {
		return fmt.Errorf("list ReplicaSets of RouterFleet %s: %w", keyOf(o.fleet), err)
	}
	for _, rs := range list.Items {
		if children.IsOwned(o.fleet, &rs) {
			o.sets = append(o.sets, rs)
		}
	}
	slices.SortFunc(o.sets, func(a, b appsv1.ReplicaSet) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// readPods sorts the labelled pods into those of our ReplicaSets and strays. A stray is in the Services without being
// counted, and disables the disruption budget.
func (o *observation) readPods(ctx context.Context, from client.Reader) error {
	var list corev1.PodList
	if err := from.List(ctx, &list, o.inFleet()...); err != nil {
		return fmt.Errorf("list pods of RouterFleet %s: %w", keyOf(o.fleet), err)
	}
	owners := map[types.UID]bool{}
	for _, rs := range o.sets {
		owners[rs.UID] = true
	}
	for _, pod := range list.Items {
		switch owner := metav1.GetControllerOfNoCopy(&pod); {
		case owner != nil && owners[owner.UID]:
			o.pods = append(o.pods, pod)
		case owner == nil:
			o.strays = append(o.strays, pod)
		}
	}
	byName := func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(o.pods, byName)
	slices.SortFunc(o.strays, byName)
	return nil
}

// readRevisions always reads the cache: revisions only ever gain a mark, and creating one is idempotent by name.
func (o *observation) readRevisions(ctx context.Context, from client.Reader) error {
	var list appsv1.ControllerRevisionList
	if err := from.List(ctx, &list, o.inFleet()...); err != nil {
		return fmt.Errorf("list ControllerRevisions of RouterFleet %s: %w", keyOf(o.fleet), err)
	}
	for _, cr := range list.Items {
		if children.IsOwned(o.fleet, &cr) {
			o.revisions = append(o.revisions, cr)
		}
	}
	slices.SortFunc(o.revisions, func(a, b appsv1.ControllerRevision) int {
		if a.Revision != b.Revision {
			return int(a.Revision - b.Revision)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return nil
}

// revision finds the ControllerRevision of a hash.
func (o *observation) revision(hash string) *appsv1.ControllerRevision {
	for i := range o.revisions {
		if o.revisions[i].Labels[v1alpha1.LabelRevision] == hash {
			return &o.revisions[i]
		}
	}
	return nil
}

// stable is the hash of the revision marked stable; of the newest if a crash left two marks. Empty without any.
func (o *observation) stable() string {
	for i := len(o.revisions) - 1; i >= 0; i-- {
		if _, marked := o.revisions[i].Annotations[v1alpha1.AnnotationStable]; marked {
			return o.revisions[i].Labels[v1alpha1.LabelRevision]
		}
	}
	return ""
}
