// Package zmtp speaks the ZeroMQ wire protocol, as far as the KV events of engines need it: SUB and DEALER clients for
// the router, PUB and ROUTER servers for the engine double.
//
// The one invariant: no byte from a peer makes this package allocate more than the limits of Options, block for ever,
// or deliver a message of an old connection as one of a new connection. A message carries the epoch of the connection
// that delivered it; a redial closes the old connection before it opens the next.
//
// # What is spoken
//
// ZMTP 3.0 and 3.1 (rfc.zeromq.org/spec/23 and /37) over TCP with the NULL mechanism:
//
//	greeting  64 bytes: FF 0*8 7F, major, minor, "NULL" padded to 20, as-server 0, 0*31
//	frame     flags (MORE 1, LONG 2, COMMAND 4), length (1 byte, or 8 big-endian if LONG), body
//	READY     command with Socket-Type and Identity, both sides, before anything else
//	SUBSCRIBE command to a 3.1 peer, message 01 topic to a 3.0 peer; both are understood
//	PING      sent every HeartbeatInterval, answered with PONG and the same context
//
// Not spoken: CURVE, PLAIN, inproc, ipc, ZMTP 1 and 2.
//
// # Who runs what
//
// A Conn has one reader; its writes are serialised by a mutex, so that heartbeats may be sent beside it. Sub.Run is the
// only goroutine that calls its Handler, in the order Connected, Message..., Disconnected, once per epoch. Pub and
// Router own one reader and one writer goroutine a peer, all of them gone when Serve returns.
package zmtp
