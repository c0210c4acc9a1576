package ingest

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/index"
)

// collector reads every series from the view at scrape, so a worker's end with it. Ranks of one worker are summed up.
type collector struct {
	pump     *Pump
	perRank  []rankSeries
	restarts *prometheus.Desc
	repairs  *prometheus.Desc
	events   *prometheus.Desc
	blocks   *prometheus.Desc
	dropped  *prometheus.Desc
	holding  *prometheus.Desc
	states   *prometheus.Desc
	flags    *prometheus.Desc
	index    []indexSeries
	budget   *prometheus.Desc
	limit    *prometheus.Desc
}

// rankSeries is one figure of a rank with no label but its worker's.
type rankSeries struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*Status) float64
}

type indexSeries struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(index.Stats) float64
}

func newCollector(p *Pump) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("routerfleet_kv_"+name, help, labels, nil)
	}
	counter := func(name, help string, of func(*Status) float64) rankSeries {
		return rankSeries{desc(name, help, "worker"), prometheus.CounterValue, of}
	}
	gauge := func(name, help string, of func(*Status) float64) rankSeries {
		return rankSeries{desc(name, help, "worker"), prometheus.GaugeValue, of}
	}
	return &collector{
		pump: p,
		perRank: []rankSeries{
			counter("batches_total", "Event batches applied.", func(s *Status) float64 { return float64(s.Tally.Batches) }),
			counter("batches_duplicate_total", "Event batches dropped because they were applied before.", func(s *Status) float64 { return float64(s.Tally.Duplicates) }),
			counter("batches_late_total", "Event batches dropped because their connection was over.", func(s *Status) float64 { return float64(s.Tally.Late) }),
			counter("batches_lost_total", "Held event batches dropped with their connection or with the engine's life.", func(s *Status) float64 { return float64(s.Tally.Lost) }),
			counter("batches_damaged_total", "Applied event batches of which a part was not understood.", func(s *Status) float64 { return float64(s.Tally.Damaged) }),
			counter("gaps_total", "Holes in event streams.", func(s *Status) float64 { return float64(s.Tally.Gaps) }),
			counter("batches_missing_total", "Event batches in those holes.", func(s *Status) float64 { return float64(s.Tally.Missing) }),
			counter("tails_lost_total", "Holes behind the last event, found because a sibling had heard more.", func(s *Status) float64 { return float64(s.Tally.Tails) }),
			counter("blind_tails_total", "Holes behind the last event that nobody found before the engine spoke again.", func(s *Status) float64 { return float64(s.Tally.BlindTails) }),
			counter("heals_total", "Ranks whose blocks were replaced by a sibling's better ones while they served.", func(s *Status) float64 { return float64(s.Tally.Heals) }),
			counter("redials_total", "Connections to publishers closed at our own wish.", func(s *Status) float64 { return float64(s.Tally.Redials) }),
			counter("doubts_total", "Reconnects after which nobody could say that the stream went on.", func(s *Status) float64 { return float64(s.Tally.Doubts) }),
			counter("overflows_total", "Times there was no room for held batches.", func(s *Status) float64 { return float64(s.Tally.Overflows) }),
			counter("origins_total", "Streams known from their first batch.", func(s *Status) float64 { return float64(s.Tally.Origins) }),
			counter("contradictions_total", "Stored blocks dropped because they are known with another parent.", func(s *Status) float64 { return float64(s.Contradictions) }),
			counter("orphans_dropped_total", "Blocks without a known parent that were dropped because there were too many.", func(s *Status) float64 { return float64(s.OrphansDropped) }),
			gauge("orphans", "Blocks whose parent is not known yet.", func(s *Status) float64 { return float64(s.Orphans) }),
			gauge("mapped_hashes", "Engine hashes that have a key (scheme tokens).", func(s *Status) float64 { return float64(s.Mapped) }),
			gauge("held_batches", "Event batches held until a question is answered.", func(s *Status) float64 { return float64(s.Held) }),
			gauge("held_bytes", "Memory of held event batches.", func(s *Status) float64 { return float64(s.HeldBytes) }),
			gauge("kept_batches", "Copies of applied event batches, for blocks that are on their way from a sibling.", func(s *Status) float64 { return float64(s.Kept) }),
			gauge("kept_bytes", "Memory of those copies.", func(s *Status) float64 { return float64(s.KeptBytes) }),
		},
		restarts: desc("restarts_total", "Engine restarts seen in the event stream, by how they showed.", "worker", "how"),
		repairs:  desc("repairs_total", "Holes in event streams that were dealt with (kv_gaps_total, kv_tails_lost_total), by how.", "worker", "how"),
		events:   desc("events_total", "Events applied.", "worker", "event"),
		blocks:   desc("event_blocks_total", "Blocks named by applied events.", "worker", "event"),
		dropped:  desc("event_blocks_dropped_total", "Stored blocks that were not indexed, by reason.", "worker", "reason"),
		holding:  desc("blocks", "Blocks a worker holds as far as is known, by tier.", "worker", "tier"),
		states:   desc("ranks", "Ranks by state.", "state"),
		flags:    desc("ranks_flagged", "Ranks that are connected, unwitnessed, untrusted, suspect or partial.", "flag"),
		index: []indexSeries{
			{desc("index_nodes", "Blocks in an index.", "index"), prometheus.GaugeValue, func(s index.Stats) float64 { return float64(s.Nodes) }},
			{desc("index_unrooted_nodes", "Blocks in an index whose parent is not.", "index"), prometheus.GaugeValue, func(s index.Stats) float64 { return float64(s.Unrooted) }},
			{desc("index_carrier_sets", "Distinct sets of ranks that hold a block.", "index"), prometheus.GaugeValue, func(s index.Stats) float64 { return float64(s.Sets) }},
			{desc("index_evicted_total", "Blocks evicted because the index was full.", "index"), prometheus.CounterValue, func(s index.Stats) float64 { return float64(s.Evicted) }},
			{desc("index_audits_total", "Queries answered a second time, level by level.", "index"), prometheus.CounterValue, func(s index.Stats) float64 { return float64(s.Audits) }},
			{desc("index_audits_differed_total", "Of them, those with another answer.", "index"), prometheus.CounterValue, func(s index.Stats) float64 { return float64(s.Differed) }},
		},
		budget: desc("budget_used_bytes", "Memory of event batches in queues and held."),
		limit:  desc("budget_limit_bytes", "The most that may be."),
	}
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range c.perRank {
		ch <- s.desc
	}
	for _, s := range c.index {
		ch <- s.desc
	}
	for _, d := range []*prometheus.Desc{c.restarts, c.repairs, c.events, c.blocks, c.dropped, c.holding, c.states, c.flags, c.budget, c.limit} {
		ch <- d
	}
}

// Collect sums up each worker's ranks, which follow each other in the view.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	v := c.pump.View()
	var states [stateEnd]int
	for from := 0; from < len(v.list); {
		to := from
		for to < len(v.list) && v.list[to].Worker == v.list[from].Worker {
			states[v.list[to].Status().State]++
			to++
		}
		c.worker(ch, v.list[from].Worker, v.list[from:to])
		from = to
	}
	for s := Pending; s < Forgotten; s++ {
		ch <- prometheus.MustNewConstMetric(c.states, prometheus.GaugeValue, float64(states[s]), s.String())
	}
	t := v.Totals()
	for flag, n := range map[string]int{"connected": t.Connected, "unwitnessed": t.Unwitnessed, "untrusted": t.Untrusted, "suspect": t.Suspect, "partial": t.Partial} {
		ch <- prometheus.MustNewConstMetric(c.flags, prometheus.GaugeValue, float64(n), flag)
	}
	for _, s := range v.sections {
		stats := s.Stats()
		for _, f := range c.index {
			ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(stats), s.Key.String())
		}
	}
	ch <- prometheus.MustNewConstMetric(c.budget, prometheus.GaugeValue, float64(c.pump.opt.Budget.Used()))
	ch <- prometheus.MustNewConstMetric(c.limit, prometheus.GaugeValue, float64(c.pump.opt.Budget.Limit()))
}

func (c *collector) worker(ch chan<- prometheus.Metric, name string, ranks []*Rank) {
	status := make([]*Status, len(ranks))
	for i, r := range ranks {
		status[i] = r.Status()
	}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, of func(*Status) float64, labels ...string) {
		sum := 0.0
		for _, s := range status {
			sum += of(s)
		}
		ch <- prometheus.MustNewConstMetric(d, kind, sum, append([]string{name}, labels...)...)
	}
	for _, s := range c.perRank {
		send(s.desc, s.kind, s.of)
	}
	for h := range restartHows {
		send(c.restarts, prometheus.CounterValue, func(s *Status) float64 { return float64(s.Tally.Restarts[h]) }, h.String())
	}
	for h := range repairHows {
		send(c.repairs, prometheus.CounterValue, func(s *Status) float64 { return float64(s.Tally.Repairs[h]) }, h.String())
	}
	for d := range drops {
		send(c.dropped, prometheus.CounterValue, func(s *Status) float64 { return float64(s.Counts.Dropped[d]) }, d.String())
	}
	for i, tier := range [...]string{"device", "host", "disk", "external"} {
		send(c.holding, prometheus.GaugeValue, func(s *Status) float64 { return float64(s.Blocks[i]) }, tier)
	}
	for _, e := range [...]struct {
		name           string
		events, blocks func(*Counts) uint64
	}{
		{"block_stored", func(c *Counts) uint64 { return c.Stored }, func(c *Counts) uint64 { return c.StoredBlocks }},
		{"block_removed", func(c *Counts) uint64 { return c.Removed }, func(c *Counts) uint64 { return c.RemovedBlocks }},
		{"all_blocks_cleared", func(c *Counts) uint64 { return c.Cleared }, nil},
	} {
		send(c.events, prometheus.CounterValue, func(s *Status) float64 { return float64(e.events(&s.Counts)) }, e.name)
		if e.blocks != nil {
			send(c.blocks, prometheus.CounterValue, func(s *Status) float64 { return float64(e.blocks(&s.Counts)) }, e.name)
		}
	}
}
