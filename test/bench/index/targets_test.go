package main

import (
	"strings"
	"testing"
	"time"
)

func TestTheVerdictIsThatOfTheLargestIndex(t *testing.T) {
	good := figures{Shape: shape{"index", 1000, 40_000}, Blocks: 8_000_000, WriterRate: 5e6, RestoreRate: 6e6, WorstBytes: 44,
		LongestWork: time.Millisecond / 2, JumpBeside: rate{PerSecond: 500e3, P99: 5 * time.Microsecond}}
	walks := figures{Shape: shape{"index", 64, 5000}, Blocks: 1_000_000, Walk: rate{PerSecond: 90e3}}
	other := figures{Shape: shape{"map", 64, 100_000}, Blocks: 20_000_000}
	if got := targets([]figures{walks, good, other}); strings.Count(got, "| met |") != 7 || strings.Contains(got, "missed") {
		t.Errorf("all targets are met, and it says\n%s", got)
	}
	bad := good
	bad.WriterRate, bad.RestoreRate, bad.WorstBytes, bad.LongestWork = 3e6, 4e6, 49, 2*time.Millisecond
	bad.JumpBeside, walks.Walk.PerSecond = rate{PerSecond: 300e3, P99: 9 * time.Microsecond}, 70e3
	if got := targets([]figures{walks, bad}); strings.Count(got, "| missed |") != 7 {
		t.Errorf("all targets are missed, and it says\n%s", got)
	}
	if got := targets([]figures{other}); got != "" {
		t.Errorf("without an index it says %q", got)
	}
}
