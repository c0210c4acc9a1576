package loadgen

import "time"

// Limits of a run, and of what is believed from the other side.
const (
	maxConnections    = 4_096
	maxRequests       = 100_000_000
	maxDuration       = 7 * 24 * time.Hour
	maxProbePairs     = 10_000
	maxBodyBytes      = 64 << 20 // of one answer; more is a failure
	maxLineBytes      = 4 << 20  // of one SSE line: cumulative dialects repeat the whole text
	maxErrorText      = 512      // bytes of an error answer kept in a failure
	maxFailuresKept   = 20       // first failures kept with their text
	maxCodes          = 64       // distinct failure codes and engines counted by name; the rest are "other"
	maxNameBytes      = 128      // of a code or an engine's name
	progressInterval  = time.Second
	modelPollInterval = 500 * time.Millisecond
)
