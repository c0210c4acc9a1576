package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/models"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/workers"
)

// Workers is where the proxy reads the present engines from; *workers.Registry is one.
type Workers interface {
	// Snapshot returns the latest published state. It never blocks and is never nil.
	Snapshot() *workers.Snapshot
}

// Rand gives uniformly distributed numbers; it must be safe for concurrent use.
type Rand interface {
	// Int64N returns a number in [0, n); n > 0.
	Int64N(n int64) int64
}

// Options configure a Handler. Zero values mean the stated default.
type Options struct {
	// RequestTimeout bounds one attempt: until the answer's headers for streams, until its end otherwise. Default
	// 600 s. Raising it lets a hung engine hold clients longer.
	RequestTimeout time.Duration
	// StaleTimeout bounds a request with all its attempts and its stream. Default 1800 s; at least RequestTimeout.
	StaleTimeout time.Duration
	// StreamIdleTimeout bounds the silence of an engine inside a stream, and how long a client may leave an answer
	// unread. Default 180 s.
	StreamIdleTimeout time.Duration
	// MaxBodyBytes bounds a request body. Default DefaultMaxBodyBytes. Each admitted request may hold this much.
	MaxBodyBytes int64
	// MaxConcurrent bounds requests in flight; 0 means no limit. More are answered 429.
	MaxConcurrent int

	// Workers and Policy are required.
	Workers Workers
	Policy  policy.Policy
	// Models are the names requests may use, from a models file. Default: those the engines report, as they are.
	Models *models.Set
	// Keys says how block keys are made of prompts. Default: none are.
	Keys KeyOptions
	// Access judges the token of a request that asks for a decision table. Default: there are no tokens, so nobody
	// gets one.
	Access func(token string) Access
	// Transport reaches the engines. Default NewTransport().
	Transport http.RoundTripper
	// Registerer receives the request metrics. Default: a registry of its own, which nobody scrapes.
	Registerer prometheus.Registerer
	// Logger gets debug lines per failed attempt and errors for panics. Default: discards.
	Logger *slog.Logger
	// Rand spreads retries after back-pressure. Default: the runtime's generator.
	Rand Rand
}

// Defaults of Options.
const (
	DefaultRequestTimeout    = 600 * time.Second
	DefaultStaleTimeout      = 1800 * time.Second
	DefaultStreamIdleTimeout = 180 * time.Second
)

func (o Options) withDefaults() Options {
	if o.RequestTimeout == 0 {
		o.RequestTimeout = DefaultRequestTimeout
	}
	if o.StaleTimeout == 0 {
		o.StaleTimeout = max(DefaultStaleTimeout, o.RequestTimeout)
	}
	if o.StreamIdleTimeout == 0 {
		o.StreamIdleTimeout = DefaultStreamIdleTimeout
	}
	if o.MaxBodyBytes == 0 {
		o.MaxBodyBytes = DefaultMaxBodyBytes
	}
	if o.Transport == nil {
		o.Transport = NewTransport()
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Rand == nil {
		o.Rand = runtimeRand{}
	}
	return o
}

func (o Options) validate() error {
	var faults []error
	for name, d := range map[string]time.Duration{
		"request timeout": o.RequestTimeout, "stale timeout": o.StaleTimeout, "stream idle timeout": o.StreamIdleTimeout,
	} {
		if d < 0 {
			faults = append(faults, fmt.Errorf("%s %s is negative", name, d))
		}
	}
	if o.StaleTimeout < o.RequestTimeout {
		faults = append(faults, fmt.Errorf("stale timeout %s is shorter than request timeout %s", o.StaleTimeout, o.RequestTimeout))
	}
	if o.MaxBodyBytes < 0 {
		faults = append(faults, fmt.Errorf("body limit %d is negative", o.MaxBodyBytes))
	}
	if o.MaxConcurrent < 0 {
		faults = append(faults, fmt.Errorf("concurrency limit %d is negative", o.MaxConcurrent))
	}
	if o.Workers == nil || o.Policy == nil {
		faults = append(faults, errors.New("workers and a policy are required"))
	}
	return errors.Join(faults...)
}

// runtimeRand is the top-level generator of math/rand/v2: lock-free, seeded by the runtime.
type runtimeRand struct{}

func (runtimeRand) Int64N(n int64) int64 { return rand.Int64N(n) }
