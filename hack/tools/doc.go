// Package tools pins the code generators as tools of a module of their own, so
// that they never weigh on the dependencies of the product:
//
//	go tool -modfile=hack/tools/go.mod controller-gen ...
package tools
