package children

import (
	"github.com/routerfleet/routerfleet/api/v1alpha1"

	"k8s.io/apimachinery/pkg/runtime"
)

// Child is one object of a fleet and the intent for it.
type Child struct {
	// Kind of the object.
	Kind string
	// Name of the object, in the namespace of the fleet.
	Name string
	// Apply is the intent: every field in it is the operator's, no other is. Use it
	// for one request: clients write the API server's answer into it, and applying
	// that would claim every field there is.
	Apply runtime.ApplyConfiguration
}

// Steady lists the children that follow the spec at once, in the order they are
// applied: permissions before the pods that need them. They carry nothing of a
// revision, so that a change of theirs never rolls a pod.
func Steady(f *v1alpha1.RouterFleet) []Child {
	f = defaulted(f)
	return []Child{
		{"ServiceAccount", RouterName(f.Name), ServiceAccount(f)},
		{"Role", RouterName(f.Name), Role(f)},
		{"RoleBinding", RouterName(f.Name), RoleBinding(f)},
		{"Service", ServiceName(f.Name), ClientService(f)},
		{"Service", PeerServiceName(f.Name), PeerService(f)},
	}
}

// defaulted is a copy with the static defaults; the caller's fleet may come from
// a shared cache.
func defaulted(f *v1alpha1.RouterFleet) *v1alpha1.RouterFleet {
	f = f.DeepCopy()
	f.Spec.Default()
	return f
}
