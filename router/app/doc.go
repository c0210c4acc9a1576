// Package app wires the rooms of the router together. It is the only package that knows all others.
//
// Options are the flags, one to one. New checks them and allocates; Run starts the parts in the order of App.parts,
// undoes a start that failed, and stops in a reasoned order (shutdown.go). Nothing starts in New.
//
// # Ready
//
// /readyz answers 200 once a rank can take requests for some model and, where siblings are asked, the boot is over
// (package bootstrap); it keeps answering 200: workers that leave later
// make requests fail with 503 no_healthy_workers, but a pod that leaves its Service because of them could not serve
// the moment they return. Only shutdown takes readiness back.
//
// # Stop
//
//	signal           /readyz is 503 at once; requests are served, each answer closes its connection
//	after the linger new connections are refused, idle ones closed; requests in flight run on
//	after the drain  what still runs is cut; snapshots being taught may end, and the admin listener closes last
//	a second signal  means now: no further waiting at any step
package app
