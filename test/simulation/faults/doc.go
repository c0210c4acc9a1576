// Package faults is the fault matrix of the replicas' indexes (peer-bootstrap B13): three replicas, each with the real
// pump, coordinator, snapshot producer and client, follow two engines of two ranks while seeded faults happen, in virtual
// time. What is not real are the engines, the sockets between engines and replicas, and the network between replicas,
// which is in memory.
//
// Checked all along: whatever a rank that calls itself origin or proven, complete and not suspect holds is what its engine
// held at the rank's cursor. Checked in the end, when the faults have stopped and the engines are silent: every rank is
// at the end of its engine's stream, or says what it is worth.
//
// A failure prints its seed; go test -run 'TestFaultMatrix/seed=7' -v tells its story.
package faults
