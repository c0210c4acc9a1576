package children

import (
	"maps"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

const appName = "routerfleet-router"

// FleetLabels are the labels every child carries.
func FleetLabels(fleet string) map[string]string {
	return map[string]string{
		v1alpha1.LabelFleet:            fleet,
		"app.kubernetes.io/name":       appName,
		"app.kubernetes.io/instance":   fleet,
		"app.kubernetes.io/managed-by": "routerfleet",
	}
}

// PodSelector matches every router pod of a fleet, of whatever revision.
func PodSelector(fleet string) map[string]string {
	return map[string]string{v1alpha1.LabelFleet: fleet}
}

// SlotSelector matches the pods of one ReplicaSet. No two ReplicaSets of a fleet
// share it, so none can adopt the pods of another.
func SlotSelector(fleet, hash string, slot, retry int32) map[string]string {
	return map[string]string{
		v1alpha1.LabelFleet:    fleet,
		v1alpha1.LabelSlot:     decimal(slot),
		v1alpha1.LabelRevision: hash,
		v1alpha1.LabelRetry:    decimal(retry),
	}
}

// IsOwned says whether the fleet is the controller of the object. Anything else
// of a child's name is left alone.
func IsOwned(f *v1alpha1.RouterFleet, object metav1.Object) bool {
	return metav1.IsControlledBy(object, f)
}

// plain is a user's map of labels or annotations as Kubernetes types it.
func plain[V ~string](m map[string]V) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = string(v)
	}
	return out
}

// merged is a new map; later maps win.
func merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

func ownerReference(f *v1alpha1.RouterFleet) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).
		WithKind(v1alpha1.Kind.Kind).
		WithName(f.Name).
		WithUID(f.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}
