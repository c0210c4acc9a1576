package bpe

import (
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/zeebo/xxh3"
)

const (
	// messageShards spread the messages over locks; a power of two.
	messageShards = 16
	// minMessageBytes is the shortest text that is kept: below it encoding is nearly as cheap as looking.
	minMessageBytes = 128
	// maxMessageShare is the part of a shard that one text may take: 1 of so many.
	maxMessageShare = 4
	// messageOverhead is what an entry takes beside its text and ids: itself and its place in the map.
	messageOverhead = int64(unsafe.Sizeof(message{})) + 32
)

// messageCache keeps the ids of texts between added tokens, least recently used ones go first. A text's ids depend on
// nothing around it, so that a chat finds each of its earlier messages whatever stands before them, and a system prompt
// is kept once for all chats. It is nil when it has no room.
type messageCache struct {
	shards       [messageShards]messageShard
	hits, misses atomic.Uint64
}

type messageShard struct {
	mu    sync.Mutex // guards everything below
	byKey map[uint64]*message
	// lru is the list's anchor: its next was used last, its prev is the next to go.
	lru   message
	bytes int64
	max   int64
}

// message is a text with its ids. Neither changes once it is in a shard; the rest is its shard's.
type message struct {
	text       string
	ids        []uint32
	key        uint64
	prev, next *message
}

func (m *message) size() int64 { return messageOverhead + int64(len(m.text)) + 4*int64(len(m.ids)) }

func newMessageCache(maxBytes int) *messageCache {
	if maxBytes < messageShards*minMessageBytes {
		return nil
	}
	c := &messageCache{}
	for i := range c.shards {
		s := &c.shards[i]
		s.byKey, s.max = map[uint64]*message{}, int64(maxBytes/messageShards)
		s.lru.prev, s.lru.next = &s.lru, &s.lru
	}
	return c
}

func (c *messageCache) shard(key uint64) *messageShard { return &c.shards[key%messageShards] }

// get gives the ids of text, which the caller must not change.
func (c *messageCache) get(text string) ([]uint32, bool) {
	key := xxh3.HashString(text)
	m := c.shard(key).use(key)
	// Equal hashes are a guess, and the comparison costs less than the hash did.
	if m == nil || m.text != text {
		c.misses.Add(1)
		return nil, false
	}
	c.hits.Add(1)
	return m.ids, true
}

// add keeps text and ids, both copied.
func (c *messageCache) add(text string, ids []uint32) {
	m := &message{key: xxh3.HashString(text)}
	s := c.shard(m.key)
	if messageOverhead+int64(len(text))+4*int64(len(ids)) > s.max/maxMessageShare {
		return
	}
	m.text, m.ids = strings.Clone(text), append(make([]uint32, 0, len(ids)), ids...)
	s.put(m)
}

// bytes counts what the cache holds now.
func (c *messageCache) bytes() (n int64) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += s.bytes
		s.mu.Unlock()
	}
	return n
}

// use gives the message of a key and makes it the last to go.
func (s *messageShard) use(key uint64) *message {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.byKey[key]
	if m != nil {
		m.unlink()
		s.linkLocked(m)
	}
	return m
}

// put takes the message in, in place of one with its key, and lets go what no longer fits.
func (s *messageShard) put(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byKey[m.key]; old != nil {
		s.dropLocked(old)
	}
	s.byKey[m.key] = m
	s.linkLocked(m)
	s.bytes += m.size()
	for s.bytes > s.max {
		s.dropLocked(s.lru.prev)
	}
}

func (s *messageShard) dropLocked(m *message) {
	delete(s.byKey, m.key)
	m.unlink()
	s.bytes -= m.size()
}

func (s *messageShard) linkLocked(m *message) {
	m.prev, m.next = &s.lru, s.lru.next
	m.prev.next, m.next.prev = m, m
}

func (m *message) unlink() { m.prev.next, m.next.prev = m.next, m.prev }
