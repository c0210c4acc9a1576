// Package manager wires the operator: flags become options, options become a
// controller-runtime manager with the RouterFleet controller in it.
//
// Its invariant: only what a fleet consists of is ever in memory. Children are
// cached by our label, managed fields are stripped, Secrets are never cached.
package manager
