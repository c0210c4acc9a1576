package ingest

import (
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

// bytesForm keeps the hashes an engine writes as bytes apart from those it writes as integers.
const bytesForm = 0x9e3779b97f4a7c15

// nameOf is a hash in a form's own space.
func nameOf(h kvevents.Hash, f kvevents.Form) uint64 {
	if f == kvevents.BytesForm {
		return uint64(h) ^ bytesForm
	}
	return uint64(h)
}

// storeTokens books a chain of the tokens scheme. Its keys follow from the parent's and the chunks; what has no parent
// that is known becomes orphans, up to a block that is known itself.
func (l *ledger) storeTokens(e *kvevents.Stored, t index.Tier) {
	if len(e.Chunks) != len(e.Hashes) {
		l.raiseTokens(e, t)
		return
	}
	key, keyed := l.section.Root(e.CacheSalt), true
	parent, before := index.Root, uint64(0)
	if e.HasParent {
		before = nameOf(e.Parent, e.Form)
		if key, keyed = l.keys.key(before); keyed {
			parent = index.After(key)
		}
	}
	keys := l.section.keys[:0]
	for i, h := range e.Hashes {
		l.keys.loadNames(i, e.Hashes, e.Form)
		name := nameOf(h, e.Form)
		if keyed {
			key = key.Next(e.Chunks[i])
			if !l.name(name, key, t) {
				break
			}
			l.merge(name, key)
			keys = append(keys, key)
		} else if key, keyed = l.keys.key(name); keyed { // after orphans a block that has its place
			l.count(name, key, t)
			l.section.Index.Raise(l.holder, []index.Key{key}, t)
			parent = index.After(key)
		} else {
			l.orphan(name, before, e.Chunks[i], t)
		}
		before = name
	}
	l.section.keys = keys
	l.store(parent, keys, t)
	l.adoptAll(e)
}

// name books a copy of a block under the engine's name for it.
func (l *ledger) name(name uint64, key index.Key, t index.Tier) bool {
	if l.keys.n >= maxMapped {
		if _, known := l.keys.key(name); !known {
			l.dropped(DropNoRoom, 1)
			l.wanting = true
			return false
		}
	}
	if !l.count(name, key, t) {
		l.dropped(DropMismatch, 1)
		l.holder.Contradictions++
		return false
	}
	return true
}

// count books a copy, unless it may be counted already, and tells whether the name stands for this key.
func (l *ledger) count(name uint64, key index.Key, t index.Tier) (same bool) {
	if l.smeared {
		if k, c, ok := l.keys.has(name); ok && c.tiers()&t != 0 {
			return k == key
		}
	}
	return l.keys.add(name, key, t)
}

// orphan books a copy of a block whose parent is not known, unless it may be counted already.
func (l *ledger) orphan(name, parent uint64, chunk index.Chunk, t index.Tier) {
	if o := l.orphans.byHash[name]; l.smeared && o != nil && o.copies.tiers()&t != 0 {
		return
	}
	l.orphans.add(name, parent, chunk, t)
}

// raiseTokens books copies of blocks that come without what a key is made of: they are known by name or not at all.
func (l *ledger) raiseTokens(e *kvevents.Stored, t index.Tier) {
	keys := l.section.keys[:0]
	for _, h := range e.Hashes {
		name := nameOf(h, e.Form)
		if key, ok := l.keys.key(name); ok {
			l.count(name, key, t)
			keys = append(keys, key)
		} else if !l.orphans.raise(name, t) {
			l.dropped(DropUnkeyable, 1)
			l.wanting = true
		}
	}
	l.section.keys = keys
	l.section.Index.Raise(l.holder, keys, t)
}

// adoptAll gives keys to the orphans that waited for the blocks of an event, and to those that waited for them.
func (l *ledger) adoptAll(e *kvevents.Stored) {
	if len(l.orphans.byHash) == 0 {
		return
	}
	var next []uint64
	for _, h := range e.Hashes {
		next = append(next, nameOf(h, e.Form))
	}
	l.adopt(next)
}

// adopt gives keys to the orphans that wait for these blocks, and to those that wait for them.
func (l *ledger) adopt(next []uint64) {
	for len(next) > 0 {
		name := next[len(next)-1]
		next = next[:len(next)-1]
		key, ok := l.keys.key(name)
		if !ok {
			continue
		}
		for o := l.orphans.adopt(name); o != nil; o = l.orphans.adopt(name) {
			if l.place(o, key) {
				next = append(next, o.hash)
			}
		}
	}
}

// merge books the copies of a block that was an orphan until it was announced again.
func (l *ledger) merge(name uint64, key index.Key) {
	if len(l.orphans.byHash) == 0 {
		return
	}
	if o, ok := l.orphans.byHash[name]; ok {
		l.orphans.drop(o)
		for field := range copyFields {
			for range o.copies.of(field) {
				l.count(name, key, index.Tier(1)<<field)
			}
		}
	}
}

// place books an orphan, with all its copies, behind the block it waited for.
func (l *ledger) place(o *orphan, parent index.Key) bool {
	key := parent.Next(o.chunk)
	for field := range copyFields {
		t := index.Tier(1) << field
		for range o.copies.of(field) {
			if !l.name(o.hash, key, t) {
				return false
			}
		}
		if o.copies.of(field) > 0 {
			l.store(index.After(parent), []index.Key{key}, t)
		}
	}
	return true
}

// removeTokens removes blocks by the engine's names: a block leaves a tier with its last copy there.
func (l *ledger) removeTokens(e *kvevents.Removed, t index.Tier) {
	keys := l.section.keys[:0]
	for i, h := range e.Hashes {
		l.keys.loadNames(i, e.Hashes, e.Form)
		name := nameOf(h, e.Form)
		key, gone, ok := l.keys.remove(name, t)
		switch {
		case !ok:
			l.orphans.remove(name, t)
		case gone == t:
			keys = append(keys, key)
		case gone != 0:
			l.section.Index.Remove(l.holder, []index.Key{key}, gone)
		}
	}
	l.section.keys = keys
	l.section.Index.Remove(l.holder, keys, t)
}
