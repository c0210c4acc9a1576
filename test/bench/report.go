package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/test/bench/page"
)

// report is what one run measured.
type report struct {
	settings   settings
	machine    string
	latency    map[string][]time.Duration // sorted
	throughput []rates
}

var targets = []string{"direct", "reverse-proxy", "router"}

func quantile[T any](sorted []T, q float64) T {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// added is what a target adds to the median latency.
func (r report) added(target string) time.Duration {
	return quantile(r.latency[target], 0.5) - quantile(r.latency["direct"], 0.5)
}

func (r report) addedRatio() float64 {
	return float64(r.added("router")) / float64(r.added("reverse-proxy"))
}

func (s rates) ratio() float64 {
	return quantile(s.perSecond["router"], 0.5) / quantile(s.perSecond["reverse-proxy"], 0.5)
}

func (r report) markdown() string {
	var b strings.Builder
	s := r.settings
	fmt.Fprintf(&b, "Machine: %s.\n\n", r.machine)
	fmt.Fprintf(&b, "Latency, %d requests to each target in turn over one connection, chat bodies of %d bytes, not streamed:\n\n", s.requests, s.bodyBytes)
	b.WriteString("| target | p50 | p90 | p99 | added at p50 |\n|---|---|---|---|---|\n")
	for _, name := range targets {
		l := r.latency[name]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, page.Micros(quantile(l, .5)), page.Micros(quantile(l, .9)), page.Micros(quantile(l, .99)), page.Micros(r.added(name)))
	}
	fmt.Fprintf(&b, "\nThe router adds **%.2f x** what the bare reverse proxy adds (target: at most %.1f x, %s).\n",
		r.addedRatio(), maxAddedLatency, page.Verdict(r.addedRatio() <= maxAddedLatency))
	for _, t := range r.throughput {
		what := "chat requests"
		if t.load == "stream" {
			what = fmt.Sprintf("streams of %d events, each flushed on its own", s.chunks)
		}
		fmt.Fprintf(&b, "\nThroughput of %s, %d connections, medians of %d rounds of %s:\n\n", what, s.connections, s.rounds, s.roundTime)
		b.WriteString("| target | per second | slowest and fastest round | processor time each | broken answers |\n|---|---|---|---|---|\n")
		for _, name := range targets {
			p := t.perSecond[name]
			fmt.Fprintf(&b, "| %s | %.0f | %.0f to %.0f | %s | %d |\n", name, quantile(p, .5), p[0], p[len(p)-1], page.Micros(t.cpu[name]), t.failed[name])
		}
		fmt.Fprintf(&b, "\nThe router serves **%.2f x** what the bare reverse proxy serves", t.ratio())
		if t.load == "chat" {
			fmt.Fprintf(&b, " (target: at least %.1f x, %s)", minThroughput, page.Verdict(t.ratio() >= minThroughput))
		}
		b.WriteString(".\n")
	}
	return b.String()
}

// missed returns an error for each target that was not met.
func (r report) missed() error {
	var faults []error
	if got := r.addedRatio(); got > maxAddedLatency {
		faults = append(faults, fmt.Errorf("added latency is %.2f x the reverse proxy's, more than %.1f x", got, maxAddedLatency))
	}
	for _, t := range r.throughput {
		if got := t.ratio(); t.load == "chat" && got < minThroughput {
			faults = append(faults, fmt.Errorf("throughput is %.2f x the reverse proxy's, less than %.1f x", got, minThroughput))
		}
	}
	return errors.Join(faults...)
}
