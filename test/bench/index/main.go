// Command index measures router/index: lookups of three kinds, alone and beside a writer, applies, restore, and memory
// at the worst point of growth, beside a Go map of sets and a tree behind a read-write lock.
//
//	go run ./test/bench/index                             prints the tables
//	go run ./test/bench/index --write docs/performance.md  also replaces the measured part of that page
//	go run ./test/bench/index --scale 0.1                  a tenth of the blocks, for a quick look
//
// Each row runs in a process of its own, so that its memory is its own.
package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/test/bench/page"
)

// command is how the page says to measure again.
const command = "go run ./test/bench/index --write docs/performance.md"

// shape is the size of one row. The blocks are 8 system prompts of 128 on every rank and sessions of 200 on one.
type shape struct {
	Kind     string // index, map or tree
	Ranks    int
	Sessions int
}

var shapes = []shape{
	{"index", 64, 5_000}, {"index", 64, 20_000}, {"index", 1000, 5_000}, {"index", 1000, 40_000},
	{"map", 64, 5_000}, {"tree", 64, 5_000},
}

func main() {
	scale := flag.Float64("scale", 1, "share of the blocks")
	roundTime := page.RoundTime()
	page.Program[shape, figures]{
		Name: "index", Command: command, Flag: "shape",
		Rows:     func() []shape { return scaled(*scale) },
		Measure:  func(s shape) (figures, error) { return measure(s, *roundTime), nil },
		Markdown: markdown,
	}.Main()
}

func scaled(scale float64) []shape {
	rows := slices.Clone(shapes)
	for i := range rows {
		rows[i].Sessions = max(8, int(float64(rows[i].Sessions)*scale))
	}
	return rows
}

func markdown(rows []figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s.\n\n", page.Machine())
	b.WriteString("Lookups of 328 keys against all ranks, thousands a second of one core, with p99; *jump* on rooted data, *walk* with 1 % of the nodes unrooted, *healing* on queries whose first block was never announced:\n\n")
	b.WriteString("| what | ranks | blocks | jump | jump beside a writer | walk | walk beside a writer | healing |\n|---|---|---|---|---|---|---|---|\n")
	for _, f := range rows {
		fmt.Fprintf(&b, "| %s | %d | %.1f M | %s | %s | %s | %s | %s |\n", f.Shape.Kind, f.Shape.Ranks, millions(f.Blocks),
			f.Jump, f.JumpBeside, f.Walk, f.WalkBeside, f.Healing)
	}
	b.WriteString("\nWriting, and memory as the process's resident set a block, sampled 200 times while the blocks come:\n\n")
	b.WriteString("| what | ranks | blocks | build, M placements/s | writer beside readers, M blocks/s | restore, M nodes/s | longest Work(10000) | bytes a block, worst | bytes a block, end |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range rows {
		fmt.Fprintf(&b, "| %s | %d | %.1f M | %.1f | %s | %s | %s | %.0f | %.0f |\n", f.Shape.Kind, f.Shape.Ranks, millions(f.Blocks),
			f.BuildRate/1e6, orDash(f.WriterRate/1e6), orDash(f.RestoreRate/1e6), stall(f.LongestWork), f.WorstBytes, f.EndBytes)
	}
	b.WriteString(targets(rows))
	return b.String()
}

func millions(n int) float64 { return float64(n) / 1e6 }

func orDash(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", v)
}

func stall(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
