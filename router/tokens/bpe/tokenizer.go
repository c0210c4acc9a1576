package bpe

import (
	"fmt"
	"iter"
	"sync"
)

// Frame says whether a text gets the tokens that the file's post-processor puts around one, a begin-of-text in most.
type Frame int

const (
	// Bare adds none (add_special_tokens=false): for what a chat template rendered, which has them already.
	Bare Frame = iota
	// Framed adds them (add_special_tokens=true): for the prompt of a completion, as engines do it.
	Framed
)

// Options bound the caches of a Tokenizer.
type Options struct {
	// WordCacheBytes bounds the ids kept for words, in bytes. 0 means DefaultWordCacheBytes, below 0 none.
	WordCacheBytes int
	// MessageCacheBytes bounds the texts between added tokens kept with their ids. 0 means DefaultMessageCacheBytes,
	// below 0 none.
	MessageCacheBytes int
}

// Tokenizer encodes text as one model does. Load makes it.
type Tokenizer struct {
	added      *addedSet // looked for in text as it comes
	nfc        bool
	normalized *addedSet // looked for in normalized text

	chars       reader
	prefixSpace bool // a text that does not begin with a space gets one
	patterns    []pattern
	cutsLines   bool // text may be cut at lines, see pattern.endsAtLines

	byteIDs [256]uint32
	vocab   map[string]uint32 // words that are one token
	longest int               // bytes of the longest of vocab
	pairs   *pairTable
	texts   []string // by id; empty if there is no such token

	before, after []uint32 // what Framed adds

	words    *wordCache
	messages *messageCache
}

// Encode appends the ids of text to dst. It allocates nothing for a token but room in dst. On an error, which is ErrTooLong
// or ErrNotUTF8, dst comes back as it was.
func (t *Tokenizer) Encode(dst []uint32, text string, f Frame) ([]uint32, error) {
	if err := check(text); err != nil {
		return dst, err
	}
	r := run{Tokenizer: t, dst: dst, end: len(dst) + MaxTokens, slow: MaxSlowBytes}
	if f == Framed {
		r.dst = append(r.dst, t.before...)
	}
	if err := r.all(text); err != nil {
		return dst, err
	}
	if f == Framed {
		r.dst = append(r.dst, t.after...)
	}
	if t.words != nil {
		t.words.hits.Add(r.hits)
		t.words.misses.Add(r.misses)
	}
	return r.dst, nil
}

var counting = sync.Pool{New: func() any { return new([]uint32) }}

// Count gives the number of ids that Encode would append.
func (t *Tokenizer) Count(text string, f Frame) (int, error) {
	room := counting.Get().(*[]uint32)
	defer counting.Put(room)
	ids, err := t.Encode((*room)[:0], text, f)
	*room = ids
	return len(ids), err
}

// Parts cuts text so that the ids of its parts, encoded Bare one after the other, are those of the whole text: behind each
// added token. It is for who wants the first tokens of a text before the last.
func (t *Tokenizer) Parts(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		c := cutter{set: t.added, text: text}
		for from := 0; from < len(text); from = c.done {
			// A token that must not touch a word looks at what stands before it.
			for {
				if _, token := c.next(); token == nil || !t.added.isWords {
					break
				}
			}
			if !yield(text[from:c.done]) {
				return
			}
		}
	}
}

// Decode appends the text of ids to dst, added tokens included. Ids may end within a character: dst is bytes, and valid
// UTF-8 only when the ids are those of a whole text. Unknown ids are an error.
func (t *Tokenizer) Decode(dst []byte, ids []uint32) ([]byte, error) {
	for i, id := range ids {
		if int64(id) >= int64(len(t.texts)) || t.texts[id] == "" {
			return dst, fmt.Errorf("bpe: decode token %d of %d: the tokenizer has no id %d", i, len(ids), id)
		}
		dst = append(dst, t.texts[id]...)
	}
	return dst, nil
}

// Stats counts what the caches did since Load.
type Stats struct {
	WordHits, WordMisses       uint64
	WordBytes                  int64 // now
	MessageHits, MessageMisses uint64
	MessageBytes               int64 // now
}

// Stats gives the counters as they are now; they are not read at one instant.
func (t *Tokenizer) Stats() (s Stats) {
	if w := t.words; w != nil {
		s.WordHits, s.WordMisses, s.WordBytes = w.hits.Load(), w.misses.Load(), w.bytes.Load()
	}
	if m := t.messages; m != nil {
		s.MessageHits, s.MessageMisses, s.MessageBytes = m.hits.Load(), m.misses.Load(), m.bytes()
	}
	return s
}
