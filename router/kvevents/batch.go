package kvevents

import (
	"sync"
	"time"
	"unsafe"

	"github.com/routerfleet/routerfleet/router/index"
)

// EndSeq is the sequence number that ends a replay. On a PUB stream it says that the publisher shuts down.
const EndSeq = int64(-1)

// NoRank is Batch.Rank of a batch that names no data-parallel rank.
const NoRank = int32(-1)

// NoGroup is the group of a block whose engine names none: models with one kind of attention.
const NoGroup = int32(-1)

// Stamp is a moment by the engine's clock, in nanoseconds since the Unix epoch. 0 is unknown. Equal bytes on the wire
// give equal stamps on every replica.
type Stamp int64

// Sub gives the time from earlier to s.
func (s Stamp) Sub(earlier Stamp) time.Duration { return time.Duration(s - earlier) }

// Time gives the stamp as a time.
func (s Stamp) Time() time.Time { return time.Unix(0, int64(s)) }

// Hash is a block hash as the engine gives it: the bits of an integer, or the last eight bytes, big-endian, of a byte
// string. Form tells which; hashes of two forms never name the same block of a rank.
type Hash uint64

// Key takes the hash for an index key: schemes sglang and vllm-sha256-cbor.
func (h Hash) Key() index.Key { return index.Key(h) }

// Form is how an engine writes block hashes. All hashes of one event have one form.
type Form uint8

// The forms. NoForm is that of an event without hashes.
const (
	NoForm Form = iota
	IntegerForm
	BytesForm
)

// Batch is one message of an engine. It is valid until Release.
type Batch struct {
	Seq    int64
	Time   Stamp   // when the engine made it
	Rank   int32   // what the engine says its rank is, or NoRank; the socket it came from decides
	Hash   uint64  // XXH3-64 of the payload: tells a repetition from another batch with the same seq
	Events []Event // in the engine's order

	// Skips counts the events that are not in Events, by reason.
	Skips Skips

	// The arrays Events points into. They grow while a batch is decoded; slices of an array that was left behind stay
	// valid, because nothing in them changes once an event is complete.
	hashes  []Hash
	chunks  []index.Chunk
	stored  []Stored
	removed []Removed

	budget  *Budget
	charged int64
}

// Event is *Stored, *Removed or *Cleared.
type Event interface{ event() }

// Stored says that a rank now holds blocks.
type Stored struct {
	// Hashes are the blocks. If the engine names a parent or sends tokens they are a chain: each follows the one before
	// it, the first follows Parent. Without parent and tokens (vLLM's offloading) they are a set of blocks the engine has
	// announced before.
	Hashes []Hash
	// Parent is what the first block follows, if HasParent; otherwise the chain begins at the root.
	Parent Hash
	// Chunks has one entry a block in the tokens scheme if the engine sent tokens, and is empty otherwise.
	Chunks []index.Chunk
	// Tokens counts the token ids (or pairs) the engine sent.
	Tokens int

	LoRA      string // name of the adapter, "#n" if only its number is known, empty without one
	CacheSalt string // set with the first block of a salted chain at least
	BlockSize int32  // tokens a block; the last block of a chain may have fewer
	Group     int32  // KV cache group, or NoGroup
	Window    int32  // the group's sliding window in tokens, 0 without one
	Joined    int32  // how many events of the engine this one was joined from

	Medium    Medium
	GroupKind GroupKind
	Form      Form
	HasParent bool
}

// Removed says that a rank no longer holds blocks.
type Removed struct {
	Hashes []Hash
	Group  int32 // or NoGroup
	Joined int32 // how many events of the engine this one was joined from
	Medium Medium
	Form   Form
}

// Cleared says that a rank holds nothing any more.
type Cleared struct{}

func (*Stored) event()  {}
func (*Removed) event() {}
func (*Cleared) event() {}

// cleared is the only Cleared there need be.
var cleared = &Cleared{}

// Set tells that Hashes are no chain; see there.
func (s *Stored) Set() bool { return !s.HasParent && s.Tokens == 0 && len(s.Hashes) > 1 }

// Untrusted tells that the engine said something in this batch that is not in Events: from here on the rank's blocks may
// be other than we think, until a reset, a clear or a repair.
func (b *Batch) Untrusted() bool { return b.Skips != Skips{} }

// Bytes is the memory the batch takes.
func (b *Batch) Bytes() int64 {
	return int64(unsafe.Sizeof(*b)) +
		slabBytes(b.Events) + slabBytes(b.hashes) + slabBytes(b.chunks) + slabBytes(b.stored) + slabBytes(b.removed)
}

func slabBytes[T any](s []T) int64 {
	var zero T
	return int64(cap(s)) * int64(unsafe.Sizeof(zero))
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// Release gives the batch's memory and budget back. Neither it nor anything reached through it may be used afterwards. A
// batch that is never released costs its share of the budget for ever.
func (b *Batch) Release() {
	if b.budget != nil {
		b.budget.release(b.charged)
		b.budget, b.charged = nil, 0
	}
	b.reset()
	keep(&b.Events)
	keep(&b.hashes)
	keep(&b.chunks)
	keep(&b.stored)
	keep(&b.removed)
	batches.Put(b)
}

// reset empties the batch and keeps its arrays.
func (b *Batch) reset() {
	b.Seq, b.Time, b.Rank, b.Hash, b.Skips = 0, 0, NoRank, 0, Skips{}
	clear(b.Events) // they point into arrays that may have been left behind
	clear(b.stored) // and these hold names
	b.Events, b.hashes, b.chunks = b.Events[:0], b.hashes[:0], b.chunks[:0]
	b.stored, b.removed = b.stored[:0], b.removed[:0]
}

func keep[T any](s *[]T) {
	if slabBytes(*s) > keptSlabBytes {
		*s = nil
	}
}

// Skip is why something an engine said is not in a batch.
type Skip int

// The reasons.
const (
	SkipUnknownEvent Skip = iota // an event of a kind we do not know
	SkipUndecodable              // an event of a known kind whose fields are not what they should be
	SkipTooLarge                 // an event beyond the limits
	SkipTooMany                  // events beyond the limits of a batch
	SkipTorn                     // the payload, from where it stopped being MessagePack
	skipReasons
)

// String names the reason as metrics do.
func (s Skip) String() string {
	switch s {
	case SkipUnknownEvent:
		return "unknown_event"
	case SkipUndecodable:
		return "undecodable"
	case SkipTooLarge:
		return "too_large"
	case SkipTooMany:
		return "too_many"
	case SkipTorn:
		return "torn"
	default:
		return "unknown"
	}
}

// Skips counts by reason.
type Skips [skipReasons]int32
