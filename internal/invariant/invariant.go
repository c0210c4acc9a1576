// Package invariant holds the checks that only test builds run.
//
// Enabled is a constant, so a check guarded by it costs nothing in a release build:
//
//	if invariant.Enabled {
//		invariant.Check(active >= 0, "worker %s has %d active requests", name, active)
//	}
//
// It is true under -race and under the build tag "invariants". The package imports nothing of this module.
package invariant

import "fmt"

// Check panics with the formatted message when ok is false and checks are enabled. A broken invariant is a bug of
// our own; never use Check on input from outside.
func Check(ok bool, format string, args ...any) {
	if Enabled && !ok {
		panic("broken invariant: " + fmt.Sprintf(format, args...))
	}
}
