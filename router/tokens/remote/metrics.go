package remote

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of routerfleet_engine_tokenize_total.
const (
	resultOK          = "ok"
	resultCached      = "cached"      // answered before
	resultShared      = "shared"      // joined a question that was under way
	resultUnsupported = "unsupported" // the engine has no such route
	resultRefused     = "refused"     // the engine found the prompt wrong
	resultTimeout     = "timeout"
	resultBusy        = "busy" // not asked: too many questions, or the engine failed lately
	resultTooLong     = "too_long"
	resultError       = "error"
)

type metrics struct {
	asked    *prometheus.CounterVec // result
	wrong    prometheus.Counter
	duration prometheus.Histogram
}

var edges = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2}

func newMetrics(r prometheus.Registerer, c *Client) (*metrics, error) {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	m := &metrics{
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "routerfleet", Name: "engine_tokenize_total",
			Help: "Prompts whose tokens an engine was asked for, by result."}, []string{"result"}),
		wrong: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "routerfleet", Name: "engine_tokenize_wrong_total",
			Help: "Prompts of which an engine told other tokens than were counted in the answer."}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "routerfleet", Name: "engine_tokenize_duration_seconds",
			Help: "Time engines took to tell a prompt's tokens.", Buckets: edges}),
	}
	cached := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "routerfleet", Name: "engine_tokenize_cache_bytes",
		Help: "Memory of the prompts' tokens that engines told."}, func() float64 { _, n := c.cache.size(); return float64(n) })
	for _, collector := range []prometheus.Collector{m.asked, m.wrong, m.duration, cached} {
		if err := r.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// counted counts how a question ended and gives the error back.
func (m *metrics) counted(err error) error {
	result := resultError
	switch {
	case err == nil:
		result = resultOK
	case errors.Is(err, ErrUnsupported):
		result = resultUnsupported
	case errors.Is(err, errRefused):
		result = resultRefused
	case errors.Is(err, ErrBusy):
		result = resultBusy
	case errors.Is(err, ErrTooLong):
		result = resultTooLong
	case errors.Is(err, context.DeadlineExceeded):
		result = resultTimeout
	}
	m.asked.WithLabelValues(result).Inc()
	return err
}
