package publish

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// FaultName is one of the faults below; the set is closed.
type FaultName string

// Faults of single batches: the next Batches of them suffer, or all until the
// fault is removed.
const (
	Drop         FaultName = "kv_drop"          // takes a seq, is neither sent nor kept
	Lose         FaultName = "kv_lose"          // kept for replay, not sent
	Duplicate    FaultName = "kv_duplicate"     // sent twice
	BadFrames    FaultName = "kv_frames"        // sent in Frames frames
	ShortSeq     FaultName = "kv_short_seq"     // sent with a seq of 4 bytes
	Garbage      FaultName = "kv_garbage"       // Bytes bytes that are no MessagePack
	Torn         FaultName = "kv_torn"          // the first half of the payload
	Pairs        FaultName = "kv_pairs"         // token ids as pairs
	LongTokens   FaultName = "kv_long_tokens"   // Count token ids too many in stored events
	LongHashes   FaultName = "kv_long_hashes"   // an event more, of Count made-up blocks
	UnknownEvent FaultName = "kv_unknown_event" // an event more, of an unknown kind
	UnknownField FaultName = "kv_unknown_field" // a field more in each event
	WrongBlock   FaultName = "kv_block_size"    // stored events name BlockSize
	WrongRank    FaultName = "kv_wrong_rank"    // the batch names DPRank
	Contradict   FaultName = "kv_contradict"    // a block more, which it stores, gets a second parent
	Cycle        FaultName = "kv_cycle"         // two blocks more, each other's parents
)

// Faults that last until they are removed.
const (
	Hang           FaultName = "kv_hang"            // nothing is published or replayed; what was kept back follows
	Clock          FaultName = "kv_clock"           // the engine's clock is off by Offset
	ForeignGroup   FaultName = "kv_foreign_group"   // a sliding-window group publishes the same blocks
	Copies         FaultName = "kv_copies"          // blocks are stored twice, and one copy removed at once
	ReplayReorder  FaultName = "kv_replay_reorder"  // newest first
	ReplaySlow     FaultName = "kv_replay_slow"     // Delay before each answer
	ReplayTruncate FaultName = "kv_replay_truncate" // AfterBatches batches and no terminator
	ReplaySilent   FaultName = "kv_replay_silent"   // no answer at all
	LoadSilent     FaultName = "kv_load_silent"     // no load gauge
	Advertise      FaultName = "kv_advertise"       // lies in the advertisement
)

var batchFaults = []FaultName{Drop, Lose, Duplicate, BadFrames, ShortSeq, Garbage, Torn, Pairs, LongTokens, LongHashes,
	UnknownEvent, UnknownField, WrongBlock, WrongRank, Contradict, Cycle}

var standingFaults = []FaultName{Hang, Clock, ForeignGroup, Copies, ReplayReorder, ReplaySlow, ReplayTruncate, ReplaySilent,
	LoadSilent, Advertise}

// Known tells whether the fault exists, and whether it is one of single batches.
func (n FaultName) Known() (known, ofBatches bool) {
	ofBatches = slices.Contains(batchFaults, n)
	return ofBatches || slices.Contains(standingFaults, n), ofBatches
}

// Params are what a fault may need to know, as the control API takes them.
type Params struct {
	Rank         *int   `json:"rank,omitempty"`          // nil: every rank
	Batches      int    `json:"batches,omitempty"`       // over all ranks; 0: until removed
	AfterBatches int    `json:"after_batches,omitempty"` // answers of a replay before it breaks off
	Count        int    `json:"count,omitempty"`         // blocks or tokens
	Bytes        int    `json:"bytes,omitempty"`
	Frames       int    `json:"frames,omitempty"`
	BlockSize    int    `json:"block_size,omitempty"`
	DPRank       int    `json:"dp_rank,omitempty"`
	DPSize       int    `json:"dp_size,omitempty"`
	EventPort    int    `json:"event_port,omitempty"`
	OffsetMillis int    `json:"offset_ms,omitempty"` // of the engine's clock
	Host         string `json:"host,omitempty"`
}

// Fault is a fault with its parameters. Those it does not know are ignored.
type Fault struct {
	Name  FaultName
	Delay time.Duration
	Params
}

func (f Fault) hits(rank int) bool { return f.Rank == nil || *f.Rank == rank }

// faultSet is the faults that are on. Ranks ask it; Publisher.Set writes it.
type faultSet struct {
	some atomic.Bool // whether active has any: spares calm ranks the lock

	mu     sync.Mutex // guards both; held for a scan of a few entries
	active []Fault
	used   map[FaultName]int64 // how often each took effect
}

func newFaultSet() *faultSet { return &faultSet{used: map[FaultName]int64{}} }

// set switches f on, in place of an active fault of its name.
func (s *faultSet) set(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = slices.DeleteFunc(s.active, func(g Fault) bool { return g.Name == f.Name })
	s.active = append(s.active, f)
	s.some.Store(true)
}

// remove switches the faults off for which gone holds.
func (s *faultSet) remove(gone func(FaultName) bool) (removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.active)
	s.active = slices.DeleteFunc(s.active, func(f Fault) bool { return gone(f.Name) })
	s.some.Store(len(s.active) > 0)
	return len(s.active) < before
}

// hangs tells whether a rank hangs, which nothing uses up.
func (s *faultSet) hangs(rank int) bool {
	if !s.some.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.active, func(f Fault) bool { return f.Name == Hang && f.hits(rank) })
}

// use returns a fault that is on for a rank, counts that it took effect, and ends
// it when that was the last batch it was set for.
func (s *faultSet) use(name FaultName, rank int) (Fault, bool) {
	if !s.some.Load() {
		return Fault{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.active, func(f Fault) bool { return f.Name == name && f.hits(rank) })
	if i < 0 {
		return Fault{}, false
	}
	s.used[name]++
	f := s.active[i]
	switch f.Batches {
	case 0:
	case 1:
		s.active = slices.Delete(s.active, i, i+1)
		s.some.Store(len(s.active) > 0)
	default:
		s.active[i].Batches--
	}
	return f, true
}

// list returns the active faults and how often each fault took effect, copied.
func (s *faultSet) list() ([]Fault, map[FaultName]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := make(map[FaultName]int64, len(s.used))
	for name, n := range s.used {
		used[name] = n
	}
	return slices.Clone(s.active), used
}

// check refuses what no publisher of so many ranks can do.
func (f Fault) check(ranks int) error {
	if known, _ := f.Name.Known(); !known {
		return fmt.Errorf("event fault %q does not exist", f.Name)
	}
	return checkRank(f.Rank, ranks)
}

func checkRank(rank *int, ranks int) error {
	if rank != nil && (*rank < 0 || *rank >= ranks) {
		return fmt.Errorf("rank: %d, this engine has ranks 0 to %d", *rank, ranks-1)
	}
	return nil
}
