package loadgen

import (
	"bufio"
	"bytes"
	"io"
)

// eventReader reads the data of server-sent events: lines end with LF, CRLF or
// CR, comments and other fields are skipped, several data lines are joined.
type eventReader struct{ lines *bufio.Scanner }

func newEventReader(r io.Reader) *eventReader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), maxLineBytes)
	lines.Split(newLineSplitter())
	return &eventReader{lines}
}

// next returns the data of the next event, valid until the next call. An event
// that the body ends in the middle of is not returned. At the end of the body
// the error is io.EOF.
func (r *eventReader) next() ([]byte, error) {
	var data []byte
	some := false
	for r.lines.Scan() {
		line := r.lines.Bytes()
		if len(line) == 0 {
			if some {
				return data, nil
			}
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		if some {
			data = append(data, '\n')
		}
		data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		some = true
	}
	if err := r.lines.Err(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// newLineSplitter splits at LF, CRLF and CR. A CR ends its line at once, so that
// an event is not held back until the byte behind it has come.
func newLineSplitter() bufio.SplitFunc {
	afterCR := false
	return func(data []byte, atEOF bool) (int, []byte, error) {
		skip := 0
		if afterCR && len(data) > 0 {
			if data[0] == '\n' {
				skip = 1
			}
			afterCR = false
		}
		i := bytes.IndexAny(data[skip:], "\r\n")
		if i < 0 {
			return skip, nil, nil // an unfinished line at the end is dropped
		}
		end := skip + i
		afterCR = data[end] == '\r'
		return end + 1, data[skip:end], nil
	}
}
