package chat

import "errors"

// Why there is no text. Anything else that Render returns is the template's: a *jinja.RaisedError, which the engine will
// answer the client with, or something the template does that is not supported.
var (
	// ErrMedia says that the request has images, audio or other parts that are no text.
	ErrMedia = errors.New("chat: parts that are no text")
	// ErrOptions says that a member of the request changes the prompt in a way that is not followed.
	ErrOptions = errors.New("chat: an option whose effect on the prompt is not known")
	// ErrInvalid says that the request is none that an engine takes.
	ErrInvalid = errors.New("chat: not a chat request")
	// ErrTooLong says that the request has more values, or deeper ones, than are read.
	ErrTooLong = errors.New("chat: more than is read of a request")
)
