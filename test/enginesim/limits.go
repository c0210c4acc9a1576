package enginesim

import (
	"fmt"
	"time"
)

// Limits of one engine. They keep a mistaken flag or request from taking the
// machine down; each is beyond what real engines are run with.
const (
	MaxDPSize        = 256     // ranks; the router's own cap on dp_size
	MaxBlocks        = 1 << 22 // pages of one rank; about 250 bytes each once cached
	MaxPageSize      = 1 << 16 // tokens
	MaxSequence      = 1 << 21 // tokens of prompt and answer together
	MaxTokenInterval = time.Hour
	mailboxSize      = 1024 // messages to one rank; a full one blocks the sender
)

// RequestError is a request no engine could serve: the caller's fault.
type RequestError struct{ Message string }

func (e *RequestError) Error() string { return e.Message }

func requestErrorf(format string, args ...any) error {
	return &RequestError{Message: fmt.Sprintf(format, args...)}
}
