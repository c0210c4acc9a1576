package remote

import (
	"container/list"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"
)

// key names a question. 128 bits: two prompts with one key are not met by chance.
type key = xxh3.Uint128

// cache keeps answers, the least recently used leave first.
type cache struct {
	mu    sync.Mutex // guards all
	limit int
	bytes int
	byKey map[key]*list.Element
	order list.List // of *entry, the latest used first
}

type entry struct {
	key    key
	teller string // id of the engine that told
	tokens []uint32
	heard  bool // said to be right
}

func (e *entry) bytes() int { return entryBytes + 4*len(e.tokens) }

func newCache(limit int) *cache { return &cache{limit: limit, byKey: map[key]*list.Element{}} }

// get gives an answer, which the caller must not change.
func (c *cache) get(k key) ([]uint32, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.byKey[k]
	if at == nil {
		return nil, false
	}
	c.order.MoveToFront(at)
	return at.Value.(*entry).tokens, true
}

// put keeps an answer, unless it would fill the cache by itself.
func (c *cache) put(k key, teller string, tokens []uint32) {
	e := &entry{key: k, teller: teller, tokens: tokens}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[k] != nil || e.bytes() > c.limit/4 {
		return
	}
	c.byKey[k] = c.order.PushFront(e)
	c.bytes += e.bytes()
	for c.bytes > c.limit {
		c.drop(c.order.Back())
	}
}

// drop removes an answer. The mutex is held.
func (c *cache) drop(at *list.Element) {
	last := c.order.Remove(at).(*entry)
	delete(c.byKey, last.key)
	c.bytes -= last.bytes()
}

// judge says who told an answer, and forgets one that is wrong. Each answer counts once: ok is false when it was judged before,
// or when what is kept is not this one.
func (c *cache) judge(k key, told []uint32, right bool) (teller string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.byKey[k]
	if at == nil {
		return "", false
	}
	e := at.Value.(*entry)
	if right && e.heard || !slices.Equal(e.tokens, told) {
		return "", false
	}
	e.heard = true
	if !right {
		c.drop(at)
	}
	return e.teller, true
}

func (c *cache) size() (entries, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byKey), c.bytes
}
