package bpe

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/zeebo/xxh3"
)

const (
	// wordSlotBytes is what a slot of the word cache may take on average; few words have more.
	wordSlotBytes = 256
	// maxCachedWord is the longest word that is kept: longer ones hardly come twice.
	maxCachedWord = shortWord
)

// wordCache keeps the ids of words. Its readers and writers never wait: a slot is one pointer to an entry that never
// changes, and a new word takes the place of whichever word had its slot. It is nil when it has no room.
type wordCache struct {
	slots []atomic.Pointer[wordEntry]
	max   int64
	bytes atomic.Int64

	hits, misses atomic.Uint64
}

type wordEntry struct {
	word string
	ids  []uint32
}

func (e *wordEntry) size() int64 {
	if e == nil {
		return 0
	}
	return int64(unsafe.Sizeof(*e)) + int64(len(e.word)) + 4*int64(len(e.ids))
}

func newWordCache(maxBytes int) *wordCache {
	if maxBytes < wordSlotBytes {
		return nil
	}
	n := 1 << (bits.Len(uint(maxBytes/wordSlotBytes)) - 1)
	c := &wordCache{slots: make([]atomic.Pointer[wordEntry], n), max: int64(maxBytes)}
	c.bytes.Store(int64(n) * int64(unsafe.Sizeof(c.slots[0])))
	return c
}

// slot gives the place of a word.
func (c *wordCache) slot(word string) *atomic.Pointer[wordEntry] {
	return &c.slots[xxh3.HashString(word)&uint64(len(c.slots)-1)]
}

// add puts ids, which are copied, into a word's slot. When there is no room the slot is emptied instead.
func (c *wordCache) add(slot *atomic.Pointer[wordEntry], word string, ids []uint32) {
	e := &wordEntry{word: string([]byte(word)), ids: append(make([]uint32, 0, len(ids)), ids...)}
	if c.bytes.Add(e.size()) > c.max {
		c.bytes.Add(-e.size())
		e = nil
	}
	c.bytes.Add(-slot.Swap(e).size())
}
