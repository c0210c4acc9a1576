package ingest

import (
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

// ledger applies one rank's batches to its section's index, and keeps what of that the index does not: how the engine
// calls the blocks (scheme tokens), how many copies of them it announced, which cache groups it has.
type ledger struct {
	section *Section
	rank    index.Rank
	holder  *index.Holder // nil while the index has no id for the rank
	groups  groups
	keys    *keyMap         // scheme tokens
	orphans *orphans        // scheme tokens
	extra   map[copyOf]uint // scheme vllm-sha256-cbor: copies beyond the first
	suspect suspicion
	// wanting says that the rank's blocks are not all known, although its stream is: some found no room.
	wanting bool
	// shadow: being restored; its holder is masked.
	shadow bool
	// smearEnd is the seq below which a sibling's section may hold what events after its cursor did; smeared says that the
	// present batch is one of those. Then no copy of a block is counted that has one: a count that is too low ends a block
	// early, one that is too high would keep it for ever.
	smearEnd int64
	smeared  bool
	counts   Counts
	// Since the ledger began; the holder has those of the present life.
	contradictions uint64
}

// copyOf is a block in one memory.
type copyOf struct {
	key  index.Key
	tier index.Tier
}

// Counts counts what a rank's events came to. Counters never go back.
type Counts struct {
	Stored, Removed, Cleared uint64 // events, joined ones counted apart
	StoredBlocks             uint64
	RemovedBlocks            uint64
	Dropped                  [drops]uint64
}

// Drop is why blocks an event named were not booked.
type Drop uint8

// The reasons, values of the metric label reason.
const (
	DropMedium    Drop = iota // stored in a memory we do not know
	DropGroup                 // of a cache group whose blocks prove no prefix
	DropLoRA                  // of an adapter that the engine's hash leaves out
	DropForm                  // hashes in a form the scheme does not have
	DropUnkeyable             // without what a key is made of
	DropBlockSize             // of another block size than the index
	DropNoRoom                // the index or the rank's map is full
	DropMismatch              // the engine's hash stands for another prefix already
	drops
)

var dropNames = [drops]string{"medium", "group", "lora", "form", "unkeyable", "block_size", "no_room", "mismatch"}

// String names the reason.
func (d Drop) String() string {
	if d >= drops {
		return "unknown"
	}
	return dropNames[d]
}

func newLedger(s *Section, r index.Rank) *ledger {
	l := &ledger{section: s, rank: r}
	l.begin()
	s.ledgers++
	return l
}

// begin forgets what the engine said.
func (l *ledger) begin() {
	l.groups, l.suspect, l.wanting = groups{}, suspicion{}, false
	switch l.section.Key.Scheme {
	case index.SchemeTokens:
		dropped := uint64(0)
		if l.orphans != nil {
			dropped = l.orphans.Dropped
		}
		l.keys, l.orphans = newKeyMap(l.section.random), newOrphans()
		l.orphans.Dropped = dropped
	case index.SchemeVLLM:
		l.extra = map[copyOf]uint{}
	}
}

// clear makes the rank hold nothing.
func (l *ledger) clear() {
	l.begin()
	l.emptyIndex()
}

// emptyIndex takes all the rank's blocks from the index. Where that has no id for another life, the rank is forgotten
// until it has one: nothing is worse than blocks that are not there.
func (l *ledger) emptyIndex() {
	if l.holder == nil {
		return
	}
	if l.section.Index.Clear(l.holder) != nil {
		l.close()
		return
	}
	l.section.busy = true
}

// close takes the rank from the index.
func (l *ledger) close() {
	if l.holder != nil {
		l.section.Index.Forget(l.holder)
		l.contradictions += l.holder.Contradictions
		l.holder, l.section.busy = nil, true
	}
}

// open has the index know the rank.
func (l *ledger) open() bool {
	if l.holder == nil {
		if l.shadow {
			return false
		}
		h, err := l.section.Index.Rank(l.rank)
		if err != nil {
			return false
		}
		l.holder = h
	}
	return true
}

// apply books a batch's events in order.
func (l *ledger) apply(now time.Time, b *kvevents.Batch) {
	l.smeared = b.Seq < l.smearEnd
	if !l.open() {
		l.counts.Dropped[DropNoRoom]++
		l.wanting = true
		return
	}
	if l.groups.learn(b) {
		l.emptyIndex() // what was stored of windows stands for less than the groups that came
		l.begin()
		l.groups.learn(b)
		l.wanting = true
	}
	for _, e := range b.Events {
		if !l.open() {
			break // a clear that found no id
		}
		l.suspect.begin(now, l.holder.Stores, l.holder.Contradictions)
		switch e := e.(type) {
		case *kvevents.Stored:
			l.counts.Stored += uint64(max(1, e.Joined))
			l.counts.StoredBlocks += uint64(len(e.Hashes))
			l.stored(e)
		case *kvevents.Removed:
			l.counts.Removed += uint64(max(1, e.Joined))
			l.counts.RemovedBlocks += uint64(len(e.Hashes))
			l.removed(e)
		case *kvevents.Cleared:
			l.counts.Cleared++
			known := l.groups
			l.clear()
			l.groups = known
		}
	}
	if l.holder != nil {
		l.suspect.judge(l.holder.Stores, l.holder.Contradictions)
	}
}

func (l *ledger) dropped(why Drop, blocks int) { l.counts.Dropped[why] += uint64(blocks) }

// stored books blocks a rank now holds.
func (l *ledger) stored(e *kvevents.Stored) {
	t := e.Medium.StoreTier()
	switch {
	case t == 0:
		l.dropped(DropMedium, len(e.Hashes))
	case !l.groups.indexed(e.Group):
		l.dropped(DropGroup, len(e.Hashes))
	case !l.fits(e):
		l.dropped(DropBlockSize, len(e.Hashes))
	case l.section.Key.Scheme == index.SchemeTokens:
		l.storeTokens(e, t)
	case l.section.Key.Scheme == index.SchemeVLLM:
		l.storeCopies(e, t)
	default:
		l.storeHashes(e, t)
	}
}

// fits tells whether an event's blocks are of the index's size. The last block of a chain may be shorter.
func (l *ledger) fits(e *kvevents.Stored) bool {
	size := int32(l.section.Key.BlockSize)
	return e.BlockSize == size || e.BlockSize == 0 || (e.BlockSize < size && len(e.Hashes) == 1)
}

// storeHashes takes the engine's hashes for keys, as they are the request side's too (scheme sglang). An adapter is no
// part of them, so its blocks would pass for those of the model.
func (l *ledger) storeHashes(e *kvevents.Stored, t index.Tier) {
	switch {
	case e.LoRA != "":
		l.dropped(DropLoRA, len(e.Hashes))
	case e.Form == kvevents.BytesForm:
		l.dropped(DropForm, len(e.Hashes))
	default:
		l.store(parentOf(e), l.keysOf(e.Hashes), t)
	}
}

// storeCopies is storeHashes for engines that announce each physical copy of a block (scheme vllm-sha256-cbor).
func (l *ledger) storeCopies(e *kvevents.Stored, t index.Tier) {
	keys := l.keysOf(e.Hashes)
	for _, k := range keys {
		if !l.smeared && l.section.Index.Held(l.holder, k)&t != 0 && len(l.extra) < maxMapped {
			l.extra[copyOf{k, t}]++
		}
	}
	if e.HasParent || e.Tokens > 0 {
		l.store(parentOf(e), keys, t)
		return
	}
	// Blocks the engine copied elsewhere: it has announced them before.
	if taken := l.section.Index.Raise(l.holder, keys, t); taken < len(keys) {
		l.dropped(DropUnkeyable, len(keys)-taken)
		l.wanting = true
	}
}

func parentOf(e *kvevents.Stored) index.Parent {
	if e.HasParent {
		return index.After(e.Parent.Key())
	}
	return index.Root
}

// keysOf takes hashes for keys. The slice is valid until the next call.
func (l *ledger) keysOf(hashes []kvevents.Hash) []index.Key {
	keys := l.section.keys[:0]
	for _, h := range hashes {
		keys = append(keys, h.Key())
	}
	l.section.keys = keys
	return keys
}

// store books a chain. A chain that bites itself is no mistake an honest engine makes.
func (l *ledger) store(p index.Parent, keys []index.Key, t index.Tier) {
	taken := l.section.Index.Store(l.holder, p, keys, t)
	if taken == len(keys) {
		return
	}
	again := keys[taken]
	if p == index.After(again) {
		l.suspect.is = true
	}
	for _, k := range keys[:taken] {
		if k == again {
			l.suspect.is = true
		}
	}
}

// removed books blocks a rank no longer holds.
func (l *ledger) removed(e *kvevents.Removed) {
	t := e.Medium.RemoveTier()
	switch {
	case !l.groups.frees(e.Group):
		// Another group's copy of blocks that are in ours.
	case l.section.Key.Scheme == index.SchemeTokens:
		l.removeTokens(e, t)
	case l.section.Key.Scheme == index.SchemeVLLM && len(l.extra) > 0:
		l.removeCopies(e, t)
	case l.section.Key.Scheme == index.SchemeSGLang && e.Form == kvevents.BytesForm:
		l.dropped(DropForm, len(e.Hashes))
	default:
		l.section.Index.Remove(l.holder, l.keysOf(e.Hashes), t)
	}
}

// removeCopies removes blocks of which there may be more copies.
func (l *ledger) removeCopies(e *kvevents.Removed, t index.Tier) {
	keys := l.keysOf(e.Hashes)
	last := keys[:0]
	for _, k := range keys {
		if t != index.AllTiers {
			if l.oneLess(k, t) {
				last = append(last, k)
			}
			continue
		}
		// Nobody said where. One copy in device memory goes, and all others: store narrow, remove wide.
		for _, other := range []index.Tier{index.Host, index.Disk, index.External} {
			delete(l.extra, copyOf{k, other})
		}
		if l.oneLess(k, index.Device) {
			last = append(last, k)
		} else {
			l.section.Index.Remove(l.holder, []index.Key{k}, index.AllTiers&^index.Device)
		}
	}
	l.section.Index.Remove(l.holder, last, t)
}

// oneLess books a copy out and tells whether it was the last.
func (l *ledger) oneLess(k index.Key, t index.Tier) bool {
	c := copyOf{k, t}
	n := l.extra[c]
	if n <= 1 {
		delete(l.extra, c)
	} else {
		l.extra[c] = n - 1
	}
	return n == 0
}
