package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
)

// errorCodeHeader is the router's authoritative error code.
const errorCodeHeader = "X-RouterFleet-Error-Code"

// Failure codes of our own; the router's codes and http_<status> stand beside
// them.
const (
	codeConnect     = "connect_error"    // no connection was made
	codeReset       = "connection_reset" // the connection broke before or in the answer
	codeTimeout     = "timeout"          // Options.Timeout
	codeCancelled   = "cancelled"        // this run was told to stop at once
	codeTruncated   = "truncated_stream" // the stream ended without [DONE]
	codeErrorEvent  = "stream_error_event"
	codeBadResponse = "bad_response"   // not the JSON that was asked for, or too much of it
	codeMismatch    = "usage_mismatch" // the token counts are not those of the request
)

// failure is why a request did not end well.
type failure struct {
	code   string
	status int // 0: no headers came
	text   string
}

func (f *failure) Error() string { return f.code + ": " + f.text }

func failf(code string, status int, format string, args ...any) *failure {
	return &failure{code: code, status: status, text: clip(fmt.Sprintf(format, args...), maxErrorText)}
}

// transportFailure classifies an error of net/http, before headers (status 0) or
// while the body is read.
func transportFailure(ctx context.Context, status int, err error) *failure {
	var op *net.OpError
	code := codeReset
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		code = codeTimeout
	case ctx.Err() != nil:
		code = codeCancelled
	case errors.As(err, &op) && op.Op == "dial":
		code = codeConnect
	case errors.Is(err, syscall.ECONNREFUSED):
		code = codeConnect
	}
	return failf(code, status, "%v", err)
}

// statusFailure describes an answer that is no 200.
func statusFailure(res *http.Response) *failure {
	code := res.Header.Get(errorCodeHeader)
	if code == "" {
		code = "http_" + strconv.Itoa(res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxErrorText))
	if err != nil {
		text = append(text, " ("+err.Error()+")"...)
	}
	return failf(clip(code, maxNameBytes), res.StatusCode, "%s: %s", res.Status, text)
}

// clip shortens s to at most n bytes of valid UTF-8.
func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}
