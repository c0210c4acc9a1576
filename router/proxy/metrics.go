package proxy

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the request metrics of the router. Every label set is a closed list.
type metrics struct {
	requests  *prometheus.CounterVec   // route, code
	duration  *prometheus.HistogramVec // route
	ttft      *prometheus.HistogramVec // route
	overhead  prometheus.Histogram
	streams   *prometheus.CounterVec // outcome
	retries   *prometheus.CounterVec // reason
	inflight  prometheus.Gauge
	rejected  *prometheus.CounterVec // reason
	stale     prometheus.Counter
	panics    prometheus.Counter
	tokens    *prometheus.CounterVec // kind
	usageless prometheus.Counter
	misses    *prometheus.CounterVec // reason
	paths     *prometheus.CounterVec // path
}

// Edges in seconds. Generations take from tens of milliseconds to minutes; the time to the first token starts where
// the engines' own histograms do, so that quantiles compare; the router's own time is counted from 50 us.
var (
	durationEdges = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	ttftEdges     = []float64{.01, .02, .05, .1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 100, 200, 400}
	overheadEdges = []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .05, .1, .5, 1, 5}
)

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "routerfleet", Name: name, Help: help}, labels)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "routerfleet", Name: name, Help: help})
	}
	histogram := func(name, help string, edges []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Namespace: "routerfleet", Name: name, Help: help, Buckets: edges}
	}
	m := &metrics{
		requests: counters("requests_total", "Answered requests by route and HTTP status; 499 when the client left first.", "route", "code"),
		duration: prometheus.NewHistogramVec(histogram("request_duration_seconds",
			"Time from a request's headers to the end of its answer.", durationEdges), []string{"route"}),
		ttft: prometheus.NewHistogramVec(histogram("ttft_seconds",
			"Time from a request's headers to the first byte of its stream.", ttftEdges), []string{"route"}),
		overhead: prometheus.NewHistogram(histogram("request_overhead_seconds",
			"Time the router adds before the first byte: from the body's end to the answer's first byte, without waiting for the engine. Connecting and retrying count.", overheadEdges)),
		streams:   counters("stream_outcome_total", "Ended streams by outcome.", "outcome"),
		retries:   counters("retries_total", "Further attempts by the reason the one before was given up.", "reason"),
		inflight:  prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "routerfleet", Name: "inflight_requests", Help: "Admitted requests whose answer has not ended."}),
		rejected:  counters("admission_rejected_total", "Requests not admitted, by reason.", "reason"),
		stale:     counter("stale_requests_total", "Requests ended because they outlived --stale-request-timeout-secs."),
		panics:    counter("panics_total", "Panics recovered while answering a request; each is a bug."),
		tokens:    counters("usage_tokens_total", "Tokens the engines reported in answers: prompt, the cached part of it, and completion.", "kind"),
		usageless: counter("usage_unknown_total", "Successful answers that reported no token usage."),
		misses:    counters("tokenization_miss_total", "Requests whose prompt has no block keys although an index could have used them, by reason.", "reason"),
		paths:     counters("tokenization_total", "Requests whose keys an index could have used, by what knew the prompt's tokens: token_ids, own (the model's files), engine, approximate (nobody: the text decides) or none.", "path"),
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.duration, m.ttft, m.overhead, m.streams, m.retries, m.inflight, m.rejected, m.stale, m.panics, m.tokens, m.usageless, m.misses, m.paths,
	} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) answered(name string, status int, took time.Duration) {
	m.requests.WithLabelValues(name, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(name).Observe(took.Seconds())
}

func (m *metrics) used(u Usage) {
	if !u.Known {
		m.usageless.Inc()
		return
	}
	m.tokens.WithLabelValues("prompt").Add(float64(u.Prompt))
	m.tokens.WithLabelValues("cached").Add(float64(u.Cached))
	m.tokens.WithLabelValues("completion").Add(float64(u.Completion))
}

// Reasons of retries_total.
const (
	retryConnect      = "connect"           // the engine could not be reached
	retryClosed       = "connection_closed" // a kept connection turned out to be closed
	retryNoAnswer     = "no_answer"         // the engine went away before its first byte
	retryBackpressure = "backpressure"      // 429 or 503
	retryGateway      = "gateway"           // 502 or 504 of something before the engine
)

// Outcomes of stream_outcome_total.
const (
	streamOK          = "ok"
	streamErrorEvent  = "stream_error_event" // the engine reported an error inside the stream
	streamCut         = "upstream_error"     // the engine went away
	streamIdle        = "idle_timeout"       // the engine fell silent
	streamClientGone  = "client_disconnect"  // the client went away, or stopped reading
	streamExpired     = "expired"            // the stale timeout
	rejectConcurrency = "concurrency"        // reason of admission_rejected_total
)
