// Package loadgen sends requests to a router, or to anything that speaks the
// OpenAI completions API, and tells how each ended.
//
// Trace mode replays the conversation trace: each request's prompt as token ids,
// streamed, at its time or as fast as the connections allow. Steady mode keeps
// every connection busy with small requests for a while; it is the witness of
// "no request failed" during rollouts.
//
// Its one invariant: a request that did not end as a complete, correct answer is
// counted as failed with its reason. Nothing is retried here. One retry happens
// below us: net/http repeats a request when a kept connection turns out dead
// before a byte of it was written. Such a request never left this process, so
// the retry is kept, and counted in transport_retries.
//
// One goroutine (run.go) owns all numbers; senders hand it outcomes.
package loadgen
