package bpe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
)

func message4(i int) string { return strings.Repeat(fmt.Sprintf("message %4d ", i), 20) }

func TestTheMessageCacheLetsGoWhatWasUsedLongestAgo(t *testing.T) {
	const room = 1 << 16
	c := newMessageCache(room)
	first := message4(0)
	for i := range 2000 {
		c.add(message4(i), []uint32{uint32(i)})
		if ids, ok := c.get(first); !ok || ids[0] != 0 {
			t.Fatalf("the message that is used all the time is gone after %d others", i)
		}
		if b := c.bytes(); b > room {
			t.Fatalf("%d bytes of %d", b, room)
		}
	}
	held := 0
	for i := range 2000 {
		if ids, ok := c.get(message4(i)); ok {
			held++
			if !slices.Equal(ids, []uint32{uint32(i)}) {
				t.Errorf("message %d has the ids %v", i, ids)
			}
		}
	}
	if held < 100 || held > room/len(first) {
		t.Errorf("%d messages are held", held)
	}
}

// Two texts of one hash cannot be found; that they would be told apart is seen with a message under a foreign key.
func TestTheMessageCacheComparesTheTextAndNotItsHashAlone(t *testing.T) {
	c := newMessageCache(1 << 16)
	key := xxh3.HashString("asked")
	c.shard(key).put(&message{key: key, text: "another text of this hash", ids: []uint32{1}})
	if ids, ok := c.get("asked"); ok {
		t.Fatalf("another text's ids %v were given", ids)
	}
	c.add("asked", []uint32{2})
	if ids, ok := c.get("asked"); !ok || ids[0] != 2 {
		t.Errorf("the newer text is not held: %v %v", ids, ok)
	}
	if n := len(c.shard(key).byKey); n != 1 {
		t.Errorf("%d messages of one key", n)
	}
}

func TestTheMessageCacheKeepsNoTextThatWouldFillIt(t *testing.T) {
	c := newMessageCache(1 << 16)
	c.add(strings.Repeat("x", 1<<11), make([]uint32, 10))
	if c.bytes() != 0 {
		t.Errorf("%d bytes are held", c.bytes())
	}
}

func TestTheMessageCacheKeepsItsCallersTextAlive(t *testing.T) {
	c := newMessageCache(1 << 16)
	body := []byte(message4(1))
	ids := []uint32{1, 2}
	c.add(string(body), ids)
	ids[0] = 9
	if got, ok := c.get(message4(1)); !ok || got[0] != 1 {
		t.Errorf("the cache shares its caller's ids: %v %v", got, ok)
	}
}

func TestTheWordCacheStaysWithinItsBytes(t *testing.T) {
	const room = 1 << 13
	c := newWordCache(room)
	ids := make([]uint32, maxCachedWord)
	for i := range 5000 {
		w := strings.Repeat(fmt.Sprintf("%04d", i), maxCachedWord/4)
		c.add(c.slot(w), w, ids[:1+i%len(ids)])
		if b := c.bytes.Load(); b > room {
			t.Fatalf("%d bytes of %d after %d words", b, room, i)
		}
	}
	var held, bytes int64
	for i := range c.slots {
		if e := c.slots[i].Load(); e != nil {
			held++
			bytes += e.size()
		}
	}
	if held == 0 || bytes+8*int64(len(c.slots)) != c.bytes.Load() {
		t.Errorf("%d words of %d bytes are held, %d are counted", held, bytes, c.bytes.Load())
	}
}

func TestCachesWithoutRoomAreNone(t *testing.T) {
	if newWordCache(wordSlotBytes-1) != nil || newMessageCache(messageShards*minMessageBytes-1) != nil || newWordCache(-1) != nil || newMessageCache(-1) != nil {
		t.Error("there is a cache that cannot hold a thing")
	}
}

// A long text whose end changes, as a chat's or a document's does, is found up to its last piece.
func TestALongTextIsFoundUpToWhereItChanged(t *testing.T) {
	tok := &Tokenizer{chars: reader{classes()}, cutsLines: true, messages: newMessageCache(1 << 20)}
	r := run{Tokenizer: tok}
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "Line %d of a document, long enough to be one.\n", i)
		if i%7 == 0 {
			b.WriteString("\n    indented\n")
		}
	}
	cut := func(s string) (pieces []string) {
		for s != "" {
			n := r.pieceOf(s)
			pieces, s = append(pieces, s[:n]), s[n:]
		}
		return pieces
	}
	one, other := cut(b.String()+"ends so"), cut(b.String()+"ends otherwise, and\nlater")
	if len(one) < 10 || !slices.Equal(one[:len(one)-1], other[:len(one)-1]) {
		t.Errorf("%d pieces, %d of the other", len(one), len(other))
	}
	for _, p := range one[:len(one)-1] {
		if len(p) < pieceBytes || len(p) > pieceBytes+200 || !strings.HasSuffix(p, "\n") {
			t.Errorf("a piece of %d bytes ends in %q", len(p), p[len(p)-5:])
		}
	}
}
