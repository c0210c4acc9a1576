package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/test/bench/page"
)

// The targets of the page, for the row with most blocks and, of walks, for the one of 64 ranks with fewest.
const (
	targetJump    = 400e3 // lookups a second beside a writer
	targetP99     = 8 * time.Microsecond
	targetWalk    = 80e3 // lookups a second
	targetWriter  = 4e6  // blocks a second beside readers
	targetRestore = 5e6  // nodes a second
	targetBytes   = 48   // resident, a block, at the worst point of growth
	targetStall   = time.Millisecond
)

// targets says which targets were met.
func targets(rows []figures) string {
	var largest, walked *figures
	for i := range rows {
		f := &rows[i]
		if f.Shape.Kind != "index" {
			continue
		}
		if largest == nil || f.Blocks > largest.Blocks {
			largest = f
		}
		if f.Shape.Ranks == 64 && (walked == nil || f.Blocks < walked.Blocks) {
			walked = f
		}
	}
	if largest == nil || walked == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nAgainst the targets, at %.1f M blocks on %d ranks:\n\n| what | measured | target | |\n|---|---|---|---|\n", millions(largest.Blocks), largest.Shape.Ranks)
	line := func(what, measured, target string, met bool) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", what, measured, target, page.Verdict(met))
	}
	jump := largest.JumpBeside
	line("jump beside a writer", fmt.Sprintf("%.0f k/s", jump.PerSecond/1e3), fmt.Sprintf("%.0f k/s", targetJump/1e3), jump.PerSecond >= targetJump)
	line("its p99", micros(jump.P99), "at most "+micros(targetP99), jump.P99 <= targetP99)
	line(fmt.Sprintf("walk, 64 ranks, %.1f M blocks", millions(walked.Blocks)), fmt.Sprintf("%.0f k/s", walked.Walk.PerSecond/1e3), fmt.Sprintf("%.0f k/s", targetWalk/1e3), walked.Walk.PerSecond >= targetWalk)
	line("writer beside readers", fmt.Sprintf("%.1f M blocks/s", largest.WriterRate/1e6), fmt.Sprintf("%.1f M/s", targetWriter/1e6), largest.WriterRate >= targetWriter)
	line("restore", fmt.Sprintf("%.1f M nodes/s", largest.RestoreRate/1e6), fmt.Sprintf("%.1f M/s", targetRestore/1e6), largest.RestoreRate >= targetRestore)
	line("worst point of growth", fmt.Sprintf("%.0f bytes a block", largest.WorstBytes), fmt.Sprintf("at most %d", targetBytes), largest.WorstBytes <= targetBytes)
	line("longest Work(10000)", stall(largest.LongestWork), "at most "+stall(targetStall), largest.LongestWork <= targetStall)
	return b.String()
}

func micros(d time.Duration) string {
	return fmt.Sprintf("%.1f us", float64(d)/float64(time.Microsecond))
}
