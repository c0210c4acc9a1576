package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/routerfleet/routerfleet/test/enginesim"
)

// apiError is an answer of an engine that is no success: an OpenAI error object.
type apiError struct {
	Status     int
	Message    string
	Type       string
	Param      string
	RetryAfter int // seconds; 0 sends no header
}

func (e *apiError) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Message) }

// body is the error object. code repeats the status, as vLLM and SGLang do.
func (e *apiError) body() []byte {
	type object struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	}
	o := object{Message: e.Message, Type: e.Type, Code: e.Status}
	if e.Param != "" {
		o.Param = &e.Param
	}
	return mustJSON(map[string]object{"error": o})
}

func (e *apiError) write(w http.ResponseWriter) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	writeJSON(w, e.Status, e.body())
}

// badRequest is a 400 about one parameter of the body.
func badRequest(param, format string, args ...any) *apiError {
	return &apiError{
		Status: http.StatusBadRequest, Type: "BadRequestError", Param: param,
		Message: fmt.Sprintf(format, args...),
	}
}

// asAPIError says how an engine answers err.
func asAPIError(err error) *apiError {
	var known *apiError
	var fault *enginesim.RequestError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &fault):
		return badRequest("", "%s", fault.Message)
	case errors.Is(err, enginesim.ErrQueueFull):
		return &apiError{Status: http.StatusServiceUnavailable, Type: "ServiceUnavailableError", Message: "The request queue is full.", RetryAfter: 1}
	case errors.Is(err, enginesim.ErrStopped):
		return &apiError{Status: http.StatusServiceUnavailable, Type: "ServiceUnavailableError", Message: "The engine is shutting down."}
	default:
		return &apiError{Status: http.StatusInternalServerError, Type: "InternalServerError", Message: err.Error()}
	}
}

// mustJSON encodes values of our own types, which cannot fail.
func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("httpapi: encode %T: %v", v, err))
	}
	return data
}

// writeJSON sends one whole body. A failed write means that the client has gone,
// which the request's context tells as well.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
