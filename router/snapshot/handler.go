package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/routerfleet/routerfleet/internal/signed"
)

const (
	// BuildsHeader tells on every answer how busy a teacher is: the builds and bodies under way.
	BuildsHeader = "X-RouterFleet-Builds"
	// MediaType is that of format 2.
	MediaType = "application/vnd.routerfleet.snapshot"
)

// Codes of refusals beside those of package signed, in the body {"error":{"code","message"}}.
const (
	CodeNoIndex       = "no_index"
	CodeNotAcceptable = "not_acceptable"
	CodeBadQuery      = "bad_query"
	CodeBusy          = "busy"
	CodeBuildFailed   = "build_failed"
	CodeMethod        = "method_not_allowed"
)

// Options configure the producer. Zero fields take the documented default.
type Options struct {
	// Keys check requests and sign answers; without any nothing is answered. The handler does this itself, because a
	// snapshot is signed at its end: do not put it behind signed.Handler.
	Keys signed.Keyring
	// Bearers open cursors_only, and nothing else.
	Bearers func() []signed.Bearer
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log gets one line a build; nil means none.
	Log *slog.Logger
}

// Handler serves Path. Close it when no request is under way any more.
type Handler struct {
	src    Source
	opts   Options
	small  http.Handler // signs answers that are held in memory
	bodies chan struct{}
	busy   atomic.Int64 // builds and bodies
	one    cache[*build1]
	two    cache[*build]
	ctx    context.Context
	cancel context.CancelFunc
}

// NewHandler serves Path from src; a nil src answers 404: this replica has no index.
func NewHandler(src Source, o Options) *Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &Handler{src: src, opts: o, bodies: make(chan struct{}, bodiesAtOnce)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.small = signed.Handler(http.HandlerFunc(h.serveSmall), signed.Options{
		Keys: o.Keys, Bearers: o.Bearers, MaxBody: maxCursorBytes, Now: o.Now,
	})
	h.one.init(h, format1, func(ctx context.Context) (*build1, error) { return produce1(ctx, src) })
	h.two.init(h, format2, func(ctx context.Context) (*build, error) { return produce(ctx, src) })
	return h
}

// Close ends builds and waits for them, and drops what is kept.
func (h *Handler) Close() {
	h.cancel()
	h.one.close()
	h.two.close()
}

// ServeHTTP implements http.Handler. Answers that fit into memory go through signed.Handler, which refuses strangers, too.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	arrival := h.opts.Now()
	w.Header().Set(BuildsHeader, strconv.FormatInt(h.busy.Load(), 10))
	q, err := parseQuery(r)
	if err != nil || q.cursorsOnly || h.src == nil || r.Method != http.MethodGet || r.ContentLength != 0 {
		h.small.ServeHTTP(w, r)
		return
	}
	var keys []signed.Key
	if h.opts.Keys != nil {
		keys = h.opts.Keys()
	}
	sig, key, err := signed.Verify(r, nil, keys, arrival)
	if err != nil {
		h.small.ServeHTTP(w, r) // says why
		return
	}
	h.serveBody(w, r, q, arrival, answer{sig, key})
}

// answer signs what is said to one request.
type answer struct {
	sig string
	key signed.Key
}

func (a answer) sign(d digest) string { return signed.SignDigest(a.sig, http.StatusOK, d, a.key) }

// refuse answers with an error, signed.
func (a answer) refuse(w http.ResponseWriter, status int, code, message string) {
	body := refusal(code, message)
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
	}
	signed.SignResponse(w.Header(), a.sig, status, body, a.key)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller is gone when this fails
}

func refusal(code, message string) []byte {
	b, _ := json.Marshal(map[string]any{"error": map[string]string{"code": code, "message": message}}) // cannot fail
	return b
}

// serveSmall answers what is no body: cursors, and refusals to callers who are known.
func (h *Handler) serveSmall(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r)
	switch {
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		reply(w, http.StatusMethodNotAllowed, refusal(CodeMethod, "a snapshot is only read"))
	case h.src == nil:
		reply(w, http.StatusNotFound, refusal(CodeNoIndex, "this replica has no index: its policy does not look at caches"))
	case err != nil:
		reply(w, http.StatusBadRequest, refusal(CodeBadQuery, err.Error()))
	case !q.cursorsOnly:
		reply(w, http.StatusForbidden, refusal(signed.CodeNotAllowed, "snapshots are for replicas, which sign"))
	default:
		h.serveCursors(w, q)
	}
}

func reply(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller is gone when this fails
}

// serveCursors answers from what is there now: it neither builds nor reads a build.
func (h *Handler) serveCursors(w http.ResponseWriter, q query) {
	var body []byte
	var err error
	switch {
	case q.format == 0:
		err = errNotAcceptable
	case q.format == format2:
		body, err = cursors2(h.src)
	default:
		var section *SourceSection
		if section, err = only1(h.src.Sections()); err == nil {
			body, err = cursors1(section, h.src.Ready() && holds(section))
		}
	}
	switch {
	case errors.Is(err, errNotFormat1), errors.Is(err, errNotAcceptable):
		reply(w, http.StatusNotAcceptable, refusal(CodeNotAcceptable, err.Error()))
	case err != nil:
		reply(w, http.StatusServiceUnavailable, refusal(CodeBuildFailed, err.Error()))
	default:
		reply(w, http.StatusOK, body)
	}
}

// holds tells whether anything is held in a section.
func holds(s *SourceSection) bool {
	for _, r := range s.Rows {
		if r.Blocks > 0 {
			return true
		}
	}
	return false
}
