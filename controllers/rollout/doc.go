// Package rollout decides what a fleet's slots need next: a snapshot of the world goes in, an absolute plan comes out.
//
// The one invariant: Plan is a pure function. It has no client, no clock, no logger and no memory; the same world and
// the same instant give the same bytes, whatever the order of its lists. Everything that may go wrong around it (a
// stale cache, a crash between two writes, two operators) is therefore repaired by planning again.
//
// # Words
//
//   - slot: one replica's place in the fleet. A live ReplicaSet (replicas 1, not being deleted) occupies its slot.
//   - replica: a live ReplicaSet with its youngest pod that is not terminating (maybe none).
//   - R, S, U: desired replicas, maxSurge, maxUnavailable. T: live ReplicaSets.
//   - target: the revision the spec asks for. stable: the last revision that filled the whole fleet.
//   - protected: stable, or before any rollout completed the revision most Ready pods run (if it is not the target).
//   - right: the best replica of the wanted revision in a slot. Every other live replica is wrong.
//   - proven: Ready for minReadySeconds. Warmth joins here: a proven replica will also have to be warm.
//   - counted: proven if it runs the target while the target is not stable, else merely Ready. Availability is the
//     number of counted replicas: an undo must not demand proof of the fleet it returns to.
//   - free: holds nothing and serves nothing, so retiring it costs nothing.
//
// # Steps, the first that applies decides
//
//	0  a retired ReplicaSet without a pod object is deleted (beside anything below)
//	1  scale-in: whole slots are freed, the least worth first; not stopped by a pause
//	2  the slot set is the occupied slots and the lowest free numbers up to R
//	3  empty slots are filled while T < R+S; with the protected revision when the target may not grow now
//	4  a pause stops here; nothing wrong: complete, or waiting for proof
//	5  wrong replicas retire, each through the gate of retire.go
//	6  one successor a slot is surged, while T - occupied < S and the target may grow (maxUnproven)
//	7  nothing: the reason says what is waited for
//
// A decision holds either creations or retirements, never both, so that one reconcile moves the fleet one way.
//
// It is not an executor: who plans also re-reads, compares and writes (package controllers).
package rollout
