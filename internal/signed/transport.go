package signed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Transport signs requests and returns only answers that are signed in return, with one exception: an unsigned
// 401 or 403 is passed on, because the other side cannot sign for a caller it does not know. It must be treated
// as a refusal and nothing else.
type Transport struct {
	// Base carries the requests; nil is http.DefaultTransport.
	Base http.RoundTripper
	// Keys are the peer keys.
	Keys Keyring
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// MaxBody bounds request and answer bodies in bytes; 0 means DefaultMaxBody.
	MaxBody int64
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper. When the other side does not know the signing key (a rotation has not
// reached it yet), the next key is tried. Errors wrap ErrNoKeys, ErrMissing, ErrBad or ErrUnknownKey when the
// answer cannot be believed.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := t.takeBody(req)
	if err != nil {
		return nil, err
	}
	var keys []Key
	if t.Keys != nil {
		keys = onlyKnown(t.Keys())
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("sign %s %s: %w", req.Method, req.URL.Redacted(), ErrNoKeys)
	}
	for i, key := range keys {
		resp, err := t.try(req, body, key, keys)
		if err != nil {
			return nil, err
		}
		if i == len(keys)-1 || !saysUnknownKey(resp) {
			return resp, nil
		}
		_ = resp.Body.Close() // held in memory
	}
	panic("unreachable: the last key returns")
}

// saysUnknownKey reads the code of a refusal.
func saysUnknownKey(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized && resp.Header.Get("X-RouterFleet-Error-Code") == CodeUnknownKey
}

func (t *Transport) try(req *http.Request, body []byte, key Key, keys []Key) (*http.Response, error) {
	out := req.Clone(req.Context())
	if req.Body != nil {
		out.Body = io.NopCloser(bytes.NewReader(body))
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		out.ContentLength = int64(len(body))
	}
	sig := Sign(out, body, key, t.now())
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	return t.believe(resp, sig, keys)
}

// believe reads the whole answer and checks it.
func (t *Transport) believe(resp *http.Response, sig string, keys []Key) (*http.Response, error) {
	defer resp.Body.Close()
	limit := t.maxBody()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	from := resp.Request.URL.Redacted()
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", from, err)
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("the answer of %s is larger than %d bytes", from, limit)
	}
	_, err = VerifyResponse(resp.Header, sig, resp.StatusCode, body, keys)
	refused := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
	if err != nil && !(refused && errors.Is(err, ErrMissing)) {
		return nil, fmt.Errorf("the answer of %s (status %d) cannot be believed: %w", from, resp.StatusCode, err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// takeBody reads and closes the request's body, as RoundTrip must.
func (t *Transport) takeBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer req.Body.Close()
	limit := t.maxBody()
	body, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read the body to sign: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("the body to sign is larger than %d bytes", limit)
	}
	return body, nil
}

func (t *Transport) maxBody() int64 {
	if t.MaxBody > 0 {
		return t.MaxBody
	}
	return DefaultMaxBody
}

func (t *Transport) now() time.Time {
	if t.Now != nil {
		return t.Now()
	}
	return time.Now()
}
