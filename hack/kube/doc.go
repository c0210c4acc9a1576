// Command hyper is every Kubernetes program of the local cluster in one static
// binary: etcd, the control plane, the node programs, kubectl and a network
// policy agent.
//
// The name it is called by picks the program, so symlinks named after the
// programs stand in for them; envtest runs from the same symlinks. One binary
// links the shared code once (160 MB instead of 563 MB for seven programs) and
// lets all of them share it in memory, which is what makes three nodes fit on a
// laptop.
//
// It is a module of its own so that the project's go.mod stays free of
// k8s.io/kubernetes. Modules that both need have the same version in both: the
// build cache is shared, and nothing is compiled twice.
//
// It is not a distribution: nothing here is hardened or supported, and it is run
// only by hack/cluster and by tests.
package main
