package ingest

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/kvevents"
)

// CodeUntrusted says that a rank's stream has a hole, or that something in it was not understood. From the closed list
// of /internal/bootstrap.
const CodeUntrusted = "kv_stream_untrusted"

// Problems lists what somebody has to set right, or should know: event settings, and streams that are not trusted. It
// never blocks.
func (f *Feed) Problems() []kvevents.Problem {
	out := append([]kvevents.Problem(nil), f.public.Load().problems...)
	for _, r := range f.opt.Pump.View().Ranks() {
		s := r.Status()
		if n := s.Counts.Dropped[DropBlockSize]; n > 0 {
			out = append(out, kvevents.Problem{Code: kvevents.CodeSettings, Worker: r.Worker, Message: fmt.Sprintf(
				"%d blocks are not of %d tokens, which is what its settings say: correct block-size", n, r.Section.Key.BlockSize)})
		}
		switch {
		case s.Cursor.Proof == Untrusted:
			out = append(out, kvevents.Problem{Code: CodeUntrusted, Worker: r.Worker, Message: fmt.Sprintf(
				"rank %d at seq %d: batches are missing or were not understood; it counts for less until its engine clears its cache or restarts", r.Rank.DP, s.Cursor.Seq)})
		case s.Trust.Suspect:
			out = append(out, kvevents.Problem{Code: CodeUntrusted, Worker: r.Worker, Message: fmt.Sprintf(
				"rank %d at seq %d: its blocks contradict each other; it counts for less until its engine clears its cache or restarts", r.Rank.DP, s.Cursor.Seq)})
		}
	}
	return out
}

// Subscribed counts the workers whose ranks are all connected.
func (f *Feed) Subscribed() int {
	up := map[string]bool{}
	for _, s := range f.public.Load().subs {
		was, seen := up[s.engine.ID]
		up[s.engine.ID] = (was || !seen) && s.sub.State().Phase == kvevents.Up
	}
	n := 0
	for _, all := range up {
		if all {
			n++
		}
	}
	return n
}

// feedCollector reads the series of subscriptions at scrape, so that they end with their worker.
type feedCollector struct {
	feed    *Feed
	series  []subscriptionSeries
	skipped *prometheus.Desc
	up      *prometheus.Desc
}

type subscriptionSeries struct {
	desc *prometheus.Desc
	of   func(s *kvevents.Stats) uint64
}

func newFeedCollector(f *Feed) *feedCollector {
	counter := func(name, help string, of func(*kvevents.Stats) uint64) subscriptionSeries {
		return subscriptionSeries{prometheus.NewDesc("routerfleet_kv_subscription_"+name, help, []string{"worker"}, nil), of}
	}
	return &feedCollector{
		feed: f,
		series: []subscriptionSeries{
			counter("connects_total", "Connections to publishers that came up.", func(s *kvevents.Stats) uint64 { return s.Connects }),
			counter("unreachable_total", "Attempts to connect to a publisher that failed.", func(s *kvevents.Stats) uint64 { return s.Unreachable }),
			counter("messages_total", "Messages received from publishers.", func(s *kvevents.Stats) uint64 { return s.Messages }),
			counter("malformed_total", "Messages dropped because they are no event batches.", func(s *kvevents.Stats) uint64 { return s.Malformed }),
			counter("foreign_rank_total", "Batches that name another rank than the one subscribed to.", func(s *kvevents.Stats) uint64 { return s.ForeignRank }),
		},
		skipped: prometheus.NewDesc("routerfleet_kv_events_skipped_total", "Events that were not understood, by reason.", []string{"worker", "reason"}, nil),
		up:      prometheus.NewDesc("routerfleet_kv_subscriptions_up", "Ranks of a worker whose publisher is connected.", []string{"worker"}, nil),
	}
}

func (c *feedCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range c.series {
		ch <- s.desc
	}
	ch <- c.skipped
	ch <- c.up
}

func (c *feedCollector) Collect(ch chan<- prometheus.Metric) {
	subs := c.feed.public.Load().subs
	for from := 0; from < len(subs); {
		to := from
		for to < len(subs) && subs[to].engine.Name == subs[from].engine.Name {
			to++
		}
		c.worker(ch, subs[from].engine.Name, subs[from:to])
		from = to
	}
}

func (c *feedCollector) worker(ch chan<- prometheus.Metric, name string, subs []*subscription) {
	up := 0
	stats := make([]kvevents.Stats, len(subs))
	for i, s := range subs {
		stats[i] = s.sub.Stats()
		if s.sub.State().Phase == kvevents.Up {
			up++
		}
	}
	ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, float64(up), name)
	for _, series := range c.series {
		sum := uint64(0)
		for i := range stats {
			sum += series.of(&stats[i])
		}
		ch <- prometheus.MustNewConstMetric(series.desc, prometheus.CounterValue, float64(sum), name)
	}
	for reason := range stats[0].Skips {
		sum := uint64(0)
		for i := range stats {
			sum += stats[i].Skips[reason]
		}
		ch <- prometheus.MustNewConstMetric(c.skipped, prometheus.CounterValue, float64(sum), name, kvevents.Skip(reason).String())
	}
}
