package bpe

import (
	"errors"
	"io"
	"iter"
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
type Tokenizer struct{}

var errNotYet = errors.New("bpe: not built yet")

// LoadFile reads the tokenizer.json at path.
func LoadFile(path string, o Options) (*Tokenizer, error) { return nil, errNotYet }

// Load reads a tokenizer.json. The error is an ErrUnsupported if it is one, and not one that can be followed exactly.
func Load(r io.Reader, o Options) (*Tokenizer, error) { return nil, errNotYet }

// Encode appends the ids of text to dst. It allocates nothing for a token but room in dst. On an error, which is ErrTooLong
// or ErrNotUTF8, dst comes back as it was.
func (t *Tokenizer) Encode(dst []uint32, text string, f Frame) ([]uint32, error) {
	return dst, errNotYet
}

// Count gives the number of ids that Encode would append.
func (t *Tokenizer) Count(text string, f Frame) (int, error) { return 0, errNotYet }

// Parts cuts text so that the ids of its parts, encoded Bare one after the other, are those of the whole text: behind each
// added token. It is for who wants the first tokens of a text before the last.
func (t *Tokenizer) Parts(text string) iter.Seq[string] { return func(func(string) bool) {} }

// Decode appends the text of ids to dst, added tokens included. Ids may end within a character: dst is bytes, and valid
// UTF-8 only when the ids are those of a whole text. Unknown ids are an error.
func (t *Tokenizer) Decode(dst []byte, ids []uint32) ([]byte, error) { return dst, errNotYet }

// Stats counts what the caches did since Load.
type Stats struct {
	WordHits, WordMisses       uint64
	WordBytes                  int64 // now
	MessageHits, MessageMisses uint64
	MessageBytes               int64 // now
}

// Stats gives the counters as they are now; they are not read at one instant.
func (t *Tokenizer) Stats() Stats { return Stats{} }
