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
func readFile(r io.Reader, l limits) (*file, error) {
	// Whole, for a decoder looks at what it has from the beginning whenever a reader gives it a little more.
	all, err := io.ReadAll(io.LimitReader(r, int64(l.fileBytes)+1))
	switch {
	case err != nil:
		return nil, err
	case len(all) > l.fileBytes:
		return nil, unsupported("the file has more than %d bytes", l.fileBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(all))
	f := &file{}
	err = eachMember(dec, func(name string) error {
		switch name {
		case "added_tokens":
			return f.readAdded(dec, l)
		case "normalizer":
			return readStep(dec, &f.normalizer)
		case "pre_tokenizer":
			return readStep(dec, &f.preTokenizer)
		case "post_processor":
			return readStep(dec, &f.postProcessor)
		case "model":
			return f.model.read(dec, l)
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

func (f *file) readAdded(dec *json.Decoder, l limits) error {
	return eachElement(dec, func() error {
		if len(f.added) == l.addedTokens {
			return unsupported("there are more than %d added_tokens", l.addedTokens)
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
