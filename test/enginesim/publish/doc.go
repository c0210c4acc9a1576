// Package publish tells routers what the engine double caches, in the bytes of
// SGLang and vLLM: KV events over a PUB socket a rank, a replay of the last ones
// over a ROUTER socket, SGLang's load gauge over another PUB socket.
//
// A Publisher is the core without sockets or goroutines: an enginesim.Observer
// that turns each Step into one batch, numbers it, keeps it for replay and hands
// it to a Sink, on the rank's own goroutine. Simulations use it as it is, in
// virtual time. A Server puts sockets around a Publisher, with one goroutine a
// rank that publishes and answers replays, as the thread of a real engine does: a
// slow replay holds live events up.
//
// Invariant: while no fault is on, the batches of one rank have the seqs 0, 1, 2,
// ... of one incarnation, and whoever applies them all in order holds exactly the
// blocks the rank caches.
//
// Batches are encoded by an encoder of this package's own, so that the router's
// decoder is not judged by its own idea of the wire.
package publish
