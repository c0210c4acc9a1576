package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// SyntaxError says where a request body stops being JSON. Offset counts bytes from 0.
type SyntaxError struct {
	Offset       int
	Line, Column int
	What         string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d (line %d, column %d): %s", e.Offset, e.Line, e.Column, e.What)
}

// scanner walks a JSON document once, without decoding or copying it. It accepts what encoding/json.Valid accepts
// (lone surrogate escapes and invalid UTF-8 included: that is for the engine to judge), up to maxJSONDepth.
type scanner struct {
	data []byte
	pos  int
}

// members validates data as one JSON document and calls visit with the raw key (without quotes, escapes resolved) and
// the raw value of every member of the top-level object, in order. object is false when the document is valid but is
// not an object; visit is not called then.
func members(data []byte, visit func(key, value []byte)) (object bool, err error) {
	s := scanner{data: data}
	s.space()
	if s.peek() != '{' {
		if err := s.value(); err != nil {
			return false, err
		}
		return false, s.end()
	}
	s.pos++
	if err := s.object(visit); err != nil {
		return true, err
	}
	return true, s.end()
}

// object reads the members of an object whose opening brace has been read.
func (s *scanner) object(visit func(key, value []byte)) error {
	s.space()
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	for {
		key, err := s.key()
		if err != nil {
			return err
		}
		s.space()
		start := s.pos
		if err := s.value(); err != nil {
			return err
		}
		visit(key, s.data[start:s.pos])
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			return nil
		default:
			return s.fail("expected ',' or '}' after a member")
		}
	}
}

// elements calls visit with each raw element of a valid JSON array, until visit returns false.
func elements(array []byte, visit func(element []byte) bool) {
	s := scanner{data: array, pos: 1}
	for {
		s.space()
		if c := s.peek(); c == ']' || c == 0 {
			return
		}
		start := s.pos
		if s.value() != nil || !visit(array[start:s.pos]) {
			return
		}
		s.space()
		if s.peek() == ',' {
			s.pos++
		}
	}
}

// nesting is a stack of bits, one for each open container: set for an object.
type nesting struct {
	objects [maxJSONDepth / 64]uint64
	depth   int
}

func (n *nesting) push(object bool) bool {
	// One level is kept for the top-level object, which members reads itself.
	if n.depth >= maxJSONDepth-1 {
		return false
	}
	word, bit := n.depth/64, uint64(1)<<(n.depth%64)
	n.objects[word] &^= bit
	if object {
		n.objects[word] |= bit
	}
	n.depth++
	return true
}

func (n *nesting) inObject() bool {
	top := n.depth - 1
	return n.objects[top/64]&(1<<(top%64)) != 0
}

// value reads one value of any depth. It is a loop with an explicit stack: bytes from outside choose the depth, so
// they must not choose the size of the goroutine's stack.
func (s *scanner) value() error {
	var open nesting
	for {
		s.space()
		complete, err := s.begin(&open)
		if err != nil {
			return err
		}
		for complete {
			if open.depth == 0 {
				return nil
			}
			if complete, err = s.next(&open); err != nil {
				return err
			}
		}
	}
}

// begin reads a scalar, an empty container (complete) or the opening of a container (not complete).
func (s *scanner) begin(open *nesting) (complete bool, err error) {
	switch c := s.peek(); {
	case c == '{' || c == '[':
		return s.container(open, c == '{')
	case c == '"':
		return true, s.str()
	case c == '-' || c >= '0' && c <= '9':
		return true, s.number()
	case c == 't':
		return true, s.literal("true")
	case c == 'f':
		return true, s.literal("false")
	case c == 'n':
		return true, s.literal("null")
	}
	return false, s.fail("expected a value")
}

func (s *scanner) container(open *nesting, object bool) (complete bool, err error) {
	if !open.push(object) {
		return false, s.fail(fmt.Sprintf("nested deeper than %d levels", maxJSONDepth))
	}
	s.pos++
	s.space()
	if c := s.peek(); object && c == '}' || !object && c == ']' {
		s.pos++
		open.depth--
		return true, nil
	}
	if object {
		_, err = s.key()
	}
	return false, err
}

// next reads what follows a complete value inside the innermost container: a comma (and the next key), or its end,
// which completes the container itself.
func (s *scanner) next(open *nesting) (complete bool, err error) {
	s.space()
	c := s.peek()
	if open.inObject() {
		switch c {
		case ',':
			s.pos++
			s.space()
			_, err = s.key()
			return false, err
		case '}':
			s.pos++
			open.depth--
			return true, nil
		}
		return false, s.fail("expected ',' or '}' after a member")
	}
	switch c {
	case ',':
		s.pos++
		return false, nil
	case ']':
		s.pos++
		open.depth--
		return true, nil
	}
	return false, s.fail("expected ',' or ']' after an element")
}

// key reads a member name and its colon, and returns the name with escapes resolved.
func (s *scanner) key() ([]byte, error) {
	s.space()
	if s.peek() != '"' {
		return nil, s.fail("expected a member name in double quotes")
	}
	start := s.pos
	if err := s.str(); err != nil {
		return nil, err
	}
	name := s.data[start+1 : s.pos-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(unquote(s.data[start:s.pos]))
	}
	s.space()
	if s.peek() != ':' {
		return nil, s.fail("expected ':' after a member name")
	}
	s.pos++
	return name, nil
}

// str reads a string, from quote to quote.
func (s *scanner) str() error {
	s.pos++
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c < 0x20:
			return s.fail("a control character inside a string must be escaped")
		default:
			s.pos++
		}
	}
	return s.fail("the string does not end")
}

func (s *scanner) escape() error {
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return nil
	case 'u':
		s.pos++
		for range 4 {
			if !isHex(s.peek()) {
				return s.fail(`expected four hexadecimal digits after \u`)
			}
			s.pos++
		}
		return nil
	}
	return s.fail("unknown escape in a string")
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return s.fail("expected a digit")
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return s.fail("expected a digit after the decimal point")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return s.fail("expected a digit in the exponent")
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) literal(word string) error {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return s.fail("expected " + word)
	}
	s.pos += len(word)
	return nil
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the byte at the position, 0 at the end: no JSON token starts with 0.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) end() error {
	s.space()
	if s.pos < len(s.data) {
		return s.fail("unexpected text after the document")
	}
	return nil
}

func (s *scanner) fail(what string) error {
	if s.pos >= len(s.data) {
		what += ", but the body ends here"
	}
	before := s.data[:min(s.pos, len(s.data))]
	return &SyntaxError{
		Offset: s.pos,
		Line:   1 + bytes.Count(before, []byte{'\n'}),
		Column: len(before) - bytes.LastIndexByte(before, '\n'),
		What:   what,
	}
}

// unquote decodes a valid JSON string. Lone surrogates become U+FFFD, which no name the router looks for contains.
func unquote(quoted []byte) string {
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return ""
	}
	return text
}
