// Package v1alpha1 is the RouterFleet API: what a user asks for (spec), what
// the operator saw (status), and the names of every condition and reason.
//
// Its invariant: a field that does nothing is not here. Every bound, default
// and cross-field rule is a marker on the type, so the API server enforces it
// without a webhook; Default repeats the static defaults for code that sees an
// object before an API server did, and a test keeps the two equal.
//
// Rules ask has() also of fields that have a default: the default {} of a parent
// is checked before its own fields are filled in.
//
// No rule compares anything with replicas: kubectl scale and autoscalers
// validate the whole object again, and a fleet must always be scalable.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=routerfleet.io
package v1alpha1
