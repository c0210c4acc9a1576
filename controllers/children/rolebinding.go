package children

import (
	"github.com/routerfleet/routerfleet/api/v1alpha1"

	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
)

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;list;watch;create;patch

// RoleBinding gives the routers their Role.
func RoleBinding(f *v1alpha1.RouterFleet) *rbacv1ac.RoleBindingApplyConfiguration {
	name := RouterName(f.Name)
	return rbacv1ac.RoleBinding(name, f.Namespace).
		WithLabels(FleetLabels(f.Name)).
		WithOwnerReferences(ownerReference(f)).
		WithRoleRef(rbacv1ac.RoleRef().
			WithAPIGroup(rbacv1.GroupName).
			WithKind("Role").
			WithName(name)).
		WithSubjects(rbacv1ac.Subject().
			WithKind(rbacv1.ServiceAccountKind).
			WithName(name).
			WithNamespace(f.Namespace))
}
