package snapshot

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// maxJSONDepth bounds the nesting of values that are passed over.
const maxJSONDepth = 64

// jsonReader reads a JSON text value by value, without holding it. After an error it gives zeros; the first error stays.
type jsonReader struct {
	r   *bufio.Reader
	err error
	buf []byte
}

func newJSONReader(r io.Reader) *jsonReader {
	return &jsonReader{r: bufio.NewReaderSize(r, readBuffer)}
}

func (j *jsonReader) fail(err error) {
	if j.err == nil {
		j.err = err
	}
}

func (j *jsonReader) malformed(what string) { j.fail(reject(Malformed, "the JSON text has %s", what)) }

// byte takes the next byte, 0 after an error.
func (j *jsonReader) byte() byte {
	if j.err != nil {
		return 0
	}
	c, err := j.r.ReadByte()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		j.fail(fmt.Errorf("read a snapshot: %w", err))
		return 0
	}
	return c
}

func (j *jsonReader) back() {
	if j.err == nil {
		_ = j.r.UnreadByte() // there is one: it was just read
	}
}

// token gives the first byte that is no space, and takes it.
func (j *jsonReader) token() byte {
	for {
		switch c := j.byte(); c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
}

// peek gives it without taking it.
func (j *jsonReader) peek() byte {
	c := j.token()
	j.back()
	return c
}

func (j *jsonReader) expect(want byte) {
	if c := j.token(); c != want && j.err == nil {
		j.malformed(fmt.Sprintf("%q where %q belongs", c, want))
	}
}

// more steps through an array or object: true while there is a next value. first is true before the first.
func (j *jsonReader) more(end byte, first *bool) bool {
	c := j.token()
	switch {
	case j.err != nil || c == end && *first:
		return false
	case *first:
		j.back()
		*first = false
		return true
	case c == ',':
		if n := j.peek(); n == end {
			j.malformed("a comma before an end")
		}
		return j.err == nil
	case c != end:
		j.malformed(fmt.Sprintf("%q where a comma or an end belongs", c))
	}
	return false
}

// object calls f for every key, with the reader before its value.
func (j *jsonReader) object(f func(key string)) {
	j.expect('{')
	for first := true; j.more('}', &first); {
		key := j.text()
		j.expect(':')
		if j.err == nil {
			f(key)
		}
	}
}

// array calls f before every value.
func (j *jsonReader) array(f func()) {
	j.expect('[')
	for first := true; j.more(']', &first); {
		f()
	}
}

// text reads a string of at most maxText bytes.
func (j *jsonReader) text() string {
	j.expect('"')
	j.buf = append(j.buf[:0], '"')
	escaped := false
	for {
		c := j.byte()
		if j.err != nil {
			return ""
		}
		j.buf = append(j.buf, c)
		switch {
		case c == '\\':
			escaped = true
			j.buf = append(j.buf, j.byte())
		case c == '"':
			if escaped {
				return j.unescape()
			}
			return string(j.buf[1 : len(j.buf)-1])
		case c < ' ':
			j.malformed("a control character in a string")
		case len(j.buf) > maxText:
			j.malformed("a long string")
		}
	}
}

func (j *jsonReader) unescape() (s string) {
	if err := json.Unmarshal(j.buf, &s); err != nil {
		j.malformed("a string that cannot be read")
	}
	return s
}

// integer reads a whole number.
func (j *jsonReader) integer() int64 {
	c := j.token()
	negative := c == '-'
	if negative {
		c = j.byte()
	}
	if c < '0' || c > '9' {
		j.malformed("something else than a number")
		return 0
	}
	v, zero := uint64(c-'0'), c == '0'
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	for {
		c = j.byte()
		if c < '0' || c > '9' {
			break
		}
		d := uint64(c - '0')
		if zero || v > (limit-d)/10 {
			j.malformed("a number that does not fit")
			return 0
		}
		v = v*10 + d
	}
	if c == '.' || c == 'e' || c == 'E' {
		j.malformed("a fraction")
		return 0
	}
	j.back()
	if negative {
		return -int64(v)
	}
	return int64(v)
}

// upTo reads a whole number from 0 to limit.
func (j *jsonReader) upTo(limit int64) int64 {
	v := j.integer()
	if v < 0 || v > limit {
		j.malformed(fmt.Sprintf("%d where 0 to %d are allowed", v, limit))
		return 0
	}
	return v
}

// word takes true, false or null.
func (j *jsonReader) word(w string) {
	for i := range len(w) {
		if c := j.byte(); c != w[i] && j.err == nil {
			j.malformed("a word that is none")
		}
	}
}

func (j *jsonReader) boolean() bool {
	switch j.peek() {
	case 't':
		j.word("true")
		return j.err == nil
	case 'f':
		j.word("false")
	default:
		j.malformed("something else than true or false")
	}
	return false
}

// null takes a null if that is next.
func (j *jsonReader) null() bool {
	if j.peek() != 'n' || j.err != nil {
		return false
	}
	j.word("null")
	return true
}

// skip passes over any value.
func (j *jsonReader) skip(depth int) {
	if depth > maxJSONDepth {
		j.malformed("deep nesting")
	}
	switch c := j.peek(); {
	case j.err != nil:
	case c == '{':
		j.object(func(string) { j.skip(depth + 1) })
	case c == '[':
		j.array(func() { j.skip(depth + 1) })
	case c == '"':
		j.skipText()
	case c == 't' || c == 'f':
		j.boolean()
	case c == 'n':
		j.null()
	default:
		j.skipNumber()
	}
}

func (j *jsonReader) skipText() {
	j.expect('"')
	for j.err == nil {
		switch j.byte() {
		case '\\':
			j.byte()
		case '"':
			return
		}
	}
}

func (j *jsonReader) skipNumber() {
	n := 0
	for {
		switch c := j.byte(); {
		case c >= '0' && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			n++
		default:
			if j.back(); n == 0 {
				j.malformed("no value")
			}
			return
		}
	}
}

// end checks that only space follows.
func (j *jsonReader) end() {
	for j.err == nil {
		c, err := j.r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			j.fail(fmt.Errorf("read the end of a snapshot: %w", err))
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			j.malformed("something behind its end")
		}
	}
}
