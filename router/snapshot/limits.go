package snapshot

import "time"

// Limits of what is read. They bound memory for any input.
const (
	// maxBodyBytes bounds a body on the wire and inflated (reference 4.2).
	maxBodyBytes = 4 << 30
	// maxFrameBytes bounds a frame's payload. One block with all 65,536 ranks an index can know, each with its hash, has
	// 900,000 bytes.
	maxFrameBytes = 1 << 20
	// maxSections bounds the sections of a body: models times schemes times block sizes.
	maxSections = 1024
	// maxRows bounds the ranks of all sections of a body: as many as an index can know.
	maxRows = 1 << 16
	// maxRowBytes bounds one row; its five texts are bounded by maxText.
	maxRowBytes = 8 << 10
	// maxTableBytes bounds all that stands before the first chunk: 65,536 rows of 250 bytes, twice.
	maxTableBytes = 32 << 20
	// maxText bounds names: UIDs have 36 bytes, URLs and models some hundred.
	maxText = 1024
	// maxChunkHoldings bounds the carriers of all blocks of a chunk where each brings a hash.
	maxChunkHoldings = 1 << 17
	// maxCursorBytes bounds an answer to cursors_only: all rows in JSON.
	maxCursorBytes = 64 << 20
	// maxRefusalBytes bounds the body of an answer that is no snapshot.
	maxRefusalBytes = 64 << 10
	// maxNodes1 bounds the records of a format 1 body. All keys of a body are kept while it is read, 8 bytes each.
	maxNodes1 = 1 << 27
	// maxRecordCarriers bounds the carriers of one record of format 1.
	maxRecordCarriers = maxRows
)

const (
	// frameBytes is what a producer fills a frame to, head and checksum included: eight pages of memory, in which builds
	// are kept. 64 kB are some 8,000 blocks, half a millisecond of a pump's time.
	frameBytes = 64 << 10
	// maxSets bounds the carrier sets defined in one chunk.
	maxSets = MaxChunkNodes
)

// Limits of what a producer does.
const (
	// bodiesAtOnce are served at a time (B2); others get 503.
	bodiesAtOnce = 4
	// retryAfter is what they are told.
	retryAfter = time.Second
	// defaultMaxAge is that of a request that names none (reference 4.2).
	defaultMaxAge = 2 * time.Second
	// keepBuild is how long a build is kept for requests that accept its age: the longest any boot waits. It takes a
	// quarter of its index.
	keepBuild = 60 * time.Second
	// buildLimit ends a build whose source does not answer.
	buildLimit = 60 * time.Second
	// walkAtOnce is how many blocks are walked between two looks at the context.
	walkAtOnce = 1 << 16
	// maxAskedRanks bounds ?ranks=. Who wants more asks for all.
	maxAskedRanks = 512
	// writeIdle ends a body whose reader takes nothing.
	writeIdle = 60 * time.Second
)

// Limits of a client (reference 4.2).
const (
	connectTimeout = 10 * time.Second
	idleTimeout    = 60 * time.Second
	// firstRead is how much is read of an upstream body before its size is known to matter.
	readBuffer = 256 << 10
)
