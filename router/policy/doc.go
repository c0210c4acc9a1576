// Package policy chooses the rank that serves a request.
//
// A policy is a pure choice over the candidates it is given: it keeps no view of the workers of its own, so it
// cannot choose one that left. All policies are safe for concurrent use.
//
// # cache_aware
//
// Each candidate has a cost in tokens, the lowest wins (cost.go):
//
//	cost   = prefillScale * max(0, queued prefill + prompt - credit) + decodeWeight * decoding + 512 * active requests
//	credit = matched * (device 1.0 | host 0.75 | disk 0.25 | external 0.25) * (untrusted 0.5 | suspect measured ratio)
//
// The way of a decision: the roster (roster.go) joins the candidates with what the Directory says of them; the request's
// block keys are matched in the index of each key space once; predicted credit (predict.go) is merged in by max; the
// pile-up guard (guard.go) takes out who has too much to do already; of those that cost within one token of the least,
// the request's key decides (tie.go), so that replicas which know the same choose the same. Explain shows all of it.
//
// What engines report afterwards comes back through Observe (truth.go): where an index promises more than the engine
// delivers, the rank becomes suspect and its credit shrinks to what was measured. Nothing a client sends changes a
// rank's trust by itself: requests whose keys cannot equal the engine's have no keys here and are not observed.
//
// Several indexes may serve one request: each rank belongs to one key space (model, scheme, block size), and a
// KeySource computes the prompt's keys once for each that is asked for.
package policy
