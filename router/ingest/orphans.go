package ingest

import "github.com/routerfleet/routerfleet/router/index"

// orphans are a rank's blocks whose parent is not known: without it they have no key (scheme tokens). They wait here until
// the parent becomes known, are removed, or are dropped because there are too many: the oldest first. They answer no
// query. Every step is O(1), whatever an engine makes of it.
type orphans struct {
	byHash         map[uint64]*orphan
	byParent       map[uint64]*orphan // the first of the orphans that wait for a parent
	oldest, newest *orphan
	Dropped        uint64
	ages           uint64  // given out so far
	resume         *orphan // where the last slice of rows ended
}

// orphan is a block in two lists: those that wait for its parent, and all by age.
type orphan struct {
	hash, parent  uint64
	chunk         index.Chunk
	copies        copies
	age           uint64
	prev, next    *orphan // siblings
	older, junior *orphan
}

func newOrphans() *orphans {
	return &orphans{byHash: map[uint64]*orphan{}, byParent: map[uint64]*orphan{}}
}

// add books a copy of a block that waits for its parent.
func (o *orphans) add(hash, parent uint64, chunk index.Chunk, t index.Tier) {
	if o.raise(hash, t) {
		return
	}
	if len(o.byHash) >= maxOrphans {
		o.drop(o.oldest)
		o.Dropped++
	}
	o.ages++
	n := &orphan{hash: hash, parent: parent, chunk: chunk, copies: copies(0).more(t), age: o.ages, next: o.byParent[parent], older: o.newest}
	if n.next != nil {
		n.next.prev = n
	}
	if o.newest != nil {
		o.newest.junior = n
	} else {
		o.oldest = n
	}
	o.byHash[hash], o.byParent[parent], o.newest = n, n, n
}

// raise books a copy of an orphan that is known.
func (o *orphans) raise(hash uint64, t index.Tier) bool {
	n, ok := o.byHash[hash]
	if ok {
		n.copies = n.copies.more(t)
	}
	return ok
}

// remove books copies out; an orphan without any is gone.
func (o *orphans) remove(hash uint64, t index.Tier) {
	n, ok := o.byHash[hash]
	if !ok {
		return
	}
	if n.copies, _ = n.copies.less(t); n.copies == 0 {
		o.drop(n)
	}
}

// adopt takes an orphan that waits for a parent, nil when there is none any more.
func (o *orphans) adopt(parent uint64) *orphan {
	n := o.byParent[parent]
	if n != nil {
		o.drop(n)
	}
	return n
}

func (o *orphans) drop(n *orphan) {
	delete(o.byHash, n.hash)
	switch {
	case n.prev != nil:
		n.prev.next = n.next
	case n.next != nil:
		o.byParent[n.parent] = n.next
	default:
		delete(o.byParent, n.parent)
	}
	if n.next != nil {
		n.next.prev = n.prev
	}
	if n.older != nil {
		n.older.junior = n.junior
	} else {
		o.oldest = n.junior
	}
	if n.junior != nil {
		n.junior.older = n.older
	} else {
		o.newest = n.older
	}
	n.prev, n.next, n.older, n.junior = nil, nil, nil, nil
}
