package bootstrap

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/peers"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// world is what is true now: everything a step sees but the answers to its own questions.
type world struct {
	ranks []Rank
	set   peers.Set
	// upstream are routers of another kind that may teach once (migration mode).
	upstream peers.Set
	// complete says that every engine there is was asked for its events.
	complete bool
}

// action is what a step wants done: a closed set.
type action interface{ isAction() }

type (
	// doSurvey asks peers for their tables; every one of them is answered.
	doSurvey struct {
		id    int
		peers []peers.Peer
	}
	// doFetch brings blocks of ranks from a peer to the pump.
	doFetch struct {
		slot    slot
		peer    peers.Peer
		want    snapshot.Want
		asked   map[index.Rank]uint64 // rank -> epoch
		late    map[index.Rank]bool   // ranks that may ride along
		timeout time.Duration
		foreign bool // an upstream router
	}
	doAbandon struct {
		why   ingest.AbandonWhy
		ranks []ingest.RankEpoch
	}
	doKeep    struct{ ranks []ingest.RankEpoch }
	doWitness struct {
		at        ingest.RankEpoch
		watermark cursor.Cursor
		testimony ingest.Testimony
	}
	doSuspect struct {
		rank index.Rank
		at   cursor.Cursor
		how  ingest.Suspicion
	}
	doEqual struct {
		rank index.Rank
		at   cursor.Cursor
	}
	doBehind struct {
		rank        index.Rank
		at, sibling cursor.Cursor
	}
)

func (doSurvey) isAction()  {}
func (doFetch) isAction()   {}
func (doAbandon) isAction() {}
func (doKeep) isAction()    {}
func (doWitness) isAction() {}
func (doSuspect) isAction() {}
func (doEqual) isAction()   {}
func (doBehind) isAction()  {}

// input is an answer to a question of the machine's: a closed set. nil is a look at the world alone.
type input interface {
	take(m *machine, now time.Time)
}

type (
	// answered is one peer's part of a survey.
	answered struct {
		survey int
		peer   string // Peer.ID
		table  *snapshot.Table
		err    error
	}
	// fetched is what came of a fetch.
	fetched struct {
		slot    slot
		results []ingest.GraftResult
		left    map[index.Rank]snapshot.Reason
		table   *snapshot.Table // nil if none was read
		err     error
	}
)

// slot is one of the fetches that may run at a time.
type slot uint8

const (
	slotBoot slot = iota
	slotRepair
	slots
)

// fetching is a fetch under way.
type fetching struct {
	doFetch
	started time.Time
	memory  *memory // nil for an upstream router
	heals   bool
}

// machine is all of the coordinator's policy: plain state that one goroutine at a time steps.
type machine struct {
	opt     Options
	log     *slog.Logger
	metrics *metrics
	rand    *rand.Rand
	track   *tracker

	world
	byRank   map[index.Rank]*Rank
	mem      map[index.Rank]*rankMemory
	peers    map[string]*memory
	survey   *survey
	surveyNo int
	surveyAt time.Time // when the last one began
	slots    [slots]*fetching
	sweep    *sweep

	nextAudit time.Time
	auditPeer string
	dispute   map[index.Rank]disputed
	repairs   []time.Time // audit repairs begun within auditWindow

	// lostAt is when a rank last lost what it held without a restart.
	lostAt time.Time
	// sourceSince is the age of the oldest content that was grafted.
	sourceSince time.Time
	heldSince   time.Time

	actions []action
}

// rankMemory is what is remembered of one rank.
type rankMemory struct {
	// bootDeadline is when its boot is given up; zero while it does not boot.
	bootDeadline time.Time
	// gaveUp is the obligation that was abandoned last, and why; done one that was met, which the view may not show yet.
	gaveUp    uint64
	gaveUpWhy ingest.AbandonWhy
	done      uint64

	probeEpoch uint64
	probeAt    time.Time

	repairEpoch   uint64
	repairAt      time.Time
	repairSurveys int

	healAt    time.Time
	healPause time.Duration

	// behindAt is the seq at which the last audit found a sibling ahead; -1 if it did not.
	behindAt int64

	// named is what siblings said they hold of it, by peer.
	named map[string]naming
	// since is since when it holds something in this life.
	since time.Time
	life  uint64
	// good says that it was recovered when last looked at; counted is the outcome that was counted.
	good    bool
	counted ingest.Outcome
}

type naming struct {
	row   snapshot.TableRow
	since time.Time // the peer's SeedableSince
}

func newMachine(o Options, m *metrics, now time.Time) *machine {
	return &machine{
		opt: o, log: o.Log, metrics: m, rand: rand.New(rand.NewPCG(o.Rand(), o.Rand())),
		track:  newTracker(true, o.SeedRequired, o.Timeout, now),
		byRank: map[index.Rank]*Rank{}, mem: map[index.Rank]*rankMemory{}, peers: map[string]*memory{},
		nextAudit: now.Add(auditEvery),
	}
}

// step takes the world and an answer, and gives what is to be done.
func (m *machine) step(now time.Time, w world, in input) []action {
	m.see(now, w)
	if in != nil {
		in.take(m, now)
	}
	m.sweepStep(now)
	m.repairStep(now)
	m.healStep(now)
	m.probeStep()
	m.auditStep(now)
	m.surveyStep(now)
	out := m.actions
	m.actions = nil
	return out
}

func (m *machine) do(a action) { m.actions = append(m.actions, a) }

// pause is how long the world may go unlooked at if nothing wakes the coordinator.
func (m *machine) pause(now time.Time) time.Duration {
	switch {
	case m.survey == nil && m.due(now) != 0:
		return surveyEvery
	case m.sweep != nil || m.survey != nil:
		return passEvery
	default:
		return idleEvery
	}
}

// see takes over the world and forgets what is not in it any more.
func (m *machine) see(now time.Time, w world) {
	appeared := m.seePeers(w.set)
	m.world = w
	m.byRank = make(map[index.Rank]*Rank, len(w.ranks))
	for i := range m.ranks {
		r := &m.ranks[i]
		m.byRank[r.Rank] = r
		if m.mem[r.Rank] == nil {
			m.mem[r.Rank] = &rankMemory{behindAt: -1, named: map[string]naming{}}
		}
		m.remember(now, r, m.mem[r.Rank])
		if mem := m.mem[r.Rank]; appeared && !mem.healAt.IsZero() {
			mem.healAt = earlier(mem.healAt, now.Add(newPeerHeal))
		}
	}
	for id := range m.mem {
		if m.byRank[id] == nil {
			delete(m.mem, id)
		}
	}
	m.track.observe(now, m.ranks, w.complete)
	for i := range m.ranks {
		m.setDeadline(now, &m.ranks[i])
	}
	m.age(now)
}

// setDeadline notes when a rank's boot is given up: with that of the replica, or in a time of its own if it came later.
func (m *machine) setDeadline(now time.Time, r *Rank) {
	mem := m.mem[r.Rank]
	switch {
	case !r.boots():
		mem.bootDeadline = time.Time{}
	case !mem.bootDeadline.IsZero():
	case m.track.settled(now):
		mem.bootDeadline = now.Add(m.opt.Timeout)
	default:
		mem.bootDeadline = m.track.deadline
	}
}

// seePeers takes over the peers, and tells whether there is a new one.
func (m *machine) seePeers(set peers.Set) (appeared bool) {
	there := map[string]bool{}
	for _, p := range set.Peers {
		there[p.ID] = true
		if known := m.peers[p.ID]; known != nil {
			known.peer = p
			continue
		}
		m.peers[p.ID] = &memory{peer: p}
		appeared = true
	}
	for id := range m.peers {
		if !there[id] {
			delete(m.peers, id)
			for _, mem := range m.mem {
				delete(mem.named, id)
			}
		}
	}
	return appeared
}

// remember notes what changed of a rank.
func (m *machine) remember(now time.Time, r *Rank, mem *rankMemory) {
	if r.Life != mem.life {
		mem.life, mem.since = r.Life, time.Time{}
	}
	if r.Blocks > 0 && mem.since.IsZero() && r.begun() {
		mem.since = now
	}
	good := r.recovered()
	if mem.good && !good && (r.begun() && r.Cursor.Proof == cursor.Untrusted || r.Outcome == ingest.OutcomeOverflow || r.Outcome == ingest.OutcomeTreeRejected) {
		m.lostAt = now
	}
	mem.good = good
	if r.Outcome != mem.counted {
		mem.counted = r.Outcome
		if r.Outcome != ingest.OutcomeNone {
			m.metrics.outcome(r.Outcome)
		}
	}
	if !r.owes(ingest.OwedHeal) {
		mem.healAt, mem.healPause = time.Time{}, 0
	}
	if !r.owes(ingest.OwedRepair) {
		mem.repairEpoch = 0
	}
}

// age keeps since when content is held.
func (m *machine) age(now time.Time) {
	holds := false
	for i := range m.ranks {
		holds = holds || m.ranks[i].begun() && m.ranks[i].Blocks > 0
	}
	switch {
	case !holds:
		m.heldSince, m.sourceSince = time.Time{}, time.Time{}
	case m.heldSince.IsZero():
		m.heldSince = now
	}
}

// abandon gives ranks up, each obligation once for the same reason.
func (m *machine) abandon(why ingest.AbandonWhy, ranks ...*Rank) {
	var list []ingest.RankEpoch
	for _, r := range ranks {
		mem := m.mem[r.Rank]
		if mem.gaveUp == r.Owed.Epoch && mem.gaveUpWhy == why {
			continue
		}
		mem.gaveUp, mem.gaveUpWhy = r.Owed.Epoch, why
		list = append(list, r.at())
	}
	if len(list) > 0 {
		m.do(doAbandon{why, list})
		m.log.Info("ranks given up", "ranks", len(list), "why", why.String(), "peers", len(m.set.Peers))
	}
}

// candidates are the peers in the order of asking, as they are remembered.
func (m *machine) candidates() []*memory {
	list := m.set.Candidates(m.rand.Shuffle)
	out := make([]*memory, 0, len(list))
	for _, p := range list {
		out = append(out, m.peers[p.ID])
	}
	return out
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// jittered gives d plus or minus a quarter.
func (m *machine) jittered(d time.Duration) time.Duration {
	return d - d/4 + time.Duration(m.rand.Int64N(int64(d/2)+1))
}
