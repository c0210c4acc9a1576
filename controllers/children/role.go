package children

import (
	"github.com/routerfleet/routerfleet/api/v1alpha1"

	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
)

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch

// Role is all that routers may do: read EndpointSlices of their namespace, to
// find engines and each other. The operator must hold the same rules, or the API
// server refuses to let it grant them.
func Role(f *v1alpha1.RouterFleet) *rbacv1ac.RoleApplyConfiguration {
	return rbacv1ac.Role(RouterName(f.Name), f.Namespace).
		WithLabels(FleetLabels(f.Name)).
		WithOwnerReferences(ownerReference(f)).
		WithRules(rbacv1ac.PolicyRule().
			WithAPIGroups("discovery.k8s.io").
			WithResources("endpointslices").
			WithVerbs("get", "list", "watch"))
}
