package bpe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// file is a tokenizer.json as far as it matters here. Truncation and padding are not read: engines turn them off. Nor is
// the decoder: Decode knows what ids stand for.
type file struct {
	added         []addedToken
	normalizer    *step
	preTokenizer  *step
	postProcessor *step
	model         model
}

// addedToken is one of added_tokens: text that is cut out before anything else sees it.
type addedToken struct {
	ID      uint32
	Content string
	// Lstrip and Rstrip take the spaces before and behind the token into it. SingleWord wants no letter or digit on either
	// side. A Normalized token is looked for in normalized text.
	Lstrip, Rstrip bool
	SingleWord     bool `json:"single_word"`
	Normalized     bool
}

// model is the part with the vocabulary, its texts as they are written in the alphabet.
type model struct {
	kind          string
	vocab         map[string]uint32
	merges        [][2]string
	ignoreMerges  bool
	byteFallback  bool
	dropout       float64
	prefix        string // continuing_subword_prefix
	suffix        string // end_of_word_suffix
	wordPieceOnly bool   // has a field that only WordPiece has
	unigramVocab  bool   // the vocabulary is a list, which only Unigram has
}

// maxStepBytes bounds the text of a normalizer, pre-tokenizer or post-processor. Those of Llama 3 have 1 KB.
const maxStepBytes = 64 << 10

// step is one of normalizer, pre_tokenizer and post_processor, of any type, or a member of a Sequence of them.
type step struct {
	Type          string
	Normalizers   []step
	Pretokenizers []step
	Processors    []step

	// Split
	Pattern  struct{ Regex, String *string }
	Behavior string
	Invert   bool
	// ByteLevel
	AddPrefixSpace *bool `json:"add_prefix_space"`
	UseRegex       *bool `json:"use_regex"`
	// Digits
	IndividualDigits bool `json:"individual_digits"`
	// TemplateProcessing
	Single        []templatePiece
	SpecialTokens map[string]struct{ IDs []uint32 } `json:"special_tokens"`
}

// templatePiece is one place of a template: the text, or a token's.
type templatePiece struct {
	Sequence     *struct{ ID string }
	SpecialToken *struct{ ID string }
}

// readFile reads a tokenizer.json piece by piece: each count and length is checked before the next piece is kept.
func readFile(r io.Reader) (*file, error) {
	// Whole, for a decoder looks at what it has from the beginning whenever a reader gives it a little more.
	all, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(all) > maxFileBytes:
		return nil, unsupported("the file has more than %d bytes", maxFileBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(all))
	f := &file{}
	err = eachMember(dec, func(name string) error {
		switch name {
		case "added_tokens":
			return f.readAdded(dec)
		case "normalizer":
			return readStep(dec, &f.normalizer)
		case "pre_tokenizer":
			return readStep(dec, &f.preTokenizer)
		case "post_processor":
			return readStep(dec, &f.postProcessor)
		case "model":
			return f.model.read(dec)
		}
		return skip(dec)
	})
	switch {
	case errors.Is(err, ErrUnsupported):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("the file is no tokenizer.json: %w", err)
	}
	return f, nil
}

func (f *file) readAdded(dec *json.Decoder) error {
	return eachElement(dec, func() error {
		if len(f.added) == maxAddedTokens {
			return unsupported("there are more than %d added_tokens", maxAddedTokens)
		}
		var a addedToken
		if err := dec.Decode(&a); err != nil {
			return fmt.Errorf("added_tokens[%d]: %w", len(f.added), err)
		}
		f.added = append(f.added, a)
		return nil
	})
}

// readStep leaves null as nil.
func readStep(dec *json.Decoder, into **step) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	if len(raw) > maxStepBytes {
		return unsupported("a normalizer, pre_tokenizer or post_processor has more than %d bytes", maxStepBytes)
	}
	return json.Unmarshal(raw, into)
}

func (m *model) read(dec *json.Decoder) error {
	return eachMember(dec, func(name string) error {
		switch name {
		case "type":
			return dec.Decode(&m.kind)
		case "vocab":
			return m.readVocab(dec)
		case "merges":
			return m.readMerges(dec)
		case "ignore_merges":
			return dec.Decode(&m.ignoreMerges)
		case "byte_fallback":
			return dec.Decode(&m.byteFallback)
		case "dropout":
			return dec.Decode(&m.dropout)
		case "continuing_subword_prefix":
			return dec.Decode(&m.prefix)
		case "end_of_word_suffix":
			return dec.Decode(&m.suffix)
		case "max_input_chars_per_word":
			m.wordPieceOnly = true
		}
		return skip(dec)
	})
}

func (m *model) readVocab(dec *json.Decoder) error {
	m.vocab = map[string]uint32{}
	if first, err := dec.Token(); err != nil {
		return err
	} else if first == json.Delim('[') {
		m.unigramVocab = true
		return skipRest(dec)
	} else if first != json.Delim('{') {
		return fmt.Errorf("model.vocab begins with %v", first)
	}
	return restOfObject(dec, func(text string) error {
		if len(m.vocab) == maxVocab {
			return unsupported("the vocabulary has more than %d tokens", maxVocab)
		}
		if len(text) > maxTokenBytes {
			return unsupported("a token of the vocabulary has %d bytes, more than %d", len(text), maxTokenBytes)
		}
		if _, twice := m.vocab[text]; twice {
			return unsupported("the vocabulary has %.100q twice", text)
		}
		var id uint32
		if err := dec.Decode(&id); err != nil {
			return fmt.Errorf("model.vocab[%.100q]: %w", text, err)
		}
		m.vocab[text] = id
		return nil
	})
}
