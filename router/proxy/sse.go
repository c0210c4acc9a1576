package proxy

import "bytes"

// eventReader splits a stream of server-sent events into the data of each event, whatever the chunks it comes in and
// whichever of the three line ends (LF, CRLF, CR) the engine uses. It only reads: the bytes go to the client as they
// came.
type eventReader struct {
	line []byte // the unfinished line of earlier chunks
	data []byte // the data lines of the unfinished event, joined by newlines
	// hasData is needed beside data: an event may have one empty data line.
	hasData bool
	// afterCR is set when the last byte was a CR: an LF that follows belongs to the same line end.
	afterCR bool
	// skipping drops the rest of an event that outgrew maxEventBytes.
	skipping bool
	started  bool
}

var byteOrderMark = []byte("\ufeff")

// feed reads one chunk and calls event with the data of each event it completes. data is only valid during the call.
func (r *eventReader) feed(chunk []byte, event func(data []byte)) {
	for len(chunk) > 0 {
		if r.afterCR {
			r.afterCR = false
			if chunk[0] == '\n' {
				chunk = chunk[1:]
				continue
			}
		}
		end := bytes.IndexAny(chunk, "\r\n")
		if end < 0 {
			r.keep(chunk)
			return
		}
		r.afterCR = chunk[end] == '\r'
		if len(r.line) == 0 {
			r.readLine(chunk[:end], event)
		} else {
			r.keep(chunk[:end])
			r.readLine(r.line, event)
			r.line = r.line[:0]
		}
		chunk = chunk[end+1:]
	}
}

// finish reads what an engine left without its closing line end. Call it only after a proper end of the body.
func (r *eventReader) finish(event func(data []byte)) {
	if len(r.line) > 0 {
		r.readLine(r.line, event)
		r.line = r.line[:0]
	}
	r.readLine(nil, event)
}

// betweenEvents says whether everything so far belongs to complete events, so that another event can follow.
func (r *eventReader) betweenEvents() bool {
	return len(r.line) == 0 && !r.hasData && !r.skipping
}

func (r *eventReader) keep(part []byte) {
	if r.skipping || len(r.line)+len(part) > maxEventBytes {
		r.skip()
		// What remains tells a blank line from a long one.
		r.line = append(r.line[:0], '.')
		return
	}
	r.line = append(r.line, part...)
}

func (r *eventReader) skip() {
	r.skipping = true
	r.data = r.data[:0]
}

func (r *eventReader) readLine(line []byte, event func(data []byte)) {
	if !r.started {
		r.started = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	if len(line) == 0 {
		if r.hasData && !r.skipping {
			event(r.data)
		}
		r.data, r.hasData, r.skipping = r.data[:0], false, false
		return
	}
	value, found := bytes.CutPrefix(line, []byte("data"))
	if !found || r.skipping {
		return // A comment, another field, or an event given up.
	}
	if len(value) > 0 {
		if value[0] != ':' {
			return
		}
		value = bytes.TrimPrefix(value[1:], []byte(" "))
	}
	if len(r.data)+len(value) >= maxEventBytes {
		r.skip()
		return
	}
	if r.hasData {
		r.data = append(r.data, '\n')
	}
	r.data = append(r.data, value...)
	r.hasData = true
}
