package workers

import "time"

// Limits on what an engine may tell about itself. An engine is trusted to serve, not to be sane.
const (
	// maxFactsBytes bounds the body of /server_info and /v1/models. SGLang's server_info is about 10 kB.
	maxFactsBytes = 1 << 20
	// maxModels bounds the models of one worker (adapters count as models).
	maxModels = 1024
	// maxModelIDBytes bounds one model id; ids are model paths or repository names.
	maxModelIDBytes = 512
	// maxDPSize bounds the data-parallel ranks of one worker: kv-events, item 5.
	maxDPSize = 256
)

// Budgets of the questions put to an engine. Source of the first three: the introspection client of the reference.
const (
	askTimeout   = 2 * time.Second
	askAttempts  = 3
	askBackOff   = 100 * time.Millisecond // doubles
	probeTimeout = 5 * time.Second        // generous: a busy engine answers /health late
	// maxQuestions bounds introspections and probes under way at one time.
	maxQuestions = 32
)
