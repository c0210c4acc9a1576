package proxy

import (
	"bytes"
	"errors"
	"slices"
)

// call is what the router reads from a request body. The body itself goes to the engine byte for byte.
type call struct {
	body   []byte
	model  string
	stream bool
	prompt prompt
}

// readCall scans body once. promptMembers name the members that may hold the prompt, the first present one counts.
// Only what the router needs is judged: that the body is a JSON object and its model, when there, a string.
func readCall(body []byte, promptMembers []string) (call, *Error) {
	c := call{body: body}
	var model, promptValue []byte
	best := len(promptMembers)
	// A member that occurs twice counts with its last value, as in the JSON parsers of the engines.
	object, err := members(body, func(key, value []byte) {
		switch string(key) {
		case "model":
			model = value
		case "stream":
			c.stream = string(value) == "true"
		default:
			at := slices.Index(promptMembers, string(key))
			if at >= 0 && at <= best && !bytes.Equal(value, nullValue) {
				best, promptValue = at, value
			}
		}
	})
	if err != nil {
		message := err.Error()
		if syntax, ok := errors.AsType[*SyntaxError](err); ok && len(body) == 0 {
			message = "the request body is empty: " + syntax.What
		}
		return call{}, &Error{Code: CodeBadRequest, Message: message}
	}
	if !object {
		return call{}, &Error{Code: CodeBadRequest, Message: "the request body is JSON but not an object"}
	}
	switch {
	case len(model) == 0 || bytes.Equal(model, nullValue):
	case model[0] == '"':
		c.model = unquote(model)
	default:
		return call{}, &Error{Code: CodeBadRequest, Param: "model", Message: "model must be a string"}
	}
	c.prompt = readPrompt(promptValue)
	return c, nil
}
