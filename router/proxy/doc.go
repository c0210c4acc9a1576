// Package proxy is the data listener: OpenAI-style requests come in, one engine after another is asked until an answer
// counts, and that answer goes back byte for byte as it arrives.
//
// A request's way, one file a step: route.go finds the route, handler.go admits and guards, body.go and call.go read
// what routing needs (scan.go and prompt.go, without decoding the document), exchange.go decides what may be tried
// again, attempt.go asks one engine, relay.go passes the answer on (sse.go and usage.go look into it on the way),
// answer.go watches over what has been sent.
//
// The invariant: once a byte of an answer has gone to the client there is no other attempt, and an answer that was cut
// never looks complete. Whatever the router itself has to say is an *Error with a Code; everything else is the
// engine's own words.
//
// It keeps no view of the engines: it asks a policy to choose among the workers of the present snapshot, takes a lease
// on the one chosen, and reports on the lease how it went.
package proxy
