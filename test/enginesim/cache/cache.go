package cache

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
)

// node is one cached block.
type node struct {
	key      Key
	parent   *node // nil: first block of its chain
	children int
	pins     int    // live sequences whose path runs through this block
	used     uint64 // tick of the last touch
	slot     int    // position in Cache.leaves, -1 when not evictable
}

// Cache holds the blocks of one rank. Use New. Not safe for concurrent use.
type Cache struct {
	capacity int
	nodes    map[Key]*node
	leaves   leafHeap // unpinned blocks without children, longest unused first
	pinned   int      // nodes with pins > 0
	private  int      // pages reserved by live leases and not cached
	tick     uint64
}

// Counts says how the pages are used; their sum is the capacity.
type Counts struct {
	Pinned, Cached, Private, Free int
}

// New returns an empty cache of capacity pages; capacity must be positive.
func New(capacity int) *Cache {
	if capacity <= 0 {
		panic(fmt.Sprintf("cache.New: capacity %d pages, want a positive number", capacity))
	}
	return &Cache{capacity: capacity, nodes: make(map[Key]*node)}
}

// Counts returns the present use of the pages.
func (c *Cache) Counts() Counts {
	return Counts{
		Pinned:  c.pinned,
		Cached:  len(c.nodes) - c.pinned,
		Private: c.private,
		Free:    c.free(),
	}
}

// Match returns how many leading keys are cached. It touches nothing.
func (c *Cache) Match(keys []Key) int {
	for i, key := range keys {
		if c.nodes[key] == nil {
			return i
		}
	}
	return len(keys)
}

// Keys returns the keys of all cached blocks, in no order.
func (c *Cache) Keys() []Key { return slices.Collect(maps.Keys(c.nodes)) }

// Acquire pins the longest cached prefix of keys and reserves private pages so
// that the lease holds total pages. It evicts what is in the way and returns
// the evicted keys in order. If even evicting everything unpinned is not enough
// it changes nothing and returns a nil lease: the caller waits for a Release.
func (c *Cache) Acquire(keys []Key, total int) (*Lease, []Key) {
	hit := keys[:c.Match(keys)]
	need := max(0, total-len(hit))
	if need > c.capacity-c.private-c.pinned-c.unpinned(hit) {
		return nil, nil
	}
	lease := &Lease{cache: c}
	c.tick++
	for _, key := range hit {
		lease.pin(c.nodes[key])
	}
	evicted := c.evictUntilFree(need)
	c.private += need
	lease.private = need
	return lease, evicted
}

// Clear empties the cache. It refuses, changing nothing, while a lease is alive,
// as engines refuse to flush below running requests.
func (c *Cache) Clear() bool {
	if c.pinned > 0 || c.private > 0 {
		return false
	}
	clear(c.nodes)
	c.leaves = nil
	return true
}

// unpinned counts the blocks of a cached path that pinning it would pin first.
func (c *Cache) unpinned(path []Key) int {
	n := 0
	for _, key := range path {
		if c.nodes[key].pins == 0 {
			n++
		}
	}
	return n
}

func (c *Cache) free() int { return c.capacity - len(c.nodes) - c.private }

func (c *Cache) evictUntilFree(pages int) []Key {
	var evicted []Key
	for c.free() < pages {
		evicted = append(evicted, c.evictOne())
	}
	return evicted
}

// evictOne drops the longest unused leaf; its parent may become the next one.
func (c *Cache) evictOne() Key {
	victim := heap.Pop(&c.leaves).(*node)
	delete(c.nodes, victim.key)
	if p := victim.parent; p != nil {
		p.children--
		c.offer(p)
	}
	return victim.key
}

// offer makes n evictable if nothing holds it.
func (c *Cache) offer(n *node) {
	if n.pins == 0 && n.children == 0 {
		heap.Push(&c.leaves, n)
	}
}

// leafHeap orders evictable blocks by their last touch. Two leaves never share a
// tick: a touch marks one path, and a path has one leaf at a time.
type leafHeap []*node

func (h leafHeap) Len() int           { return len(h) }
func (h leafHeap) Less(i, j int) bool { return h[i].used < h[j].used }

func (h leafHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}

func (h *leafHeap) Push(x any) {
	n := x.(*node)
	n.slot = len(*h)
	*h = append(*h, n)
}

func (h *leafHeap) Pop() any {
	old := *h
	n := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	n.slot = -1
	return n
}
