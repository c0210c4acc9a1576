package httpapi

import "time"

// Limits on what a client may send; see each use for the answer past it.
const (
	maxBodyBytes      = 16 << 20   // a 1 M-token prompt as JSON is about 7 MB
	maxControlBytes   = 64 << 10   // of a control request
	maxBatch          = 256        // prompts of one request
	maxChoices        = 128        // n; OpenAI's bound
	maxSequences      = 256        // prompts times n
	maxOutputTokens   = 1 << 20    // of all answers to one request
	maxMessages       = 4_096      // of one chat
	maxStops          = 4          // stop strings; OpenAI's bound
	maxStopBytes      = 1_024      // of one stop string
	maxHeaderBytes    = 64 << 10   // uvicorn's order of magnitude
	maxRecords        = 1_024      // requests remembered by the control API
	maxRecordedBody   = 4 << 10    // bytes of a body kept with its record
	maxFaultRequests  = 1_000_000  // how many requests a fault may be set for
	maxFaultChunks    = 1 << 20    // after_chunks, chunk_bytes
	maxFaultDelay     = time.Hour  // delay_ms
	maxPaceFactor     = 10_000     // slow_tokens
	maxServedName     = 256        // bytes of a model name
	maxRank           = 256        // rank
	maxClockOffset    = 86_400_000 // offset_ms; a day
	readHeaderTimeout = 10 * time.Second
)
