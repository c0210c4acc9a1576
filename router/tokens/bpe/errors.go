package bpe

import (
	"errors"
	"fmt"
)

var (
	// ErrUnsupported says that a tokenizer.json is well-formed and asks for something this package does not do.
	ErrUnsupported = errors.New("not a tokenizer this router can follow exactly")
	// ErrTooLong says that a text is beyond MaxTextBytes, MaxWordBytes, MaxTokens or MaxLongWork: its tokens stay unknown.
	ErrTooLong = errors.New("too long to tokenize")
	// ErrNotUTF8 says that a text is no UTF-8: engines refuse it or see another text.
	ErrNotUTF8 = errors.New("not UTF-8")
)

// unsupported is an ErrUnsupported with what was found.
func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}
