package workers

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the series of this package. Those with the label worker are read from the registry at scrape.
type metrics struct {
	transitions    *prometheus.CounterVec
	introspections *prometheus.CounterVec
	lists          prometheus.Counter
	watchErrors    *prometheus.CounterVec
	skipped        *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer, r *Registry) (*metrics, error) {
	m := &metrics{
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routerfleet_worker_transitions_total",
			Help: "State changes of workers, by the state entered.",
		}, []string{"to"}),
		introspections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routerfleet_worker_introspections_total",
			Help: "Introspections of workers, all attempts of one counted as one, by result.",
		}, []string{"result"}),
		lists: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "routerfleet_discovery_lists_total",
			Help: "Complete EndpointSlice lists taken over, the first one included.",
		}),
		watchErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routerfleet_discovery_errors_total",
			Help: "Failed EndpointSlice requests, by verb and HTTP status (0 without an answer).",
		}, []string{"verb", "code"}),
		skipped: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "routerfleet_discovery_endpoints_skipped",
			Help: "Endpoints of the present slices that are no workers, by reason.",
		}, []string{"reason"}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.transitions, m.introspections, m.lists, m.watchErrors, m.skipped, newCollector(r),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// answered counts the introspections among the answers.
func (m *metrics) answered(msg message) {
	switch msg := msg.(type) {
	case introspected:
		result := "ok"
		if msg.err != nil {
			result = "error"
		}
		m.introspections.WithLabelValues(result).Inc()
	}
}

// skippedNow replaces the skip counts; a reason that is gone loses its series.
func (m *metrics) skippedNow(byReason map[string]int) {
	m.skipped.Reset()
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		m.skipped.WithLabelValues(reason).Set(float64(byReason[reason]))
	}
}

// collector reads the workers' series from the present snapshot, so they end with their worker, whatever leases
// are still out.
type collector struct {
	registry *Registry
	requests *prometheus.Desc
	inflight *prometheus.Desc
	breaker  *prometheus.Desc
	states   *prometheus.Desc
	synced   *prometheus.Desc
}

func newCollector(r *Registry) *collector {
	return &collector{
		registry: r,
		requests: prometheus.NewDesc("routerfleet_worker_requests_total",
			"Attempts on a worker that have ended, by outcome.", []string{"worker", "outcome"}, nil),
		inflight: prometheus.NewDesc("routerfleet_worker_inflight_requests",
			"Requests this replica has in flight on a worker.", []string{"worker"}, nil),
		breaker: prometheus.NewDesc("routerfleet_worker_breaker_state",
			"State of a worker's breaker: 0 closed, 1 half-open, 2 open.", []string{"worker"}, nil),
		states: prometheus.NewDesc("routerfleet_workers",
			"Workers by state.", []string{"state"}, nil),
		synced: prometheus.NewDesc("routerfleet_discovery_synced",
			"1 when every source of workers has delivered its first complete list.", nil, nil),
	}
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.requests, c.inflight, c.breaker, c.states, c.synced} {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.registry.Snapshot()
	var states [stateEnd]int
	for _, l := range s.workers {
		states[l.State]++
		c.collectWorker(ch, l.Worker)
	}
	for state := StateUnknown + 1; state < stateEnd; state++ {
		ch <- prometheus.MustNewConstMetric(c.states, prometheus.GaugeValue, float64(states[state]), state.String())
	}
	synced := 0.0
	if s.synced {
		synced = 1
	}
	ch <- prometheus.MustNewConstMetric(c.synced, prometheus.GaugeValue, synced)
}

func (c *collector) collectWorker(ch chan<- prometheus.Metric, w *Worker) {
	for o := range outcomeEnd {
		ch <- prometheus.MustNewConstMetric(c.requests, prometheus.CounterValue,
			float64(w.outcomes[o].Load()), w.name, o.String())
	}
	var active int64
	for _, r := range w.ranks {
		active += r.load.active.Load()
	}
	ch <- prometheus.MustNewConstMetric(c.inflight, prometheus.GaugeValue, float64(active), w.name)
	ch <- prometheus.MustNewConstMetric(c.breaker, prometheus.GaugeValue, float64(w.breaker.state()), w.name)
}
