// Command bench measures what the router adds to a request, beside httputil.ReverseProxy in the same run:
//
//	go run ./test/bench                           prints the tables
//	go run ./test/bench --write docs/performance.md   also replaces the measured part of that page
//	go run ./test/bench --check                   fails when a target is missed
//
// Engine, reverse proxy and router are processes of their own; the client is this one. Targets are asked in turn,
// request by request for latency and round by round for throughput, so that a noisy machine is noisy for all of them.
// Client and engine are a few lines over TCP each, to leave the processors to what is measured.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/routerfleet/routerfleet/test/bench/page"
)

// command is how the page says to measure again.
const command = "go run ./test/bench --write docs/performance.md"

// Targets of the serving specification, for 1 kB chat bodies: what the router adds to the median latency in
// multiples of what the bare reverse proxy adds, and its throughput in shares of the bare proxy's.
const (
	maxAddedLatency = 1.3
	minThroughput   = 0.8
)

// settings are the flags of a run.
type settings struct {
	requests    int
	rounds      int
	roundTime   time.Duration
	connections int
	bodyBytes   int
	chunks      int
	check       bool
	write       string
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		if err := serve(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench serve:", err)
			os.Exit(1)
		}
		return
	}
	var s settings
	flag.IntVar(&s.requests, "requests", 10_000, "requests for the latency of each target")
	flag.IntVar(&s.rounds, "rounds", 7, "rounds of the throughput measurement; medians count")
	flag.DurationVar(&s.roundTime, "round-time", time.Second, "length of a round for each target")
	flag.IntVar(&s.connections, "connections", 32, "connections of the throughput measurement")
	flag.IntVar(&s.bodyBytes, "body-bytes", 1024, "size of a chat body")
	flag.IntVar(&s.chunks, "chunks", 64, "events of a stream")
	flag.BoolVar(&s.check, "check", false, "fail when a target is missed")
	flag.StringVar(&s.write, "write", "", "page whose measured part is replaced")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(s settings) error {
	report, err := measure(s)
	if err != nil {
		return err
	}
	if err := page.Publish(s.write, command, report.markdown()); err != nil {
		return err
	}
	if s.check {
		return report.missed()
	}
	return nil
}
