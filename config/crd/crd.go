// Package crd holds the CustomResourceDefinition that controller-gen writes from
// api/, for programs that install or describe it.
package crd

import _ "embed" // for RouterFleets

// RouterFleets is the CustomResourceDefinition of RouterFleet, as YAML.
//
//go:embed bases/routerfleet.io_routerfleets.yaml
var RouterFleets []byte
