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
	// What block keys are made of beside the prompt: its ids, nil when nobody asks for keys, and the raw cache_salt.
	// unkeyed is why there can be no keys, as far as the body says.
	ids     *tokenIDs
	salt    []byte
	unkeyed missReason
	// written is the prompt as the client wrote it: text in quotes, maybe in a list of one, or the messages.
	written []byte
	// bare says add_special_tokens is off; tools that a chat has some, toolsValue what they are.
	bare, tools bool
	toolsValue  []byte
}

// readCall scans body once. promptMembers name the members that may hold the prompt, the first present one counts.
// Only what the router needs is judged: that the body is a JSON object and its model, when there, a string. ids, if not
// nil, collects the prompt's token ids.
func readCall(body []byte, promptMembers []string, ids *tokenIDs) (call, *Error) {
	c := call{body: body, ids: ids}
	var model, promptValue []byte
	best := len(promptMembers)
	// A member that occurs twice counts with its last value, as in the JSON parsers of the engines.
	object, err := members(body, func(key, value []byte) {
		switch string(key) {
		case "model":
			model = value
		case "stream":
			c.stream = string(value) == "true"
		case "cache_salt":
			c.salt = value
		case "add_special_tokens":
			c.bare = string(value) == "false"
		case "tools":
			c.tools, c.toolsValue = asks(value), value
		default:
			if reason := unkeyedMembers[string(key)]; reason != missNone && c.unkeyed == missNone && asks(value) {
				c.unkeyed = reason
			}
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
	c.prompt, c.written = readPrompt(promptValue, ids), promptValue
	if c.tools && c.prompt.form == formOther { // a template writes them into the prompt
		c.prompt.tokens += textTokens(textBytes(c.toolsValue))
	}
	return c, nil
}
