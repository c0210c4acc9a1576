package signed

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Errors of Verify and VerifyResponse. They come wrapped with what was wrong.
var (
	// ErrMissing: there is no signature.
	ErrMissing = errors.New("signature is missing")
	// ErrBad: the header cannot be read or the signature does not match.
	ErrBad = errors.New("signature is bad")
	// ErrUnknownKey: the signature names a key that is not valid here.
	ErrUnknownKey = errors.New("signature is by an unknown key")
	// ErrNotAllowed: the caller is known and may not do this.
	ErrNotAllowed = errors.New("not allowed")
	// ErrNoKeys: no token is configured on this side.
	ErrNoKeys = errors.New("no token is configured: mount the fleet's tokens and name the directory with --token-dir")
)

// SkewError is a good signature whose time is outside the window.
type SkewError struct {
	// Theirs is the sender's clock, Ours the receiver's, both at the time of the check.
	Theirs, Ours time.Time
}

func (e *SkewError) Error() string {
	return fmt.Sprintf("clock skew: the caller's clock says %s, this one's %s, more than %v apart: set the nodes' clocks",
		e.Theirs.UTC().Format(time.RFC3339), e.Ours.UTC().Format(time.RFC3339), Window)
}

// Codes of refusals, as in the JSON body {"error":{"code","message"}}.
const (
	CodeMissing    = "signature_missing"
	CodeBad        = "signature_bad"
	CodeUnknownKey = "unknown_key"
	CodeSkew       = "clock_skew"
	CodeNoKeys     = "no_token_configured"
	CodeNotAllowed = "not_allowed"
	CodeTooLarge   = "payload_too_large"
	CodeInternal   = "internal_error"
)

// refusal turns an error into status and code.
func refusal(err error) (status int, code string) {
	var skew *SkewError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &skew):
		return http.StatusUnauthorized, CodeSkew
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, CodeTooLarge
	case errors.Is(err, ErrNotAllowed):
		return http.StatusForbidden, CodeNotAllowed
	case errors.Is(err, ErrNoKeys):
		return http.StatusUnauthorized, CodeNoKeys
	case errors.Is(err, ErrMissing):
		return http.StatusUnauthorized, CodeMissing
	case errors.Is(err, ErrUnknownKey):
		return http.StatusUnauthorized, CodeUnknownKey
	case errors.Is(err, ErrBad):
		return http.StatusUnauthorized, CodeBad
	default:
		return http.StatusBadRequest, "bad_request"
	}
}
