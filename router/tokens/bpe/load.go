package bpe

import (
	"fmt"
	"io"
	"os"
)

// LoadFile reads the tokenizer.json at path.
func LoadFile(path string, o Options) (*Tokenizer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("bpe: %w", err)
	}
	defer f.Close()
	t, err := Load(f, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Load reads a tokenizer.json. The error is an ErrUnsupported if it is one, and not one that can be followed exactly.
func Load(r io.Reader, o Options) (*Tokenizer, error) {
	f, err := readFile(r, fileLimits)
	if err != nil {
		return nil, fmt.Errorf("bpe: %w", err)
	}
	t, err := build(f)
	if err != nil {
		return nil, fmt.Errorf("bpe: %w", err)
	}
	t.words = newWordCache(orDefault(o.WordCacheBytes, DefaultWordCacheBytes))
	t.messages = newMessageCache(orDefault(o.MessageCacheBytes, DefaultMessageCacheBytes))
	return t, nil
}

func orDefault(n, or int) int {
	if n == 0 {
		return or
	}
	return n
}

// build makes a tokenizer without caches.
func build(f *file) (*Tokenizer, error) {
	if err := f.model.check(); err != nil {
		return nil, err
	}
	t := &Tokenizer{chars: reader{classes()}}
	for _, part := range []func(*file) error{t.setNormalizer, t.setPreTokenizer, t.setVocab, t.setMerges, t.setAdded, t.setFrame} {
		if err := part(f); err != nil {
			return nil, err
		}
	}
	t.setDirect(f.model.ignoreMerges)
	return t, nil
}

// kindOf names the model's type, which files of old versions do not.
func (m *model) kindOf() string {
	switch {
	case m.kind != "":
		return m.kind
	case m.unigramVocab:
		return "Unigram"
	case m.wordPieceOnly:
		return "WordPiece"
	case m.merges != nil:
		return "BPE"
	case m.vocab != nil:
		return "WordLevel"
	}
	return "missing"
}

// check refuses every model but byte-level BPE.
func (m *model) check() error {
	switch kind := m.kindOf(); {
	case kind != "BPE":
		return unsupported("the model is of type %s, and only byte-level BPE is: run without this model's tokenizer file", kind)
	case m.byteFallback:
		return unsupported("the model is a BPE with byte_fallback, as SentencePiece makes them, and only byte-level BPE is: run without this model's tokenizer file")
	case m.dropout != 0:
		return unsupported("the model has a dropout of %v: its tokens are random", m.dropout)
	case m.prefix != "":
		return unsupported("the model has the continuing_subword_prefix %q", m.prefix)
	case m.suffix != "":
		return unsupported("the model has the end_of_word_suffix %q", m.suffix)
	}
	return nil
}
