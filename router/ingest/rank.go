package ingest

import (
	"time"

	"github.com/routerfleet/routerfleet/router/kvevents"
)

// State is where a rank stands; the table is in the package documentation.
type State uint8

// The states.
const (
	StateUnknown State = iota
	// Pending: nothing of the stream is applied yet.
	Pending
	// Following: batches are applied as they come.
	Following
	// Proving: the connection was lost or renewed, and whether the stream goes on is being asked.
	Proving
	// Repairing: batches are missing; what came since is held while they are sought.
	Repairing
	// Cold: nothing of the stream is known and nobody is looked for any more; the next batch is the first.
	Cold
	// Forgotten: over.
	Forgotten
	stateEnd
)

var stateNames = [stateEnd]string{"unknown", "pending", "following", "proving", "repairing", "cold", "forgotten"}

// String names the state as metrics do.
func (s State) String() string {
	if s >= stateEnd {
		s = StateUnknown
	}
	return stateNames[s]
}

// How is the way a restart, a redial or the end of a question came about.
type How uint8

// The ways. Those up to HowSettings are restarts: values of the metric label how.
const (
	HowRegress  How = iota // a live batch that is not above the cursor, and later
	HowReplay              // the engine does not repeat our cursor's batch
	HowStart               // another start
	HowEndSeq              // the publisher said so
	HowSettings            // the engine publishes elsewhere
	restartHows
)

const (
	howStale    = restartHows + iota // a batch made long before the cursor's
	howTimeout                       // no answer in time
	howOverflow                      // no room for held batches
	howSilent                        // nobody can be asked
	hows
)

var howNames = [hows]string{"regress", "replay", "start", "end_seq", "settings", "stale", "timeout", "overflow", "silent"}

// String names the way.
func (h How) String() string {
	if h >= hows {
		return "unknown"
	}
	return howNames[h]
}

// Why a rank goes on after a reconnect.
const (
	sameStart = "continues: the same start"
	repeated  = "continues: the engine repeats its last batch"
)

// rankState is all there is to know about one rank but its blocks. It has no goroutine, clock or socket: step takes a
// message and gives what is to be done, in order. Every batch that comes in leaves in exactly one apply or discard.
type rankState struct {
	state    State
	replays  bool // the engine repeats batches
	epoch    uint64
	worker   string
	cursor   Cursor // of Following and Proving
	held     heldBatches
	question question
	start    startState
	// pardoned lets batches pass that are older than the cursor: the connection was redialled because of one, and the
	// new connection brings one too, so the engine's clock was set back.
	pardoned bool
	deadline time.Time // of the question; zero without

	// What follows is for ranks whose siblings can be asked (Options.Bootstrap); see hold.go, graft.go, repair.go.
	boots    bool
	mint     func() uint64 // gives numbers of obligations
	owed     Owed          // Kind 0: nothing
	verdict  Outcome       // what an origin out of reach comes to
	outcome  Outcome
	heard    bool // a batch came since the rank is pending
	retried  bool // a splice that left a hole was tried again
	awaiting *Awaiting
	healed   bool        // the graft that is awaited took the place of nothing that was being booted
	kept     heldBatches // copies of what was applied since Owed.Since
	keeping  bool
	keepTill time.Time
	repair   repairing
	seeded   string
	walkedTo int64
	audit    audit
	tight    bool // memory was short when the last batch came

	tally Tally
	now   time.Time
	out   []effect
}

// question is what an engine was asked to repeat. gen names it; an answer to an older one is dropped.
type question struct {
	gen  uint64
	open bool
	// origin: from 0, for a pending rank. Otherwise from the cursor, for a proving one.
	origin bool
	// tail: from the cursor of a rank that follows; a sibling has heard more (H9).
	tail bool
	// whole: from 0, for a rank that follows and differs from the only sibling it was compared with (B7).
	whole bool
	tries int
	// continued: the start has proved continuity already; the answer is awaited for what was missed meanwhile (H9).
	continued bool
	// empty: the engine has answered that it said nothing so far.
	empty bool
	// mute: the replay, the start have nothing to say.
	muteReplay, muteStart bool
}

// startState is what is known of the engine's start (H2): before is what it said last before the present connection was
// opened, bound what it said both before and after, so what the connection leads to.
type startState struct {
	before, bound Start
	flips         int
	askAt         time.Time
	pause         time.Duration
}

// heldBatches are batches of the present connection that wait for an answer.
type heldBatches struct {
	list  []*kvevents.Batch
	bytes int64
}

func (h *heldBatches) full(b *kvevents.Batch) bool {
	return len(h.list) >= maxHeldBatches || (len(h.list) > 0 && h.bytes+b.Bytes() > maxHeldBytes)
}

func (h *heldBatches) add(b *kvevents.Batch) {
	h.list = append(h.list, b)
	h.bytes += b.Bytes()
}

func (h *heldBatches) take() []*kvevents.Batch {
	list := h.list
	h.list, h.bytes = nil, 0
	return list
}

// Tally counts what happened to a rank. Counters never go back.
type Tally struct {
	Batches    uint64 // applied
	Duplicates uint64 // dropped, because they were applied before
	Late       uint64 // dropped, because their connection is over
	Lost       uint64 // held ones that were dropped with their connection or their life
	Gaps       uint64 // holes that were applied over
	Missing    uint64 // batches in them
	Damaged    uint64 // applied batches of which a part was not understood
	Redials    uint64
	Doubts     uint64 // continuity nobody could vouch for
	Overflows  uint64
	Origins    uint64              // streams known from their first batch
	Restarts   [restartHows]uint64 // by how
	BlindTails uint64              // gaps nobody saw for longer than audits take, because the engine had fallen silent
	Tails      uint64              // gaps without a batch, found by audit
	Repairs    [repairHows]uint64  // gaps that ended, by how
	Heals      uint64              // states replaced by a better one
	Outcomes   [outcomes]uint64
}

// message is what a rank steps on: a closed set.
type message interface{ tell(s *rankState) }

type (
	// opened begins a connection.
	opened struct{ epoch uint64 }
	// closed ends one.
	closed struct{ epoch uint64 }
	// arrived is a live batch. tight says that memory for held batches is short.
	arrived struct {
		epoch uint64
		batch *kvevents.Batch
		tight bool
	}
	// ended is END_SEQ: the publisher shuts down.
	ended struct{ epoch uint64 }
	// replayed answers a replay.
	replayed struct {
		gen    uint64
		result *kvevents.ReplayResult
	}
	// identified answers a question for the engine's start.
	identified struct {
		epoch uint64
		start Start
	}
	// registered (again): the engine was introspected before a connection is opened.
	registered struct {
		start   Start
		replays bool
	}
	// relocated: the engine publishes elsewhere or otherwise than before. No process does that.
	relocated struct{}
	tick      struct{}
	forget    struct{}
)

// effect is what the pump does for a rank: a closed set.
type effect interface{ effect() }

type (
	// apply a batch to the index and release it, unless it is kept.
	apply struct {
		batch *kvevents.Batch
		keep  bool
	}
	// discard releases a batch.
	discard struct{ batch *kvevents.Batch }
	// clear what the rank holds.
	clearAll struct{}
	// distrust says whether the rank's blocks count as far as they are contiguous only.
	distrust struct{ is bool }
	// redial closes the connection of an epoch.
	redial struct {
		epoch uint64
		why   How
	}
	// askReplay has the engine repeat its batches from a seq on.
	askReplay struct {
		gen  uint64
		from int64
		wait time.Duration
	}
	// dropReplay says that nobody waits for the answer any more.
	dropReplay struct{ gen uint64 }
	// askStart asks the engine for its start.
	askStart struct{ epoch uint64 }
	// drop the rank.
	drop struct{}
	// moved reports a transition for the log.
	moved struct {
		from, to State
		why      string
	}
	// noted reports something else for the log.
	noted struct{ what, why string }
)

func (apply) effect()      {}
func (discard) effect()    {}
func (clearAll) effect()   {}
func (distrust) effect()   {}
func (redial) effect()     {}
func (askReplay) effect()  {}
func (dropReplay) effect() {}
func (askStart) effect()   {}
func (drop) effect()       {}
func (moved) effect()      {}
func (noted) effect()      {}

// newRankState gives a rank of a worker whose identity across replicas is id. mint numbers obligations and may be nil if
// there are none to be: siblings cannot be asked.
func newRankState(id string, mint func() uint64) *rankState {
	return &rankState{worker: id, boots: mint != nil, mint: mint}
}

// step takes one message. The effects are valid until the next step.
func (s *rankState) step(now time.Time, m message) []effect {
	clear(s.out)
	s.now, s.out = now, s.out[:0]
	if s.state == Forgotten {
		s.refuse(m)
	} else {
		m.tell(s)
		s.settleOwed()
	}
	s.check()
	return s.out
}

// refuse releases what a message for a forgotten rank brings.
func (s *rankState) refuse(m message) {
	switch m := m.(type) {
	case *arrived:
		s.discard(m.batch)
	case replayed:
		s.discardReplay(m.result)
	}
}

func (s *rankState) do(e effect) { s.out = append(s.out, e) }

func (s *rankState) discard(b *kvevents.Batch) { s.do(discard{b}) }

func (s *rankState) discardReplay(r *kvevents.ReplayResult) {
	for _, b := range r.Batches {
		s.discard(b.Batch)
	}
	r.Batches = nil
}

func (s *rankState) become(to State, why string) {
	if s.state != to {
		s.do(moved{s.state, to, why})
		s.state = to
	}
}

// prove sets the cursor's proof, and tells the index when that begins or ceases to be trusted.
func (s *rankState) prove(p Proof) {
	was := s.cursor.Proof == Untrusted
	s.cursor.Proof = p
	if is := p == Untrusted; is != was {
		s.do(distrust{is})
	}
}
