// Package workers knows the engines a router may send requests to: who they are, what they serve, whether they
// are in rotation, how loaded they are and whether their breaker lets a request through.
//
// # Who writes, who reads
//
// One goroutine, Registry.Run, owns the machine (machine.go): discovery, introspection and probes send it
// messages, it steps, performs the effects and publishes an immutable *Snapshot with one atomic store. Readers
// load the snapshot and never block. What changes between two snapshots are only atomic words and the breaker of
// each worker, which has a mutex of its own; both live in the worker's durable part, which survives every change
// of its description (readiness, models, ranks, port) and dies when the worker is forgotten.
//
// # Withdraw is not forget
//
// A worker is present while an endpoint of its pod UID is in some slice, or while it is configured statically.
//
//	state          meaning                                                        in rotation
//	in_rotation    present, ready, healthy, models known                           yes
//	last_resort    present, terminating but still serving                          only when no other rank of
//	                                                                               the model admits a request
//	not_ready      present, not ready (or terminating and not serving)             no
//	unhealthy      static, its health probe fails or has not answered yet          no
//	unintrospected present and ready, models not known yet                         no
//	other_model    present and ready, serves none of the models that take it        no
//	unselected     present and ready, the selector of no model takes it             no
//	absent         in no slice any more                                            no; forgotten after 60 s
//
// Every state keeps the entry: load counters, breaker, metric series. An entry is forgotten when it has been
// absent for Options.ForgetAfter, or at once when another UID owns its address.
//
// # Why not
//
// Each listed worker carries the reason why it is not in rotation: what it answered, or that it did not. The same
// reason is logged once until the worker is in rotation again without complaint, and endpoints that are left out once
// per reason, so that trouble that stays is said and does not fill the log. Registry.Explain puts it all in one line,
// for /readyz.
//
// # Breaker
//
// One per worker, see breaker.go for the table. Pool leaves out ranks whose breaker would refuse; Rank.Acquire
// decides.
//
// # Metrics
//
// All series with the label worker belong to this package and are read from the registry at scrape, so they end
// with the worker: routerfleet_worker_requests_total{worker,outcome}, _worker_inflight_requests{worker},
// _worker_breaker_state{worker}, beside routerfleet_workers{state}.
package workers
