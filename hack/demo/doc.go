// Command demo is `make demo`: from a fresh clone on a Debian machine with Go to a fleet under load on a
// real cluster, and `make demo-down`: the machine as it was.
//
// `up` is a list of steps, each of which finds what an earlier run left and goes on from there: a second
// run reuses the cluster, the operator and the fleet. Every step says in one line what it is doing while
// it does it and in one line what came of it; when it fails, it says what to do. On a terminal the first
// of the two is overwritten by the second; elsewhere both are plain lines.
//
// The load is one trace, sent twice over empty engine caches: first through a second fleet, which is the sample but for
// the policy RoundRobin and is removed afterwards, then through the fleet itself. Engines are the same, and so is
// everything that a request passes but the choice of its engine.
//
// An interrupt ends the step that runs, with the programs it started. The cluster stays: run `make demo`
// again to go on or `make demo-down` to remove it.
package main
