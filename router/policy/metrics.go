package policy

import "github.com/prometheus/client_golang/prometheus"

// metrics are the series of cache_aware. Those with the label worker are read at scrape, so they end with the worker.
type metrics struct {
	decisions [reasonEnd]prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, p *cacheAware) (*metrics, error) {
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "routerfleet_policy_decisions_total",
		Help: "Choices of a rank, by what decided them.",
	}, []string{"policy", "reason"})
	m := &metrics{}
	for r := ReasonPolicy + 1; r < reasonEnd; r++ {
		m.decisions[r] = decisions.WithLabelValues(NameCacheAware, r.String())
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{decisions, &collector{p}} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) decided(r Reason) { m.decisions[r].Inc() }

var (
	promisedDesc = prometheus.NewDesc("routerfleet_policy_predicted_cached_tokens_total",
		"Prompt tokens the index held for the chosen rank, over answers that reported cached tokens.", []string{"worker"}, nil)
	reportedDesc = prometheus.NewDesc("routerfleet_policy_reported_cached_tokens_total",
		"Prompt tokens the engine reported as cached, over the same answers.", []string{"worker"}, nil)
	answersDesc = prometheus.NewDesc("routerfleet_policy_observed_answers_total",
		"Answers that reported cached tokens and could be compared.", []string{"worker"}, nil)
	suspectDesc = prometheus.NewDesc("routerfleet_policy_suspect_ranks",
		"Ranks of a worker whose engine delivers less than their index promises.", []string{"worker"}, nil)
	recordsDesc = prometheus.NewDesc("routerfleet_policy_prediction_records",
		"Records of predicted credit that are kept, expired ones included.", nil, nil)
)

// collector reads the truths at scrape.
type collector struct{ policy *cacheAware }

func (*collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{promisedDesc, reportedDesc, answersDesc, suspectDesc, recordsDesc} {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	type sums struct{ promised, reported, answers, suspect float64 }
	byWorker := map[string]*sums{}
	t := &c.policy.truths
	t.keep(c.policy.directory.View())
	t.each(func(t *truth) {
		s := byWorker[t.worker]
		if s == nil {
			s = &sums{}
			byWorker[t.worker] = s
		}
		s.promised += float64(t.promisedTokens.Load())
		s.reported += float64(t.reportedTokens.Load())
		s.answers += float64(t.answers.Load())
		if t.known().suspect {
			s.suspect++
		}
	})
	for worker, s := range byWorker {
		ch <- prometheus.MustNewConstMetric(promisedDesc, prometheus.CounterValue, s.promised, worker)
		ch <- prometheus.MustNewConstMetric(reportedDesc, prometheus.CounterValue, s.reported, worker)
		ch <- prometheus.MustNewConstMetric(answersDesc, prometheus.CounterValue, s.answers, worker)
		ch <- prometheus.MustNewConstMetric(suspectDesc, prometheus.GaugeValue, s.suspect, worker)
	}
	ch <- prometheus.MustNewConstMetric(recordsDesc, prometheus.GaugeValue, float64(c.policy.predictions.records()))
}
