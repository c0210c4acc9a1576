package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the API group and version of this package.
	GroupVersion = schema.GroupVersion{Group: "routerfleet.io", Version: "v1alpha1"}

	// SchemeGroupVersion is GroupVersion under the name that generated apply
	// configurations expect.
	SchemeGroupVersion = GroupVersion

	// Kind is the group, version and kind of a RouterFleet.
	Kind = GroupVersion.WithKind("RouterFleet")

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the types of this package in a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &RouterFleet{}, &RouterFleetList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
