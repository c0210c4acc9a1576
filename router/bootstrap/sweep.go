package bootstrap

import (
	"slices"
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/peers"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// sweep is one search for what ranks that boot may be grafted from. It lasts while there are any.
type sweep struct {
	started  time.Time
	nextPass time.Time
	passes   int
	// found says that something was grafted; result is what it ends with otherwise.
	found  bool
	result SweepResult
	// met says that there was a candidate at some time.
	met bool
	// foreign says that the one attempt at an upstream router was made.
	foreign bool
}

// sweepStep looks after the ranks that boot.
func (m *machine) sweepStep(now time.Time) {
	wanted := m.booting()
	if len(wanted) == 0 {
		m.endSweep(now)
		return
	}
	if m.sweep == nil {
		m.sweep = &sweep{started: now, nextPass: now, result: SweepRanksResolved}
		for _, p := range m.peers {
			p.rejected, p.coolingFor, p.strikes, p.misses = false, 0, 0, nil
		}
		m.log.Info("sweep began", "ranks", len(wanted), "peers", len(m.set.Peers), "synced", m.set.Synced)
	}
	m.sweep.met = m.sweep.met || len(m.set.Peers) > 0 || len(m.upstream.Peers) > 0
	late := slices.DeleteFunc(slices.Clone(wanted), func(r *Rank) bool { return now.Before(m.mem[r.Rank].bootDeadline) })
	if len(late) > 0 {
		m.sweep.result = SweepTimedOut
		m.abandon(ingest.AbandonTimedOut, late...)
	}
	if m.set.Alone() && m.upstreamGone() {
		m.sweep.result = SweepNoPeers
		m.abandon(ingest.AbandonNoPeers, wanted...)
		return
	}
	m.fetchForSweep(now, wanted)
}

// booting are the ranks that wait for their first state.
func (m *machine) booting() (out []*Rank) {
	for i := range m.ranks {
		if m.ranks[i].boots() {
			out = append(out, &m.ranks[i])
		}
	}
	return out
}

// endSweep records what came of a sweep, once. Ranks that left before a sweep could begin count, too: readiness that waits
// for a seed waits for a report.
func (m *machine) endSweep(now time.Time) {
	if s := m.sweep; s != nil {
		if m.slots[slotBoot] != nil {
			return // what it comes to is the sweep's
		}
		m.sweep = nil
		result := s.result
		if s.found {
			result = SweepFound
		}
		m.track.record(result, s.met)
		m.metrics.swept(result)
		m.log.Info("sweep ended", "result", result.String(), "passes", s.passes, "took", now.Sub(s.started).String())
		return
	}
	if len(m.ranks) > 0 && m.track.swept == SweepNone && m.track.pending() == 0 {
		m.track.record(SweepRanksResolved, false)
		m.metrics.swept(SweepRanksResolved)
	}
}

// fetchForSweep begins the next fetch. What is complete and proven is taken once the pass had its time, what is less only
// when everybody was asked.
func (m *machine) fetchForSweep(now time.Time, wanted []*Rank) {
	if m.slots[slotBoot] != nil || m.sweep.passes == 0 {
		return
	}
	asking := m.survey != nil && m.survey.purpose&forSweep != 0
	if asking && now.Before(m.survey.started.Add(passEvery)) {
		return
	}
	sweepable := m.graftable(wanted)
	candidates := m.candidates()
	offered := make(map[index.Rank][]offer, len(sweepable))
	for _, r := range sweepable {
		list := offers(candidates, r, now)
		if asking {
			list = slices.DeleteFunc(list, func(o offer) bool { return !o.strength.strong() })
		}
		offered[r.Rank] = list
	}
	if p, ok := choose(sweepable, offered); ok {
		m.fetch(now, slotBoot, p, m.riders(p, wanted))
		return
	}
	m.fetchForeign(now, sweepable, asking)
}

// graftable leaves the ranks whose own connection stands, so that an export from now on can be spliced, whose block size is
// known, and whose obligation was not met or given up a moment ago.
func (m *machine) graftable(wanted []*Rank) []*Rank {
	return slices.DeleteFunc(slices.Clone(wanted), func(r *Rank) bool {
		return r.Owed.Since.IsZero() || r.Section.BlockSize == 0 || m.over(r)
	})
}

// over tells whether a rank's obligation was met or given up already; the view follows in a moment.
func (m *machine) over(r *Rank) bool {
	mem := m.mem[r.Rank]
	return mem.done == r.Owed.Epoch || mem.gaveUp == r.Owed.Epoch
}

// riders are ranks that wait for their own connection and may be in the body as well.
func (m *machine) riders(p plan, wanted []*Rank) (out []*Rank) {
	for _, r := range wanted {
		if r.Owed.Since.IsZero() && r.Section.BlockSize > 0 && source(p.peer.table, p.peer.table.row(r), r) != noSource {
			out = append(out, r)
		}
	}
	return out
}

// fetch begins a fetch of a plan's ranks: an export that is newer than what each of them holds, and than what the peer
// gave before.
func (m *machine) fetch(now time.Time, s slot, p plan, riders []*Rank) {
	floor := p.peer.lastBody
	timeout := m.opt.fetchTimeout()
	f := doFetch{slot: s, peer: p.peer.peer, asked: map[index.Rank]uint64{}, late: map[index.Rank]bool{}}
	for _, r := range p.ranks {
		f.asked[r.Rank] = r.Owed.Epoch
		if r.Owed.Since.After(floor) {
			floor = r.Owed.Since
		}
	}
	if until := m.latest(p.ranks); !until.IsZero() {
		timeout = min(timeout, max(time.Millisecond, until.Sub(now)))
	}
	for _, r := range riders {
		f.late[r.Rank] = true
	}
	f.timeout = timeout
	f.want = m.want(slices.Concat(p.ranks, riders), now.Sub(floor))
	m.begin(now, f, p.peer)
}

// want names ranks to a peer: by number only if they are not all there are.
func (m *machine) want(ranks []*Rank, age time.Duration) snapshot.Want {
	w := snapshot.Want{Local: sections(ranks), MaxAge: max(0, age)}
	if len(ranks) < len(m.ranks) {
		for _, r := range ranks {
			w.Ranks = append(w.Ranks, r.Rank)
		}
	}
	return w
}

// latest is until when the last of the ranks can use a body; zero if for ever.
func (m *machine) latest(ranks []*Rank) (until time.Time) {
	for _, r := range ranks {
		at := r.Owed.Deadline
		if r.boots() {
			at = m.mem[r.Rank].bootDeadline
		}
		if at.IsZero() {
			return time.Time{}
		}
		if at.After(until) {
			until = at
		}
	}
	return until
}

func (m *machine) begin(now time.Time, f doFetch, p *memory) {
	m.slots[f.slot] = &fetching{doFetch: f, started: now, memory: p, heals: f.slot == slotRepair && m.allHeal(f.asked)}
	m.log.Info("fetch began", "peer", f.peer.Name, "ranks", len(f.asked), "riders", len(f.late), "maxAge", f.want.MaxAge.String())
	m.do(f)
}

// sections groups ranks by index.
func sections(ranks []*Rank) (out []snapshot.LocalSection) {
	at := map[snapshot.SectionKey]int{}
	for _, r := range ranks {
		i, ok := at[r.Section]
		if !ok {
			i = len(out)
			at[r.Section] = i
			out = append(out, snapshot.LocalSection{Key: r.Section})
		}
		out[i].Ranks = append(out[i].Ranks, local(r))
	}
	return out
}

// judgeSweep ends the wait of ranks that nobody can help, when a pass is over. A pass during which the set changed says
// nothing: whoever came was not asked.
func (m *machine) judgeSweep(now time.Time, s *survey) {
	if m.sweep == nil {
		return
	}
	wanted := m.graftable(m.booting())
	candidates := m.candidates()
	for _, c := range candidates { // who helps nobody sits out
		if s.tables[c.peer.ID] != nil && !m.helps(c, wanted, now) {
			c.cool(0)
		}
	}
	if len(candidates) == 0 || !sameMembers(s.set, m.set.Peers) || len(m.upstream.Peers) > 0 && !m.sweep.foreign {
		return
	}
	hopeless := func(c *memory) bool { return c.rejected || c.table.cold() }
	if !slices.ContainsFunc(candidates, func(c *memory) bool { return !hopeless(c) }) {
		m.sweep.result = SweepFleetCold
		m.abandon(ingest.AbandonFleetCold, wanted...)
		return
	}
	for _, r := range wanted {
		silent := func(c *memory) bool { return !hopeless(c) && !c.table.holdsNothing(r) && !nothingTrusted(c.table, r) }
		if !slices.ContainsFunc(candidates, silent) {
			m.abandon(ingest.AbandonNothingToRecover, r)
		}
	}
}

func (m *machine) helps(c *memory, wanted []*Rank, now time.Time) bool {
	return slices.ContainsFunc(wanted, func(r *Rank) bool {
		return !c.misfit(r.Rank, now) && source(c.table, c.table.row(r), r) != noSource
	})
}

// nothingTrusted tells whether the peer has of the rank's present life only what it does not trust itself: as little as
// nothing.
func nothingTrusted(t *table, r *Rank) bool {
	row := t.row(r)
	return row != nil && row.Cursor.Proof == cursor.Untrusted && !otherLife(row, r)
}

// sameMembers compares two sets by who is in them; a swap is a change.
func sameMembers(a, b []peers.Peer) bool {
	if len(a) != len(b) {
		return false
	}
	there := map[string]bool{}
	for _, p := range a {
		there[p.ID] = true
	}
	return !slices.ContainsFunc(b, func(p peers.Peer) bool { return !there[p.ID] })
}

// take notes what came of a fetch.
func (f fetched) take(m *machine, now time.Time) {
	was := m.slots[f.slot]
	m.slots[f.slot] = nil
	if was == nil {
		return
	}
	grafted := 0
	answered := map[index.Rank]bool{}
	for _, r := range f.results {
		answered[r.Rank] = r.Verdict == ingest.Grafted || r.Verdict == ingest.GraftStale
		if mem := m.mem[r.Rank]; mem != nil && answered[r.Rank] {
			mem.done = r.Epoch
		}
		if r.Verdict == ingest.Grafted {
			grafted++
		} else {
			m.log.Info("rank not grafted", "rank", r.Rank.DP, "worker", m.nameOf(r.Rank), "peer", was.peer.Name,
				"verdict", r.Verdict.String(), "reason", r.Reason.String())
		}
	}
	outcome := fetchOutcomeOf(f.err)
	if f.err == nil && grafted == 0 {
		outcome = FetchColdPeer
	}
	m.metrics.fetched(outcome, now.Sub(was.started))
	m.logFetch(was, outcome, grafted, f.err, now)
	if m.sweep != nil && was.slot == slotBoot {
		m.sweep.found = m.sweep.found || grafted > 0
	}
	if grafted > 0 && f.table != nil && !f.table.SeedableSince.IsZero() {
		m.sourceSince = f.table.SeedableSince
		if !m.heldSince.IsZero() && m.heldSince.Before(m.sourceSince) {
			m.sourceSince = m.heldSince
		}
	}
	if was.memory != nil {
		m.learn(now, was, f, answered, outcome)
	}
	m.afterRepair(now, was, answered)
}

// learn takes over what a fetch says of its peer.
func (m *machine) learn(now time.Time, was *fetching, f fetched, answered map[index.Rank]bool, outcome FetchOutcome) {
	p := was.memory
	if f.table != nil {
		m.heard(p, f.table, was.started, now)
		p.lastBody = now
	}
	for rank := range was.asked {
		if answered[rank] {
			continue
		}
		p.missed(rank, now)
		if why := f.left[rank]; why != "" {
			m.log.Info("rank not delivered", "rank", rank.DP, "worker", m.nameOf(rank), "peer", was.peer.Name, "reason", string(why))
		}
	}
	switch outcome {
	case FetchUnreachable:
		p.fail(f.err)
		p.cool(retryAfter(f.err))
	case FetchColdPeer:
		p.cool(0)
	case FetchRejected:
		p.rejected = true
		p.answer, p.detail = AnswerUnreadable, f.err.Error()
		m.log.Warn("peer rejected", "peer", p.peer.Name, "why", f.err.Error())
	}
}

func (m *machine) logFetch(was *fetching, o FetchOutcome, grafted int, err error, now time.Time) {
	args := []any{"peer", was.peer.Name, "outcome", o.String(), "grafted", grafted, "asked", len(was.asked), "took", now.Sub(was.started).String()}
	if err != nil {
		args = append(args, "error", err.Error())
	}
	m.log.Info("fetch ended", args...)
}

func (m *machine) nameOf(r index.Rank) string {
	if known := m.byRank[r]; known != nil {
		return known.Name
	}
	return r.Worker
}
