package cache

import (
	"slices"
)

// twin is the dumb oracle of Cache: a slice of blocks, searched linearly, and
// the rules written down as they are told. It shares no code with Cache.
type twin struct {
	capacity int
	private  int
	tick     int
	blocks   []*twinBlock
}

type twinBlock struct {
	key, parent Key
	root        bool
	pins, used  int
}

type twinLease struct {
	path    []Key
	private int
}

func (w *twin) find(key Key) *twinBlock {
	for _, b := range w.blocks {
		if b.key == key {
			return b
		}
	}
	return nil
}

func (w *twin) match(keys []Key) int {
	n := 0
	for n < len(keys) && w.find(keys[n]) != nil {
		n++
	}
	return n
}

func (w *twin) pinned() int {
	n := 0
	for _, b := range w.blocks {
		if b.pins > 0 {
			n++
		}
	}
	return n
}

// acquire tries on a copy and keeps it when it worked: "changes nothing" is
// then true by construction.
func (w *twin) acquire(keys []Key, total int) (*twinLease, []Key) {
	trial := w.copy()
	trial.tick++
	lease := &twinLease{path: slices.Clone(keys[:trial.match(keys)])}
	for _, key := range lease.path {
		b := trial.find(key)
		b.pins++
		b.used = trial.tick
	}
	lease.private = max(0, total-len(lease.path))
	var evicted []Key
	for len(trial.blocks)+trial.private+lease.private > trial.capacity {
		key, ok := trial.evict()
		if !ok {
			return nil, nil
		}
		evicted = append(evicted, key)
	}
	trial.private += lease.private
	*w = *trial
	return lease, evicted
}

// evict removes the unpinned block without children that was used longest ago.
func (w *twin) evict() (Key, bool) {
	best := -1
	for i, b := range w.blocks {
		if b.pins > 0 || w.hasChild(b.key) {
			continue
		}
		if best < 0 || b.used < w.blocks[best].used {
			best = i
		}
	}
	if best < 0 {
		return Key{}, false
	}
	key := w.blocks[best].key
	w.blocks = slices.Delete(w.blocks, best, best+1)
	return key, true
}

func (w *twin) hasChild(key Key) bool {
	return slices.ContainsFunc(w.blocks, func(b *twinBlock) bool { return !b.root && b.parent == key })
}

func (w *twin) commit(l *twinLease, key Key) bool {
	w.tick++
	l.private--
	w.private--
	b := w.find(key)
	stored := b == nil
	if stored {
		b = &twinBlock{key: key, root: len(l.path) == 0}
		if !b.root {
			b.parent = l.path[len(l.path)-1]
		}
		w.blocks = append(w.blocks, b)
	}
	b.pins++
	b.used = w.tick
	l.path = append(l.path, key)
	return stored
}

func (w *twin) release(l *twinLease) {
	w.tick++
	for _, key := range l.path {
		b := w.find(key)
		b.pins--
		b.used = w.tick
	}
	w.private -= l.private
}

func (w *twin) clear() bool {
	if w.pinned() > 0 || w.private > 0 {
		return false
	}
	w.blocks = nil
	return true
}

func (w *twin) copy() *twin {
	c := *w
	c.blocks = nil
	for _, b := range w.blocks {
		dup := *b
		c.blocks = append(c.blocks, &dup)
	}
	return &c
}

// checker is what checkAll needs of *testing.T and *rapid.T.
type checker interface {
	Helper()
	Errorf(format string, args ...any)
}

// checkAll walks everything and fails on a broken invariant of the package doc.
func (c *Cache) checkAll(t checker) {
	t.Helper()
	pinned, evictable, children := 0, 0, map[*node]int{}
	for key, n := range c.nodes {
		if n.key != key {
			t.Errorf("block filed under another key")
		}
		if n.pins > 0 {
			pinned++
		}
		if n.parent == nil {
			continue
		}
		children[n.parent]++
		if c.nodes[n.parent.key] != n.parent {
			t.Errorf("a cached block's parent is not cached")
		}
		if n.pins > n.parent.pins {
			t.Errorf("a block is pinned %d times below a parent pinned %d times", n.pins, n.parent.pins)
		}
	}
	for _, n := range c.nodes {
		if n.children != children[n] {
			t.Errorf("block counts %d children, has %d", n.children, children[n])
		}
		leaf := n.pins == 0 && n.children == 0
		if leaf {
			evictable++
		}
		if leaf != (n.slot >= 0) || (leaf && c.leaves[n.slot] != n) {
			t.Errorf("evictable=%v but heap slot %d", leaf, n.slot)
		}
	}
	if pinned != c.pinned || evictable != len(c.leaves) {
		t.Errorf("pinned %d counted %d, evictable %d in heap %d", pinned, c.pinned, evictable, len(c.leaves))
	}
	if n := c.Counts(); n.Free < 0 || n.Pinned+n.Cached+n.Private+n.Free != c.capacity {
		t.Errorf("page uses %+v do not sum to %d", n, c.capacity)
	}
}
