// Package kvevents hears what engines say of their KV caches: which blocks a data-parallel rank stored, removed or
// cleared. It subscribes to their ZeroMQ publishers, turns every dialect of every engine into one model (Batch), hands
// batches on in order, and asks engines to repeat what was missed.
//
// The one invariant: nothing an engine sends ends a subscription, takes more memory than limits.go says, or passes for
// something the engine did not say. What cannot be decoded is skipped and counted, and the batch says so (Untrusted).
// Whether a batch continues the one before it, repeats it or comes from another life of the engine is not decided here:
// that is the pump's, which gets what it needs for it (seq, engine time, payload hash, connection epoch).
//
// # The model
//
// A Batch is one message of the engine. Its events are *Stored, *Removed or *Cleared, in the engine's order; consecutive
// events that continue each other are joined into one, because SGLang announces page by page. Tokens never leave the
// decoder: in the tokens scheme each block becomes a Chunk (8 bytes) at once, in the others token lists are skipped.
//
// # Who owns what
//
//	engine PUB -> zmtp.Sub -> Subscriber -> Lane ──> Inbox -> pump
//	engine ROUTER <-> Replay ────────────────────────────────> pump
//
// Each Subscriber has one goroutine (Run). It decodes into a Batch from a pool and puts it into the rank's Lane, which
// waits when the lane or the process's Budget is full: then the socket is not read, and what the engine drops beyond its
// own high-water mark shows as a gap. The pump takes deliveries from the Inbox, lanes in turn, so that one engine that
// babbles does not starve the others. A batch belongs to whoever took it, until Release gives its memory and its share of
// the budget back; batches that are held keep their share.
//
// Per rank a consumer sees, in this order and for growing epochs: Opened, Arrived or Reset any number of times, Closed.
// After Redial(epoch) nothing of that epoch is put into the lane any more but its Closed. At shutdown the last Closed may
// be missing.
package kvevents
