package bpe

import (
	"encoding/json"
	"fmt"
	"strings"
)

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

func (m *model) read(dec *json.Decoder, l limits) error {
	return eachMember(dec, func(name string) error {
		switch name {
		case "type":
			return dec.Decode(&m.kind)
		case "vocab":
			return m.readVocab(dec, l)
		case "merges":
			return m.readMerges(dec, l)
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

func (m *model) readVocab(dec *json.Decoder, l limits) error {
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
		if len(m.vocab) == l.vocab {
			return unsupported("the vocabulary has more than %d tokens", l.vocab)
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

// readMerges reads merges in either form: "a b" up to version 0.19 of the reference, ["a", "b"] since.
func (m *model) readMerges(dec *json.Decoder, l limits) error {
	return eachElement(dec, func() error {
		if len(m.merges) == l.merges {
			return unsupported("there are more than %d merges", l.merges)
		}
		pair, err := readMerge(dec)
		if err != nil {
			return fmt.Errorf("model.merges[%d]: %w", len(m.merges), err)
		}
		m.merges = append(m.merges, pair)
		return nil
	})
}

func readMerge(dec *json.Decoder) (pair [2]string, err error) {
	first, err := dec.Token()
	if err != nil {
		return pair, err
	}
	switch first := first.(type) {
	case string:
		left, right, found := strings.Cut(first, " ")
		if !found || strings.Contains(right, " ") {
			return pair, fmt.Errorf("%.100q is not two texts with a space between", first)
		}
		return [2]string{left, right}, nil
	case json.Delim:
		if first != '[' {
			break
		}
		for i := range pair {
			if pair[i], err = readText(dec); err != nil {
				return pair, err
			}
		}
		return pair, expect(dec, ']')
	}
	return pair, fmt.Errorf("%v where a merge should be", first)
}

func readText(dec *json.Decoder) (string, error) {
	t, err := dec.Token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("%v where a text should be", t)
	}
	return s, nil
}
