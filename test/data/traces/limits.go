package traces

import "fmt"

// Limits of Decode. The shipped trace uses 1.4 MB, 5,719 requests, 1,765-byte
// lines and prompts of 123,192 tokens; each limit leaves room for ten times that
// or the longest contexts engines serve.
const (
	MaxUnpackedBytes = 64 << 20  // of the whole trace, after gunzip
	MaxLineBytes     = 64 << 10  // of one request
	MaxRequests      = 1 << 17   // in one trace
	MaxTokens        = 1 << 20   // in one prompt, and in one answer
	MaxBlockID       = 1<<31 - 1 // ids are dense from 0 in published traces
)

// LimitError says which limit a trace breaks.
type LimitError struct {
	What     string
	Got, Max int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: %d, at most %d are accepted", e.What, e.Got, e.Max)
}

func limit(what string, got, max int64) error {
	if got > max {
		return &LimitError{What: what, Got: got, Max: max}
	}
	return nil
}
