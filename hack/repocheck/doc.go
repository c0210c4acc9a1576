// Package repocheck holds tests about the repository itself: promises that no
// single package could check. The Dockerfile builds what hack/image builds,
// PROJECT is one that kubebuilder accepts, every condition reason has a page,
// every link in the docs leads somewhere, every room has its import arrows.
//
// It is a module of its own so that the Dockerfile parser and kubebuilder never
// reach the product's go.mod.
package repocheck
