package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// readBody reads the whole request body, at most limit bytes. The body is kept in memory because a retry sends it
// again; limit times the admitted requests is what that can cost.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *Error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, &Error{Code: CodeBadRequest, Message: fmt.Sprintf(
			"the request body has Content-Encoding %q; send it uncompressed: the router reads the model and prompt from it", encoding)}
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	control := http.NewResponseController(w)
	// Only the recorders of tests have no deadlines, and no slow senders either.
	_ = control.SetReadDeadline(time.Now().Add(bodyReadTimeout))
	if r.Header.Get("Expect") != "" {
		// Reading writes "100 Continue", for which the write deadline of the connection's last answer would count.
		_ = control.SetWriteDeadline(time.Time{})
	}
	body, err := readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength)
	if err == nil {
		// From here on the server watches the connection for the client's leaving, and that may take as long as the
		// answer does. (net/http clears the deadline itself when it begins to watch, but does not promise to.)
		_ = control.SetReadDeadline(time.Time{})
		return body, nil
	}
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, tooLarge(limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &Error{Code: CodeBodyTimeout, Message: fmt.Sprintf(
			"the request body did not arrive within %s", bodyReadTimeout)}
	}
	return nil, &Error{Code: CodeBadRequest, Message: "the request body ended early: " + bodyFault(err)}
}

// leaveUnread bounds what the server spends on the rest of a body nobody will read: it discards up to 256 KiB before
// it answers, to keep the connection.
func leaveUnread(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(discardTimeout))
}

// bodyFault words what a client did wrong without repeating addresses from network errors.
func bodyFault(err error) string {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "fewer bytes came than Content-Length announced"
	}
	return "the connection failed or its framing is wrong"
}

func tooLarge(limit int64) *Error {
	return &Error{Code: CodePayloadTooLarge, Message: fmt.Sprintf(
		"the request body is larger than the limit of %d bytes; shorten the prompt or raise --max-body-bytes", limit)}
}

// readAll reads to the end. announced is the Content-Length, -1 when unknown; it is believed up to eagerBodyBytes.
func readAll(body io.Reader, announced int64) ([]byte, error) {
	room := int64(4 << 10)
	if announced >= 0 {
		// One byte more, so that the read that fills the buffer also meets the end.
		room = min(announced, eagerBodyBytes) + 1
	}
	buf := make([]byte, 0, room)
	for {
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
	}
}
