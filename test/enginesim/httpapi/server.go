package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/publish"
)

// Dialect is the engine that the double looks like.
type Dialect string

// The dialects. Chat, completions, models and tokenize are alike; SGLang adds
// /generate, /server_info and /flush_cache, and metrics differ in their names.
const (
	SGLang Dialect = "sglang"
	VLLM   Dialect = "vllm"
)

// Options configure a Server.
type Options struct {
	Engine      *enginesim.Engine // required
	Model       string            // the served model's name; required
	Dialect     Dialect           // default SGLang
	Name        string            // of this engine, in answers and metrics; default "enginesim"
	MaxModelLen int               // tokens of prompt and answer; default 131,072, never more than the cache holds
	APIKey      string            // when set, /v1 and /generate want it as a bearer token

	// Tokenizer is a model's own; nil: the toy of package tokenizer.
	Tokenizer Tokenizer
	// NoTokenize leaves out the routes that tell tokens, as engines do that were started without.
	NoTokenize bool

	// Events is what the engine publishes, for /server_info and faults; the engine
	// has it for its observer. Default nil: nothing.
	Events *publish.Publisher

	Now  func() time.Time // default time.Now
	Exit func(code int)   // what the crash fault calls; default: the fault is refused
	Log  *slog.Logger     // default: nothing is logged
}

// Server answers HTTP for one engine. Use New; Handler may be served by any
// http.Server, whose requests' contexts must end when clients leave.
type Server struct {
	opts     Options
	started  atomic.Int64 // of the present life, in microseconds since the Unix epoch
	faults   *faultSet
	recorder *recorder
	reader   reader
	draining atomic.Bool
	mux      *http.ServeMux
}

// New checks the options and builds the routes. It starts nothing.
func New(opts Options) (*Server, error) {
	if opts.Dialect == "" {
		opts.Dialect = SGLang
	}
	if opts.Name == "" {
		opts.Name = "enginesim"
	}
	if opts.MaxModelLen == 0 {
		opts.MaxModelLen = 131_072
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("configure the engine double's server: %w", err)
	}
	opts.MaxModelLen = min(opts.MaxModelLen, opts.Engine.MaxTokens())
	s := &Server{opts: opts, faults: newFaultSet(), recorder: newRecorder(), reader: reader{own: opts.Tokenizer, always: opts.Dialect == SGLang}}
	s.started.Store(opts.Now().UnixMicro())
	s.mux = s.routes()
	return s, nil
}

// startedAt is when the present life began: the process's identity.
func (s *Server) startedAt() time.Time { return time.UnixMicro(s.started.Load()) }

func (o Options) validate() error {
	var errs []error
	if o.Engine == nil {
		errs = append(errs, errors.New("Engine: missing"))
	}
	if o.Model == "" || len(o.Model) > maxServedName {
		errs = append(errs, fmt.Errorf("Model: %d bytes, want 1 to %d", len(o.Model), maxServedName))
	}
	if o.Dialect != SGLang && o.Dialect != VLLM {
		errs = append(errs, fmt.Errorf("Dialect: %q, want %s or %s", o.Dialect, SGLang, VLLM))
	}
	if o.Events != nil && o.Events.Options().Dialect.IsVLLM() != (o.Dialect == VLLM) {
		errs = append(errs, fmt.Errorf("Events: dialect %s of an engine that looks like %s", o.Events.Options().Dialect, o.Dialect))
	}
	if o.MaxModelLen < 1 {
		errs = append(errs, fmt.Errorf("MaxModelLen: %d, want at least 1", o.MaxModelLen))
	}
	return errors.Join(errs...)
}

// Handler returns all routes.
func (s *Server) Handler() http.Handler { return s.mux }

// Drain makes /ready and /health answer 503 from now on; requests are served as
// before.
func (s *Server) Drain() { s.draining.Store(true) }

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("GET /ready", s.ready)
	mux.Handle("GET /metrics", s.metricsHandler())
	mux.HandleFunc("GET /v1/models", s.authorized(s.models))
	mux.HandleFunc("POST /v1/chat/completions", s.authorized(s.generation(s.reader.parseChat)))
	mux.HandleFunc("POST /v1/completions", s.authorized(s.generation(s.reader.parseCompletion)))
	if !s.opts.NoTokenize {
		s.tokenRoutes(mux)
	}
	if s.opts.Dialect == SGLang {
		mux.HandleFunc("POST /generate", s.authorized(s.generation(s.reader.parseGenerate)))
		mux.HandleFunc("PUT /generate", s.authorized(s.generation(s.reader.parseGenerate)))
		mux.HandleFunc("GET /server_info", s.authorized(s.serverInfo))
		mux.HandleFunc("POST /flush_cache", s.authorized(s.flushCache))
	}
	s.controlRoutes(mux)
	return mux
}

// tokenRoutes tell the tokens of prompts. vLLM renders chats as well.
func (s *Server) tokenRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /tokenize", s.authorized(s.tokenize))
	if s.opts.Dialect == SGLang {
		mux.HandleFunc("POST /v1/tokenize", s.authorized(s.tokenize))
		return
	}
	mux.HandleFunc("POST /v1/chat/completions/render", s.authorized(s.renderChat))
}

func (s *Server) metricsHandler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.collectors()...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// log reports a request that broke; never its prompt.
func (s *Server) log(ctx context.Context, rec *Record, outcome Outcome, err error) {
	s.opts.Log.DebugContext(ctx, "request ended early", "id", rec.ID, "path", rec.Path, "outcome", outcome, "error", err)
}
