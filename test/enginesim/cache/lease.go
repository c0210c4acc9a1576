package cache

import "container/heap"

// Lease is what one live sequence holds: a pinned path of cached blocks and
// private pages for what it has yet to compute. Release it exactly once.
type Lease struct {
	cache   *Cache
	path    []*node
	private int
}

// Blocks returns how many cached blocks the lease pins.
func (l *Lease) Blocks() int { return len(l.path) }

// Private returns how many reserved pages are not cached yet.
func (l *Lease) Private() int { return l.private }

// Commit turns one private page into the cached block key behind the lease's
// path. It returns false when another sequence had cached the same block in the
// meantime: the page is freed and the existing block pinned instead.
// Committing more than was reserved is a bug of the caller and panics.
func (l *Lease) Commit(key Key) (stored bool) {
	if l.private == 0 {
		panic("cache: Commit without a private page")
	}
	c := l.cache
	c.tick++
	l.private--
	c.private--
	n, known := c.nodes[key]
	if !known {
		n = &node{key: key, slot: -1}
		if depth := len(l.path); depth > 0 {
			n.parent = l.path[depth-1]
			n.parent.children++
		}
		c.nodes[key] = n
	}
	l.pin(n)
	return !known
}

// Release unpins the path and frees the private pages. The blocks stay cached
// and count as just used.
func (l *Lease) Release() {
	l.cache.tick++
	l.unpin()
	l.cache.private -= l.private
	l.private = 0
}

func (l *Lease) pin(n *node) {
	c := l.cache
	if n.pins == 0 {
		c.pinned++
	}
	if n.slot >= 0 {
		heap.Remove(&c.leaves, n.slot)
	}
	n.pins++
	n.used = c.tick
	l.path = append(l.path, n)
}

func (l *Lease) unpin() {
	c := l.cache
	for i := len(l.path) - 1; i >= 0; i-- {
		n := l.path[i]
		n.pins--
		n.used = c.tick
		if n.pins == 0 {
			c.pinned--
			c.offer(n)
		}
	}
	l.path = nil
}
