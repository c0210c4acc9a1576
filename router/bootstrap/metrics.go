package bootstrap

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/ingest"
)

// metrics count what comes of asking siblings. Fetches and ranks are counted apart: one fetch settles many ranks.
type metrics struct {
	snapshots *prometheus.CounterVec
	seconds   prometheus.Histogram
	bytes     prometheus.Counter
	ranks     *prometheus.CounterVec
	sweeps    *prometheus.CounterVec
	resweeps  *prometheus.CounterVec
	probes    *prometheus.CounterVec
	audits    *prometheus.CounterVec
	answers   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "routerfleet_kv_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		snapshots: vec("peer_snapshot_total", "Snapshots fetched from siblings, by what came of it.", "outcome"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "routerfleet_kv_peer_snapshot_seconds", Help: "Time of one fetch, graft included.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600},
		}),
		bytes:    prometheus.NewCounter(prometheus.CounterOpts{Name: "routerfleet_kv_peer_snapshot_bytes_total", Help: "Bytes of snapshots read from siblings."}),
		ranks:    vec("bootstrap_rank_total", "Ranks by how they came by their state, once for each life of their engine.", "outcome"),
		sweeps:   vec("bootstrap_sweep_total", "Searches for a sibling to copy from, by what came of them.", "result"),
		resweeps: vec("bootstrap_resweep_total", "Later attempts at a better state of a rank, by what came of them.", "result"),
		probes:   vec("splice_probe_total", "Questions whether a batch fell between a graft and its stream, by what siblings said.", "testimony"),
		audits:   vec("audit_total", "Comparisons of a rank with a sibling's, by what they found.", "result"),
		answers:  vec("peer_answer_total", "Answers of siblings that were asked for their cursors.", "answer"),
	}
	m.begin()
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.snapshots, m.seconds, m.bytes, m.ranks, m.sweeps, m.resweeps, m.probes, m.audits, m.answers} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("bootstrap: register metrics: %w", err)
		}
	}
	return m, nil
}

// begin has every series of a closed list there from the start.
func (m *metrics) begin() {
	for o := range fetchOutcomes {
		m.snapshots.WithLabelValues(o.String())
	}
	for r := SweepNone + 1; r < sweepResults; r++ {
		m.sweeps.WithLabelValues(r.String())
	}
	for _, o := range outcomes {
		m.ranks.WithLabelValues(o.String())
	}
	for _, r := range []string{"grafted", "failed", "nothing_better"} {
		m.resweeps.WithLabelValues(r)
	}
	for _, r := range []string{"equal", "differs", "weaker_sibling", "behind", "unanswered"} {
		m.audits.WithLabelValues(r)
	}
}

// outcomes are all that a rank can come to.
var outcomes = []ingest.Outcome{
	ingest.OutcomeFromOrigin, ingest.OutcomeWarm, ingest.OutcomeWarmUnwitnessed, ingest.OutcomeGap, ingest.OutcomeUncovered,
	ingest.OutcomeAbandoned, ingest.OutcomeOverflow, ingest.OutcomePublisherReset, ingest.OutcomeTreeRejected,
}

func (m *metrics) outcome(o ingest.Outcome) { m.ranks.WithLabelValues(o.String()).Inc() }
func (m *metrics) swept(r SweepResult)      { m.sweeps.WithLabelValues(r.String()).Inc() }
func (m *metrics) healed(result string)     { m.resweeps.WithLabelValues(result).Inc() }
func (m *metrics) audited(result string)    { m.audits.WithLabelValues(result).Inc() }
func (m *metrics) asked(a Answer)           { m.answers.WithLabelValues(string(a)).Inc() }

func (m *metrics) fetched(o FetchOutcome, took time.Duration) {
	m.snapshots.WithLabelValues(o.String()).Inc()
	m.seconds.Observe(took.Seconds())
}

func (m *metrics) probed(t ingest.Testimony) {
	m.probes.WithLabelValues([]string{"unknown", "no_advance", "advanced"}[min(int(t), 2)]).Inc()
}

// collector reads what is true at scrape: series of ranks end with them.
type collector struct {
	c                              *Coordinator
	settled, seedFailed, state, at *prometheus.Desc
	progress                       *prometheus.Desc
}

func newCollector(c *Coordinator) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("routerfleet_kv_"+name, help, labels, nil)
	}
	return &collector{
		c:          c,
		settled:    desc("bootstrap_settled", "1 once the boot is over."),
		seedFailed: desc("bootstrap_seed_failed", "1 while a search over siblings timed out and none found anything since."),
		state:      desc("bootstrap_state", "Boot of a rank: 0 pending, 1 recovered, 2 failed.", "worker", "rank"),
		at:         desc("bootstrap_settled_timestamp_seconds", "When the boot was over, or what it won was lost; 0 before."),
		progress:   desc("bootstrap_progress", "What the fetch under way has brought, of how much as far as the sibling says.", "what"),
	}
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.settled, c.seedFailed, c.state, c.at, c.progress} {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	v := c.c.facts()
	gauge(c.settled, oneIf(!v.settledAt.IsZero()))
	gauge(c.seedFailed, oneIf(v.seedFailed))
	at := 0.0
	if !v.settledAt.IsZero() {
		at = float64(v.settledAt.UnixMilli()) / 1000
	}
	gauge(c.at, at)
	for i := range v.ranks {
		r := &v.ranks[i]
		gauge(c.state, float64(r.state()), r.Name, strconv.Itoa(int(r.Rank.DP)))
	}
	p, _ := c.c.progress.read(c.c.opt.Now())
	for _, s := range []struct {
		what string
		n    int64
	}{{"bytes", p.Bytes}, {"bytes_total", p.TotalBytes}, {"nodes", p.Nodes}, {"nodes_total", p.TotalNodes}} {
		gauge(c.progress, float64(s.n), s.what)
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
