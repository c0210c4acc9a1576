package bpe

import (
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// run is one call of Encode.
type run struct {
	*Tokenizer
	dst          []uint32
	end          int    // of dst, at most
	long         int    // work on long words
	slow         int    // bytes that may still be normalized the slow way
	hits, misses uint64 // of the word cache
}

// room is an error once there are more tokens than a text may have.
func (r *run) room() error {
	if len(r.dst) > r.end {
		return fmt.Errorf("bpe: a text of more than %d tokens: %w", MaxTokens, ErrTooLong)
	}
	return nil
}

// mayMerge counts the work on a word before it is done.
func (r *run) mayMerge(w string) error {
	if len(w) > MaxWordBytes {
		return fmt.Errorf("bpe: a word of %d bytes, more than %d: %w", len(w), MaxWordBytes, ErrTooLong)
	}
	if len(w) <= shortWord {
		return nil
	}
	if r.long += len(w) * bits.Len(uint(len(w)/shortWord)); r.long > MaxLongWork {
		return fmt.Errorf("bpe: a text of long words that take more work than %d: %w", MaxLongWork, ErrTooLong)
	}
	return nil
}

// all encodes a text: the added tokens, and each text between them for itself.
func (r *run) all(text string) error {
	c := cutter{set: r.added, text: text}
	for {
		before, token := c.next()
		if err := r.message(before); err != nil {
			return err
		}
		if token == nil {
			return r.room()
		}
		r.dst = append(r.dst, token.ID)
	}
}

// pieceBytes is from how many bytes on a text between added tokens is cut at the next line, so that of a long text what
// came before is found in the cache when its end is another one.
const pieceBytes = 2 << 10

// message encodes the text between two added tokens, piece by piece.
func (r *run) message(s string) error {
	for len(s) > 0 {
		n := r.pieceOf(s)
		if err := r.piece(s[:n]); err != nil {
			return err
		}
		s = s[n:]
	}
	return nil
}

// pieceOf gives the length of the first piece of s.
func (r *run) pieceOf(s string) int {
	if !r.cutsLines || r.messages == nil {
		return len(s)
	}
	for n := pieceBytes; n < len(s); {
		i := strings.IndexByte(s[n:], '\n')
		if i < 0 {
			break
		}
		if n += i + 1; n < len(s) && r.beginsAnew(s[n:]) {
			return n
		}
	}
	return len(s)
}

// beginsAnew says whether s, with a line's end before it, is encoded as it would be alone: its first character is no space,
// no slash, which some patterns take as a line's end, and none that normalization could join with the one before.
func (r *run) beginsAnew(s string) bool {
	is, n := r.chars.at(s, 0)
	return is&letter != 0 || n == 1 && is != space && s[0] != '/'
}

// piece encodes text whose ids depend on nothing else, or finds them in the cache.
func (r *run) piece(s string) error {
	if r.messages == nil || len(s) < minMessageBytes {
		return r.encode(s)
	}
	if ids, ok := r.messages.get(s); ok {
		r.dst = append(r.dst, ids...)
		return nil
	}
	mark := len(r.dst)
	if err := r.encode(s); err != nil {
		return err
	}
	r.messages.add(s, r.dst[mark:])
	return nil
}

// encode encodes a text in which no added token is to be looked for as it stands.
func (r *run) encode(s string) error {
	if r.nfc {
		var ok bool
		if s, ok = nfcWithin(s, &r.slow); !ok {
			return fmt.Errorf("bpe: more than %d bytes around long rows of combining marks: %w", MaxSlowBytes, ErrTooLong)
		}
	}
	c := cutter{set: r.normalized, text: s}
	for {
		before, token := c.next()
		if err := r.plain(before); err != nil {
			return err
		}
		if token == nil {
			return nil
		}
		r.dst = append(r.dst, token.ID)
	}
}

// plain encodes normalized text without added tokens.
func (r *run) plain(s string) error {
	if s == "" {
		return nil
	}
	if r.prefixSpace && s[0] != ' ' {
		s = " " + s
	}
	return r.split(s, r.patterns)
}

// split cuts s by the first pattern, what comes of that by the next, and encodes the words that come of the last.
func (r *run) split(s string, patterns []pattern) error {
	if len(patterns) == 0 {
		return r.word(s)
	}
	next, rest := patterns[0].next, patterns[1:]
	for len(s) > 0 {
		n := next(s)
		if err := r.split(s[:n], rest); err != nil {
			return err
		}
		s = s[n:]
	}
	return nil
}

// word appends the ids of a word.
func (r *run) word(w string) error {
	if err := r.room(); err != nil {
		return err
	}
	if len(w) == 1 {
		r.dst = append(r.dst, r.byteIDs[w[0]])
		return nil
	}
	if len(w) <= r.longest {
		if id, ok := r.vocab[w]; ok {
			r.dst = append(r.dst, id)
			return nil
		}
	}
	if err := r.mayMerge(w); err != nil {
		return err
	}
	if r.words == nil || len(w) > maxCachedWord {
		r.dst = r.merge(r.dst, w)
		return nil
	}
	slot := r.words.slot(w)
	if e := slot.Load(); e != nil && e.word == w {
		r.hits++
		r.dst = append(r.dst, e.ids...)
		return nil
	}
	r.misses++
	mark := len(r.dst)
	r.dst = r.merge(r.dst, w)
	r.words.add(slot, w, r.dst[mark:])
	return nil
}

// check refuses a text that cannot be encoded exactly, before any work on it.
func check(text string) error {
	if len(text) > MaxTextBytes {
		return fmt.Errorf("bpe: a text of %d bytes, more than %d: %w", len(text), MaxTextBytes, ErrTooLong)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("bpe: a text of %d bytes: %w", len(text), ErrNotUTF8)
	}
	return nil
}
