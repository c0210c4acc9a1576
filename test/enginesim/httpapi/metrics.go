package httpapi

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/test/enginesim"
)

// scrapeTimeout bounds how long a scrape waits for the ranks to answer.
const scrapeTimeout = 2 * time.Second

// series is one metric: its name, and its value for one rank.
type series struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(enginesim.RankState) float64
}

// engineCollector reads the ranks at scrape, so that values are never stale.
type engineCollector struct {
	engine *enginesim.Engine
	model  string
	series []series
}

func (s *Server) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		// Tells one life of the process from the next, those of fault restart
		// included: that is why it is not client_golang's own.
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "process_start_time_seconds", Help: "Start time of the process since unix epoch in seconds.",
		}, func() float64 { return float64(s.started.Load()) / 1e6 }),
		&engineCollector{engine: s.opts.Engine, model: s.opts.Model, series: seriesOf(s.opts.Dialect)},
		&outcomeCollector{recorder: s.recorder, desc: prometheus.NewDesc(
			"enginesim_requests", "Generation requests by how they ended; running ones included.", []string{"outcome"}, nil)},
	}
}

// seriesOf returns the engine's own names for what the double knows.
func seriesOf(dialect Dialect) []series {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	type state = enginesim.RankState
	names := map[string]string{
		"running": "sglang:num_running_reqs", "queued": "sglang:num_queue_reqs", "usage": "sglang:token_usage",
		"used": "enginesim:num_used_pages", "hit": "sglang:cache_hit_rate", "prompt": "sglang:prompt_tokens_total",
		"cached": "sglang:cached_tokens_total", "output": "sglang:generation_tokens_total",
		"finished": "sglang:num_requests_total", "aborted": "sglang:num_aborted_requests_total",
	}
	if dialect == VLLM {
		names = map[string]string{
			"running": "vllm:num_requests_running", "queued": "vllm:num_requests_waiting", "usage": "vllm:kv_cache_usage_perc",
			"used": "enginesim:num_used_pages", "hit": "enginesim:cache_hit_rate", "prompt": "vllm:prefix_cache_queries_total",
			"cached": "vllm:prefix_cache_hits_total", "output": "vllm:generation_tokens_total",
			"finished": "vllm:request_success_total", "aborted": "enginesim:num_aborted_requests_total",
		}
	}
	made := func(key, help string, kind prometheus.ValueType, value func(state) float64) series {
		return series{prometheus.NewDesc(names[key], help, []string{"model_name", "dp_rank"}, nil), kind, value}
	}
	return []series{
		made("running", "Sequences in prefill or decode.", gauge, func(s state) float64 { return float64(s.Running) }),
		made("queued", "Sequences that wait.", gauge, func(s state) float64 { return float64(s.Queued) }),
		made("usage", "Share of pages that live sequences hold.", gauge, func(s state) float64 { return float64(inUse(s)) / float64(s.Blocks.Total) }),
		made("used", "Pages that live sequences hold.", gauge, func(s state) float64 { return float64(inUse(s)) }),
		made("hit", "Cached share of all prompt tokens so far.", gauge, func(s state) float64 {
			return float64(s.Totals.CachedTokens) / float64(max(1, s.Totals.PromptTokens))
		}),
		made("prompt", "Prompt tokens.", counter, func(s state) float64 { return float64(s.Totals.PromptTokens) }),
		made("cached", "Prompt tokens found in the cache.", counter, func(s state) float64 { return float64(s.Totals.CachedTokens) }),
		made("output", "Tokens produced.", counter, func(s state) float64 { return float64(s.Totals.OutputTokens) }),
		made("finished", "Sequences answered whole.", counter, func(s state) float64 { return float64(s.Totals.Finished) }),
		made("aborted", "Sequences whose caller went away.", counter, func(s state) float64 { return float64(s.Totals.Aborted) }),
	}
}

func inUse(s enginesim.RankState) int { return s.Blocks.Pinned + s.Blocks.Private }

func (c *engineCollector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.series {
		out <- m.desc
	}
}

func (c *engineCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	ranks, err := c.engine.State(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.series[0].desc, err)
		return
	}
	for _, rank := range ranks {
		for _, m := range c.series {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(rank), c.model, strconv.Itoa(rank.Rank))
		}
	}
}

// outcomeCollector counts requests by outcome.
type outcomeCollector struct {
	recorder *recorder
	desc     *prometheus.Desc
}

func (c *outcomeCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

func (c *outcomeCollector) Collect(out chan<- prometheus.Metric) {
	for outcome, n := range c.recorder.counts() {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), string(outcome))
	}
}
