package bpe

import (
	"encoding/json"
	"fmt"
	"strings"
)

// eachMember reads an object. Visit is called behind each name and reads the value.
func eachMember(dec *json.Decoder, visit func(name string) error) error {
	if err := expect(dec, '{'); err != nil {
		return err
	}
	return restOfObject(dec, visit)
}

// restOfObject is eachMember behind the opening brace.
func restOfObject(dec *json.Decoder, visit func(name string) error) error {
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		if err := visit(name.(string)); err != nil { // the decoder lets nothing else stand here
			return err
		}
	}
	return expect(dec, '}')
}

// eachElement reads a list. Visit is called before each element and reads it.
func eachElement(dec *json.Decoder, visit func() error) error {
	if err := expect(dec, '['); err != nil {
		return err
	}
	for dec.More() {
		if err := visit(); err != nil {
			return err
		}
	}
	return expect(dec, ']')
}

func expect(dec *json.Decoder, want json.Delim) error {
	got, err := dec.Token()
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%v where %v should be", got, want)
	}
	return nil
}

// skip reads a value and forgets it.
func skip(dec *json.Decoder) error {
	first, err := dec.Token()
	if err != nil {
		return err
	}
	if d, ok := first.(json.Delim); ok && (d == '{' || d == '[') {
		return skipRest(dec)
	}
	return nil
}

// skipRest reads up to the end of an object or list that has begun.
func skipRest(dec *json.Decoder) error {
	for depth := 1; depth > 0; {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return nil
}

// readMerges reads merges in either form: "a b" up to version 0.19 of the reference, ["a", "b"] since.
func (m *model) readMerges(dec *json.Decoder) error {
	return eachElement(dec, func() error {
		if len(m.merges) == maxMerges {
			return unsupported("there are more than %d merges", maxMerges)
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
