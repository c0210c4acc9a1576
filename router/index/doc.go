// Package index knows which rank holds which block: a table from chained block keys to sets of carriers.
//
// The one invariant: it never claims a block for a rank that no applied event, restored node or open chain claims. It
// may know less than the engines hold (evicted under its cap, not yet heard of), never more.
//
// One goroutine writes (the pump of package ingest); any number read and never wait. There is no I/O, no goroutine and
// no clock in here: the writer gives the index its time with Work.
//
// # Data
//
// A key identifies its whole prefix, so a node needs no child pointers. Nodes lie in 1,024 segments, each an open
// addressing array without pointers that grows and shrinks alone (at most some 10,000 nodes are copied at a time), in
// pages of one size that are used again. A slot is three words: key, parent key, and meta (carrier set id, child count,
// state, root flag, version). A parent that is not here, or is gone, has a ghost: a slot that only counts its children.
//
// What it costs are waits for memory. So the writer finds the blocks of an event together, and a query loads ahead what
// it will probe: waits that overlap are one. See docs/performance.md.
//
// A carrier set (rank -> tiers) is immutable and interned: nodes with equal carriers share one id, so "did anything
// change between two levels" is a comparison of two integers. Sets are counted and reclaimed.
//
// Ranks are interned to small ids. A RankView maps ids to ranks and says which are live; it is immutable and replaced
// as a whole. Forgetting a rank clears one bit there, at once for every reader; its id is swept out of the sets later,
// and used again only after that.
//
// # Why readers are safe
//
// A reader pins the current epoch, loads the RankView, then probes slots and loads sets. Everything it loads is either
// one atomic word or immutable:
//
//  1. A slot may be freed and taken by another key while it is read. When a block leaves a slot, the version in its meta
//     word changes and the state is no longer live, with one store and before anything else there changes; the next
//     block is live last. A reader takes a meta word only if it is live and was live with the same version before the
//     key was compared (segment.find): between the two nobody else owned the slot. 4,096 owners must come and go
//     between two loads of one probe to deceive it.
//  2. A set id may be freed and given to another set. It is not, while a reader that was pinned when it was freed is
//     still pinned (epochs.quiet): a set id read from a slot means the same set until the reader leaves.
//  3. A rank id likewise: it is reused only when it was swept from every set and the readers pinned at that time have
//     left. Together with the RankView loaded after pinning, an id in a set means the rank the view names, or is masked.
//  4. A segment may be replaced by another one. The old pages are then not written again, but for the marks of readers
//     (segment.mark), and stay complete as of that moment, until every reader that was pinned when the segment was
//     replaced has left (pagePool.settle). One that pins later loads the new segment. Only then are they filled anew,
//     with plain stores, before they are published as part of another segment: their readers' last loads and the
//     writer's first store are ordered by the pin that was taken back in between.
//  5. A key that is removed and stored again in another slot while a reader probes may be missed. That reads as absent,
//     which it was in between.
//
// So each probe answers as of some instant during the query, and a query's depths are those of states the writer has
// published, or shorter; never longer. TestReadersNeverSeeWhatWasNotThere runs readers against a writer at full load
// with values that can be derived from keys.
//
// # Queries
//
// Contiguous depth is the number of levels a rank holds without a hole from the root; deepest is the deepest level it
// holds. Engines' prefix caches are prefix-closed, so a block in device or host memory proves its ancestors, and routing
// asks for deepest. Disk and external copies prove nothing: they count as far as they are contiguous. See match.go for
// when a jump search is trusted and when every level is probed.
package index
