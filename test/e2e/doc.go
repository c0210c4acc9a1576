// Package e2e holds what RouterFleet promises on a real cluster, one test a promise.
//
// The tests run in the host's namespaces with nothing but a kubeconfig: E2E_KUBECONFIG, else
// .cluster/kubeconfig of the local cluster. They need the images of E2E_ROUTER_IMAGE (default
// routerfleet.io/router:dev), E2E_ROUTER_IMAGE_NEXT (a second tag of the same image, default
// routerfleet.io/router:next), E2E_ENGINE_IMAGE and E2E_LOADGEN_IMAGE on every node, and install the
// operator by `kubectl apply --server-side -k config/default` (E2E_INSTALL=never leaves the one that is there). Run them with:
//
//	go test -tags e2e -count=1 -timeout 15m ./test/e2e
//
// Each test has a namespace of its own that enforces the restricted pod security standard. A test that
// fails prints the objects, events and logs of its namespace; E2E_KEEP=1 keeps the namespace as well.
//
// Rules: no sleeps (a wait names what it waits for and has a deadline, a watch says when things
// happened); what a component says about itself is never the only witness (a rollout is judged by a
// watch on pods, a request by its client, an engine by its own counters). Tests that hurt the operator
// do not run in parallel with others.
package e2e
