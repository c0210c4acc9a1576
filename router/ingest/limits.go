package ingest

import "time"

// Held batches of one rank, from peer-bootstrap B4 and B5; all ranks together share the budget of package kvevents.
const (
	maxHeldBatches = 1024
	maxHeldBytes   = 4 << 20
)

const (
	// proveFor is how long a rank's continuity is asked after (B5).
	proveFor = 10 * time.Second
	// pendFor is how long a rank waits for a replay from 0: a bootstrap's budget (B14). Replays wait for each other.
	pendFor = 60 * time.Second
	// askOriginAgain is the pause before a replay from 0 is asked again because it overlaps nothing held, and
	// maxOriginTries how often (H7).
	askOriginAgain = 300 * time.Millisecond
	maxOriginTries = 3
	// An engine that does not answer for its start is asked again after startPause, doubling to maxStartPause.
	startPause    = time.Second
	maxStartPause = 30 * time.Second
	// maxStartFlips is how often in a row the start may differ before and after a connection was opened. Beyond it the
	// engine is taken to have none: a metrics page that several processes answer in turn would have us redial for ever.
	maxStartFlips = 3
	// tickEvery is the pump's clock (B14).
	tickEvery = time.Second
)

// Bootstrap and repair.
const (
	// repairFor is how long a gap is sought to be filled, in all (B4).
	repairFor = 15 * time.Second
	// keepFor is how long copies are kept for one attempt to heal: the cap of one fetch (B14).
	keepFor = 2 * time.Minute
	// maxUnknown is how often nobody may know whether a seam is whole before it is taken as it is (4.11).
	maxUnknown = 3
	// auditsApart tells two audits from one that asks several siblings; they are 60 s apart, jittered.
	auditsApart = 10 * time.Second
	// blindAfter is the age of a gap that audits had the time to find.
	blindAfter = 2 * time.Minute
	// auditRepairs and auditWindow bound the repairs audits begin, of all ranks together (B7).
	auditRepairs = 2
	auditWindow  = time.Minute
)

// Limits of replays (B4): the engine answers from the thread that publishes.
const (
	maxReplays      = 8
	replayJitter    = 500 * time.Millisecond
	replayCoolDown  = 30 * time.Second
	replaysAnEngine = 1
)

// Limits of what a rank of the tokens scheme remembers.
const (
	// maxOrphans bounds the blocks whose parent is not known (kv-events 4).
	maxOrphans = 65_536
	// maxMapped bounds the engine hashes a rank may have a key for. 4 Mi blocks of 16 tokens are ten times what the
	// device and host memory of today's largest engine hold; they take some 100 MB.
	maxMapped = 4 << 20
)

// maxGroups bounds the KV cache groups of a rank; hybrid models have a handful.
const maxGroups = 64

// A rank is suspect if within suspectWindow more than one in suspectShare of its stores contradict what is known, and
// suspectLeast at least (index.md 9).
const (
	suspectWindow = time.Minute
	suspectShare  = 1000
	suspectLeast  = 64
)

// Shares of the pump's time.
const (
	// drainAtOnce is how many deliveries are taken before control messages, answers and the clock get their turn.
	drainAtOnce = 256
	// drainBlocks ends such a turn early: batches of a flood have 65,536 blocks each, and the rest must not wait for 256 of
	// those. 16,384 blocks are some 4 ms.
	drainBlocks = 16_384
	// workBudget is what an index may do at a time, in slots: well below 1 ms (see index.Work).
	workBudget = 8192
)
