package bpe

import (
	"encoding/json"
	"fmt"
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
