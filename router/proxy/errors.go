package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// Code names what went wrong, in the answer's error object and in the header X-RouterFleet-Error-Code. The header is
// there only when the router itself answers: an engine's own error passes unchanged, without it.
type Code string

// The codes of the router, each with one HTTP status.
const (
	CodeBadRequest       Code = "bad_request"              // 400
	CodeUnauthorized     Code = "unauthorized"             // 401: a decision table needs the fleet's admin token
	CodeForbidden        Code = "forbidden"                // 403: the token is known, and is not the admin's
	CodeNotFound         Code = "not_found"                // 404: no such route
	CodeModelNotFound    Code = "model_not_found"          // 404
	CodeMethodNotAllowed Code = "method_not_allowed"       // 405
	CodeBodyTimeout      Code = "request_timeout"          // 408: the client did not send its body in time
	CodePayloadTooLarge  Code = "payload_too_large"        // 413
	CodeOverloaded       Code = "service_overloaded"       // 429, with Retry-After
	CodeInternal         Code = "internal_error"           // 500
	CodeUnreachable      Code = "upstream_unreachable"     // 502: no engine could be asked
	CodeBodyIncomplete   Code = "upstream_body_incomplete" // 502, or an event inside a stream
	CodeNoWorkers        Code = "no_healthy_workers"       // 503, with Retry-After
	CodeUpstreamTimeout  Code = "upstream_timeout"         // 504, or an event inside a stream
	CodeStale            Code = "stale_request_expired"    // 504, or an event inside a stream
)

var statusOf = map[Code]int{
	CodeBadRequest:       http.StatusBadRequest,
	CodeUnauthorized:     http.StatusUnauthorized,
	CodeForbidden:        http.StatusForbidden,
	CodeNotFound:         http.StatusNotFound,
	CodeModelNotFound:    http.StatusNotFound,
	CodeMethodNotAllowed: http.StatusMethodNotAllowed,
	CodeBodyTimeout:      http.StatusRequestTimeout,
	CodePayloadTooLarge:  http.StatusRequestEntityTooLarge,
	CodeOverloaded:       http.StatusTooManyRequests,
	CodeInternal:         http.StatusInternalServerError,
	CodeUnreachable:      http.StatusBadGateway,
	CodeBodyIncomplete:   http.StatusBadGateway,
	CodeNoWorkers:        http.StatusServiceUnavailable,
	CodeUpstreamTimeout:  http.StatusGatewayTimeout,
	CodeStale:            http.StatusGatewayTimeout,
}

// statusClientGone is counted for requests whose client left before an answer; nobody receives it. 499 is nginx's
// number for it.
const statusClientGone = 499

// Error is an answer of the router itself. Its message goes to clients: it never names an engine's address.
type Error struct {
	Code    Code
	Message string
	Param   string // the request member at fault, or empty
	// RetryAfterSeconds is sent as Retry-After when above 0.
	RetryAfterSeconds int
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Status returns the HTTP status of the error's code.
func (e *Error) Status() int {
	if status, ok := statusOf[e.Code]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// errorObject is the error object of the OpenAI API, whose param is null when no member is at fault.
type errorObject struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    Code    `json:"code"`
}

func (e *Error) body() []byte {
	object := errorObject{Message: e.Message, Type: "server_error", Code: e.Code}
	switch status := e.Status(); {
	case status == http.StatusTooManyRequests:
		object.Type = "rate_limit_error"
	case status < 500:
		object.Type = "invalid_request_error"
	}
	if e.Param != "" {
		object.Param = &e.Param
	}
	body, err := json.Marshal(map[string]errorObject{"error": object})
	if err != nil {
		// Strings always marshal; this keeps the promise of an answer if that ever changes.
		return []byte(`{"error":{"message":"internal error","type":"server_error","param":null,"code":"internal_error"}}`)
	}
	return body
}

// write answers with the error. Nothing must have been written before.
func (e *Error) write(w http.ResponseWriter) {
	body := e.body()
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h[headerErrorCode] = []string{string(e.Code)}
	if e.RetryAfterSeconds > 0 {
		h["Retry-After"] = []string{strconv.Itoa(e.RetryAfterSeconds)}
	}
	w.WriteHeader(e.Status())
	_, _ = w.Write(body) // A client that is gone by now needs no answer.
}

// event returns the error as a server-sent event, for streams that have begun.
func (e *Error) event() []byte {
	return append(append([]byte("data: "), e.body()...), "\n\n"...)
}
