// Package cursor is the value that says up to where a rank's stream of events was applied, and why that may be believed.
// It is what replicas tell each other of a rank: the pump moves it, snapshots carry it, audits compare it.
//
// The one invariant: two cursors are called of one life only if nothing known of either speaks against it, and a batch is
// called the next only if it may be of the cursor's life. Nothing in here reads a clock or keeps state.
package cursor
