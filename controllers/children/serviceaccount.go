package children

import (
	"github.com/routerfleet/routerfleet/api/v1alpha1"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;patch

// ServiceAccount is who the routers are. Its token is mounted only where the pod
// template says so.
func ServiceAccount(f *v1alpha1.RouterFleet) *corev1ac.ServiceAccountApplyConfiguration {
	return corev1ac.ServiceAccount(RouterName(f.Name), f.Namespace).
		WithLabels(FleetLabels(f.Name)).
		WithOwnerReferences(ownerReference(f)).
		WithAutomountServiceAccountToken(false)
}
