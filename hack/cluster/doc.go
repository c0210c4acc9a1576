// Command cluster runs a real Kubernetes cluster of one to nine nodes on one
// Linux machine, without Docker and without an image registry.
//
// A node is a process tree in mount, pid, network, UTS and IPC namespaces of its
// own, with Debian's containerd and the programs of hack/kube in it. One more
// network namespace holds a bridge, the switch, that every node has a link to.
// The host's own network gets no link, route, rule or sysctl; the host reaches
// the API server through a proxy on a loopback port.
//
// The invariant: after `down` nothing is left, however the cluster ended. So
// nothing is found by files that might be missing or stale; processes are known
// by a mark in their environment, cgroups by a name derived from the state
// folder, and everything else dies with the processes.
//
// This package is for Linux alone; see docs/local-cluster.md for its use.
package main
