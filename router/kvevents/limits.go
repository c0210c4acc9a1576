package kvevents

import "time"

const (
	// maxEventHashes bounds the block hashes of one event, from the wire description of the engines. Events that were
	// joined stay below it too.
	maxEventHashes = 65_536

	// maxBatchHashes bounds the block hashes of one batch. With their chunks they take 4 MiB, a lane's whole room.
	maxBatchHashes = 262_144

	// maxBatchEvents bounds the events of one batch. SGLang with a page of one token announces one event a token and
	// computes some 16,384 tokens a step.
	maxBatchEvents = 65_536

	// maxBlockTokens bounds the tokens of one block, so that one block can be buffered. Hybrid models of vLLM pad their
	// attention blocks to a few thousand.
	maxBlockTokens = 65_536

	// maxNameBytes bounds a LoRA name or a cache salt.
	maxNameBytes = 1024

	// maxExtraBytes and maxExtraDepth bound the extra keys of one block.
	maxExtraBytes = 16 << 10
	maxExtraDepth = 8

	// maxGroup is the largest KV cache group index; hybrid models have a handful.
	maxGroup = 65_535

	// internedNames bounds the names a decoder keeps so that each is allocated once; beyond it it starts anew.
	internedNames = 1024

	// keptSlabBytes bounds what each array of a released batch may keep for the next one.
	keptSlabBytes = 16 << 10
)

// Queue sizes, from the wire description: a lane holds so much, all lanes and held batches of a process together so much.
const (
	LaneBatches   = 1024
	LaneBytes     = 4 << 20
	DefaultBudget = 256 << 20
)

// Limits of a replay where ReplayOptions leaves a field zero.
const (
	// DefaultReplayBatches is above the 10,000 batches engines keep by default (buffer_steps).
	DefaultReplayBatches = 16_384
	// DefaultReplayBytes bounds the decoded batches of one replay, which also count towards the budget.
	DefaultReplayBytes = 64 << 20
	// DefaultReplayIdle is how long the engine may say nothing, DefaultReplayTotal how long it may talk.
	DefaultReplayIdle  = 2 * time.Second
	DefaultReplayTotal = 10 * time.Second
)

// Limits of an engine's event settings.
const (
	minPort      = 1024
	maxPort      = 65_535
	maxDPSize    = 256
	maxTopic     = 256
	maxHostBytes = 253 // a DNS name
	// maxCapacityTokens is far beyond any cache, and far from overflow.
	maxCapacityTokens = 1 << 40
)
