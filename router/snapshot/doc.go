// Package snapshot is what siblings hand each other of an index: two wire formats, the producer that serves them, the
// client that fetches them, and the vetting in between.
//
// Its one invariant: nothing that came over the wire reaches an index but as a chunk of a *Vetted, and a *Vetted speaks
// only of ranks its reader named itself, in the reader's own terms: peer bytes never mint an identity.
//
// # Producer
//
// NewHandler serves GET /internal/kv_snapshot from a Source (the pump's adapter in package ingest). A build reads every
// row first (cursor and life of a rank, of one moment), then walks the index, then reads every row again: a rank whose
// life ended meanwhile is left out, and the cursor it has by now is its WalkedTo. What a section holds is therefore true
// as of some moments between Cursor and WalkedTo: applied to it, the events after Cursor give the truth, because storing
// and removing a block are idempotent.
//
// Copies are not (scheme tokens): an event between Cursor and WalkedTo may be counted in them already. Whoever applies
// events to a restored rank counts no copy of a block that has one, until its cursor has passed WalkedTo. A count that is
// too low ends a block early, which costs a hit; one that is too high would keep it for ever.
//
// # Consumer
//
// Client.Fetch gives a *Body: first the table of all the peer's ranks, signed, then one *Vetted a section, chunk by chunk.
// A chunk is whole (its checksum held), but whether the section is shows at its end alone: restore into masked ranks, and
// commit when Vetted.Next says io.EOF. Every other error means to drop all that came of the section.
//
// docs/snapshot-format.md describes both formats byte by byte.
package snapshot
