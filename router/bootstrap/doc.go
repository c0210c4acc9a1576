// Package bootstrap takes a replica from booting to proven warm: it asks siblings what they hold, has the pump graft it
// beneath the live streams, asks who can witness that nothing fell between, and goes on asking for as long as somebody
// holds something better.
//
// Its one invariant: whatever goes wrong here costs warmth, never truth. It only offers; the pump (package ingest) decides
// what a section is good for, and a verdict says warm only of what was asked and answered.
//
// # Level-triggered
//
// The pump is the truth about every rank and publishes what each is owed: Status.Owed, Status.Awaiting. The coordinator
// keeps no list of obligations of its own. It is woken (Pump.Changed, a changed set of peers, an answer, a tick), looks at
// the whole view, and acts on what stands there; what it forgets it finds again. Every obligation has an epoch, and what is
// brought for an older one is stale, which the pump says.
//
//	pump ── view ──> machine.step ── actions ──> goroutines ── surveys, fetches ──> siblings
//	                    ^                              │
//	                    └───────── answers ────────────┘
//
// machine is plain state: it takes the view, the peers and one answer at a time with the present time, and gives actions.
// Coordinator owns the timer, the goroutines and the client.
//
// # What it asks
//
// A survey asks a set of peers for their tables of cursors, some at a time, each at most once. One survey runs at a time and
// serves every question that is open:
//
//	sweep   ranks that boot            each pass (250 ms), all peers that do not sit out
//	repair  ranks with a gap           at once, twice
//	probe   grafts without a seam      3 s after the graft, then every 30 s
//	heal    ranks that may be better   after 30 s, 60 s .. 10 min, or when a sibling appears
//	audit   all ranks                  one peer every 60 s; the others at once if something differs
//
// A fetch brings blocks: one for ranks that boot, and one for repairs and heals, at a time. It asks the one peer that is
// best for the most ranks, for an export that is newer than what each of them holds; what it leaves is asked of the next.
//
// # What ends a rank's boot
//
//	grafted              a section was taken
//	no peers             a complete set was told, empty, and there never was another
//	fleet cold           every peer holds nothing, or cannot be read at all
//	nothing to recover   every peer says that it holds nothing of this rank, or nothing that can be trusted
//	timed out            the budget is spent
//
// Peers that are silent, or boot with blocks already, or know nothing of the rank yet, keep it waiting.
package bootstrap
