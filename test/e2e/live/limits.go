package live

import "time"

const (
	// maxOutput bounds what one kubectl call may print, in bytes.
	maxOutput = 4 << 20
	// maxMetrics bounds one metrics page, in bytes. A router with 64 workers prints some 100 KiB.
	maxMetrics = 4 << 20
	// maxLogLine bounds one line of the load generator's JSON output, in bytes.
	maxLogLine = 1 << 20
	// dialTimeout bounds the start of one port forward.
	dialTimeout = 10 * time.Second
)
