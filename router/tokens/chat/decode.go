package chat

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/routerfleet/routerfleet/router/tokens/jinja"
)

// decode reads one JSON document as Python's json does: objects in their order, the last of equal names with the place of
// the first, integers exact. Text that Python would keep and UTF-8 cannot hold (lone surrogates) is an error.
func decode(data []byte) (any, error) {
	d := decoder{data: data}
	v, err := d.value(0)
	if err == nil {
		if d.space(); d.pos != len(data) {
			err = d.fail("more than one value")
		}
	}
	return v, err
}

type decoder struct {
	data   []byte
	pos    int
	values int // so far
}

func (d *decoder) fail(what string) error {
	return fmt.Errorf("%w: JSON at byte %d: %s", ErrInvalid, d.pos, what)
}

func (d *decoder) space() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

func (d *decoder) peek() byte {
	if d.space(); d.pos < len(d.data) {
		return d.data[d.pos]
	}
	return 0
}

func (d *decoder) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: JSON nested deeper than %d", ErrTooLong, maxDepth)
	}
	if d.values++; d.values > maxValues {
		return nil, fmt.Errorf("%w: JSON of more than %d values", ErrTooLong, maxValues)
	}
	switch c := d.peek(); {
	case c == '{':
		return d.object(depth)
	case c == '[':
		return d.array(depth)
	case c == '"':
		return d.str()
	case c == '-' || c >= '0' && c <= '9':
		return d.number()
	}
	for word, v := range map[string]any{"true": true, "false": false, "null": nil} {
		if strings.HasPrefix(string(d.data[d.pos:min(len(d.data), d.pos+len(word))]), word) {
			d.pos += len(word)
			return v, nil
		}
	}
	return nil, d.fail("expected a value")
}

func (d *decoder) object(depth int) (any, error) {
	d.pos++
	made := &jinja.Dict{}
	if d.peek() == '}' {
		d.pos++
		return made, nil
	}
	for {
		if d.peek() != '"' {
			return nil, d.fail("expected a name")
		}
		key, err := d.str()
		if err != nil {
			return nil, err
		}
		if d.peek() != ':' {
			return nil, d.fail("expected ':'")
		}
		d.pos++
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		made.Set(key, v)
		switch d.peek() {
		case ',':
			d.pos++
		case '}':
			d.pos++
			return made, nil
		default:
			return nil, d.fail("expected ',' or '}'")
		}
	}
}

func (d *decoder) array(depth int) (any, error) {
	d.pos++
	made := &jinja.List{}
	if d.peek() == ']' {
		d.pos++
		return made, nil
	}
	for {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		made.Items = append(made.Items, v)
		switch d.peek() {
		case ',':
			d.pos++
		case ']':
			d.pos++
			return made, nil
		default:
			return nil, d.fail("expected ',' or ']'")
		}
	}
}

func (d *decoder) str() (string, error) {
	start := d.pos
	escaped := false
	for d.pos++; d.pos < len(d.data); d.pos++ {
		switch c := d.data[d.pos]; {
		case c == '"':
			d.pos++
			raw := d.data[start:d.pos]
			if !utf8.Valid(raw) {
				return "", d.fail("a string is not UTF-8")
			}
			if !escaped {
				return string(raw[1 : len(raw)-1]), nil
			}
			return d.unescape(raw)
		case c == '\\':
			escaped = true
			d.pos++
		case c < 0x20:
			return "", d.fail("a control character in a string")
		}
	}
	return "", d.fail("a string does not end")
}

func (d *decoder) unescape(raw []byte) (string, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", d.fail("a string has an escape that is none")
	}
	// A lone surrogate becomes U+FFFD. One that was written as such is let through.
	if strings.ContainsRune(s, utf8.RuneError) && loneSurrogate(raw) {
		return "", d.fail("a string has half a character")
	}
	return s, nil
}

// loneSurrogate finds a \u escape of a surrogate that is half of no pair. raw has valid escapes.
func loneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		code := hex4(raw[i+1:])
		i += 4
		switch {
		case code >= 0xdc00 && code < 0xe000:
			return true
		case code >= 0xd800 && code < 0xdc00:
			next := raw[i+1:]
			if len(next) < 6 || next[0] != '\\' || next[1] != 'u' || hex4(next[2:]) < 0xdc00 || hex4(next[2:]) >= 0xe000 {
				return true
			}
			i += 6
		}
	}
	return false
}

func hex4(b []byte) uint64 {
	n, err := strconv.ParseUint(string(b[:min(4, len(b))]), 16, 32)
	if err != nil {
		return 0
	}
	return n
}

func (d *decoder) number() (any, error) {
	start := d.pos
	float := false
	for ; d.pos < len(d.data); d.pos++ {
		c := d.data[d.pos]
		switch {
		case c >= '0' && c <= '9' || c == '-' && d.pos == start:
		case c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-':
			float = true
		default:
			return d.parse(string(d.data[start:d.pos]), float)
		}
	}
	return d.parse(string(d.data[start:d.pos]), float)
}

// maxDigits is the longest integer that Python's int reads.
const maxDigits = 4300

func (d *decoder) parse(text string, float bool) (any, error) {
	if !json.Valid([]byte(text)) {
		return nil, d.fail("a number that is none")
	}
	if float {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, d.fail("a number beyond a float")
		}
		return f, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if len(text) > maxDigits {
		return nil, d.fail("an integer of too many digits")
	}
	return jinja.Big(text), nil
}

// DecodeText reads a JSON string as engines do.
func DecodeText(raw []byte) (string, error) {
	v, err := decode(raw)
	if err != nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%w: no text", ErrInvalid)
	}
	return s, nil
}
