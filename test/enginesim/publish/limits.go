package publish

import "time"

// Defaults of real engines' --kv-events-config, and of SGLang's load gauge.
const (
	DefaultBufferSteps   = 10_000  // batches kept for replay
	DefaultQueueSize     = 100_000 // steps waiting for the publishing goroutine
	DefaultHighWaterMark = 100_000 // messages kept for a slow subscriber
	DefaultLoadInterval  = 200 * time.Millisecond
	DefaultLoadTopic     = "load"
)

// Limits on what a fault may be told to do, and on what it may cost us.
const (
	MaxFaultBatches = 1_000_000
	MaxCount        = 4 << 20   // made-up blocks or tokens of one event
	MaxBytes        = 32 << 20  // of a garbage payload; beyond every limit of a router
	MaxFrames       = 1 << 16   // of one message
	MaxBabbleBytes  = 128 << 20 // of the payloads of one babble, about
	MaxAdvertised   = 1 << 20   // dp_size, block_size and port of a lying advertisement
	MaxHostBytes    = 256
	MaxSeq          = 1 << 40 // where an incarnation may begin

	maxRingBytes = 64 << 20 // payloads kept for replay by one rank
	maxHeldSteps = 100_000  // batches one rank keeps back while it hangs
)
