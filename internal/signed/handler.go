package signed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Options of Handler.
type Options struct {
	// Keys are the peer keys; nil or an empty answer refuses every signature.
	Keys Keyring
	// Bearers are the tokens that open GET and HEAD; nil accepts none.
	Bearers func() []Bearer
	// Allow decides what a known caller may do; nil allows everything to peers and reading to bearers. A false
	// answer is 403.
	Allow func(Caller, *http.Request) bool
	// MaxBody bounds request and answer bodies in bytes; 0 means DefaultMaxBody.
	MaxBody int64
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Caller is who makes a request that passed.
type Caller struct {
	Role Role
	// KeyID names the key of a signature; empty for a bearer.
	KeyID string
}

type callerKey struct{}

// CallerOf returns the caller of a request inside Handler; ok is false elsewhere.
func CallerOf(ctx context.Context) (c Caller, ok bool) {
	c, ok = ctx.Value(callerKey{}).(Caller)
	return c, ok
}

type handler struct {
	next http.Handler
	opts Options
}

// Handler lets only known callers through to next and signs the answers to signed requests. Both bodies are held
// in memory, up to MaxBody; next reads the request's body as usual.
func Handler(next http.Handler, o Options) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	return &handler{next: next, opts: o}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if token, ok := bearerToken(r); ok && r.Header.Get(Header) == "" {
		h.serveBearer(w, r, token)
		return
	}
	h.serveSigned(w, r)
}

func (h *handler) serveBearer(w http.ResponseWriter, r *http.Request, token string) {
	var bearers []Bearer
	if h.opts.Bearers != nil {
		bearers = h.opts.Bearers()
	}
	role, ok := bearerRole(bearers, token)
	switch {
	case len(bearers) == 0:
		refuse(w, ErrNoKeys)
		return
	case !ok:
		refuse(w, fmt.Errorf("%w: the bearer is none of the fleet's tokens", ErrBad))
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		refuse(w, fmt.Errorf("%w: a bearer may only read, %s needs a signature", ErrNotAllowed, r.Method))
		return
	}
	if r, ok := h.admit(w, r, Caller{Role: role}); ok {
		h.next.ServeHTTP(w, r)
	}
}

func (h *handler) serveSigned(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(Header) == "" { // refuse before reading a stranger's body
		err := ErrMissing
		if len(h.keys()) == 0 {
			err = ErrNoKeys
		}
		refuse(w, fmt.Errorf("%w: %s %s takes signed calls of the fleet", err, r.Method, r.URL.Path))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.opts.MaxBody))
	if err != nil {
		refuse(w, fmt.Errorf("read the body of %s %s: %w", r.Method, r.URL.Path, err))
		return
	}
	sig, key, err := Verify(r, body, h.keys(), h.opts.Now())
	if err != nil {
		refuse(w, err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	held := &heldAnswer{header: http.Header{}, max: h.opts.MaxBody}
	if r, ok := h.admit(held, r, Caller{Role: RolePeer, KeyID: key.ID}); ok {
		h.next.ServeHTTP(held, r)
	}
	held.send(w, r.Method, sig, key)
}

func (h *handler) keys() []Key {
	if h.opts.Keys == nil {
		return nil
	}
	return onlyKnown(h.opts.Keys())
}

// admit asks Allow and puts the caller into the request.
func (h *handler) admit(w http.ResponseWriter, r *http.Request, c Caller) (*http.Request, bool) {
	if h.opts.Allow != nil && !h.opts.Allow(c, r) {
		refuse(w, fmt.Errorf("%w: %s may not %s %s", ErrNotAllowed, c.Role, r.Method, r.URL.Path))
		return nil, false
	}
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c)), true
}

func bearerToken(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}

// refuse answers with status, code and sentence of an error. It never repeats a token.
func refuse(w http.ResponseWriter, err error) {
	status, code := refusal(err)
	body, _ := json.Marshal(map[string]any{"error": map[string]string{"code": code, "message": err.Error()}}) // strings only: cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-RouterFleet-Error-Code", code)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `RouterFleet-Signature realm="fleet"`)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller is gone when this fails
}

// heldAnswer keeps an answer until it is whole, because its signature stands before its body.
type heldAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
	max    int64
	over   bool
}

var errAnswerTooLarge = errors.New("the answer is larger than a signed answer may be")

func (a *heldAnswer) Header() http.Header { return a.header }

func (a *heldAnswer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 { // informational answers are not final
		a.status = status
	}
}

func (a *heldAnswer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if int64(a.body.Len()+len(b)) > a.max {
		a.over = true
		return 0, errAnswerTooLarge
	}
	return a.body.Write(b)
}

func (a *heldAnswer) send(w http.ResponseWriter, method, sig string, key Key) {
	a.WriteHeader(http.StatusOK)
	if a.over {
		a.header, a.status = http.Header{"Content-Type": {"application/json"}}, http.StatusInternalServerError
		a.body.Reset()
		fmt.Fprintf(&a.body, `{"error":{"code":%q,"message":%q}}`, CodeInternal, errAnswerTooLarge.Error())
	}
	if method == http.MethodHead { // the caller can only check what it gets
		a.body.Reset()
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	SignResponse(w.Header(), sig, a.status, a.body.Bytes(), key)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // the caller is gone when this fails
}
