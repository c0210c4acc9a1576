// Package live is a running Kubernetes cluster as a person with a kubeconfig sees it: kubectl, ports of
// pods through the API server, router metrics, the load generator as a Job. The end-to-end tests and
// `make demo` stand on it.
//
// Invariant: everything here works on any cluster a kubeconfig reaches; nothing knows how the cluster
// was made, and nothing reads a router or an engine but over the network.
package live
