package children

import (
	"fmt"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// +kubebuilder:rbac:groups=apps,resources=replicasets,verbs=get;list;watch;create;patch;delete

// ReplicaSet is the one replica of a slot at a revision. retry is 0, or the
// number that tells it from retired ReplicaSets of the same slot and revision.
//
// It is intent for a creation only: replicas 1 must never be applied to a
// retired one, and a template applied to an existing one would roll its slot
// silently at the next node failure. The template's hash is an annotation, so
// that the two can be compared without the API server's defaults.
func ReplicaSet(f *v1alpha1.RouterFleet, r Revision, slot, retry int32) (*appsv1ac.ReplicaSetApplyConfiguration, error) {
	pod, err := podTemplate(f, r, slot, retry)
	if err != nil {
		return nil, err
	}
	template, raw, err := templateIntent(pod)
	if err != nil {
		return nil, fmt.Errorf("render ReplicaSet %s: %w", ReplicaSetName(f.Name, r.Hash, slot, retry), err)
	}
	selector := SlotSelector(f.Name, r.Hash, slot, retry)
	return appsv1ac.ReplicaSet(ReplicaSetName(f.Name, r.Hash, slot, retry), f.Namespace).
		WithLabels(merged(FleetLabels(f.Name), selector)).
		WithAnnotations(map[string]string{v1alpha1.AnnotationTemplateHash: hash(raw)}).
		WithOwnerReferences(ownerReference(f)).
		WithSpec(appsv1ac.ReplicaSetSpec().
			WithReplicas(1).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector)).
			WithTemplate(template)), nil
}
