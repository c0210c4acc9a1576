package bootstrap

import (
	"slices"
	"time"

	"github.com/routerfleet/routerfleet/router/peers"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// purpose is what a survey is for; one may serve several.
type purpose uint8

const (
	forSweep purpose = 1 << iota
	forProbe
	forRepair
	forHeal
	forAudit
	forDispute
)

// survey asks a number of peers for their tables.
type survey struct {
	id      int
	started time.Time
	purpose purpose
	set     []peers.Peer // the candidates when it began
	waiting map[string]bool
	tables  map[string]*table // of those that answered
}

// due is what the steps of this round want asked.
func (m *machine) due(now time.Time) purpose {
	var p purpose
	if m.sweep != nil && m.slots[slotBoot] == nil && !now.Before(m.sweep.nextPass) {
		p |= forSweep
	}
	for i := range m.ranks {
		r := &m.ranks[i]
		mem := m.mem[r.Rank]
		if r.Awaiting != nil && !now.Before(mem.probeAt) {
			p |= forProbe
		}
		if m.repairDue(now, r, mem) {
			p |= forRepair
		}
		if m.healDue(now, r, mem) {
			p |= forHeal
		}
	}
	if len(m.dispute) > 0 {
		p |= forDispute
	}
	if m.auditPeer != "" {
		p |= forAudit
	}
	return p
}

// surveyStep begins a survey if none is under way and something is to be asked.
func (m *machine) surveyStep(now time.Time) {
	if m.survey != nil || now.Before(m.surveyAt.Add(surveyEvery)) {
		return
	}
	p := m.due(now)
	if p == 0 {
		return
	}
	m.surveyAt = now
	m.surveyNo++
	s := &survey{id: m.surveyNo, started: now, purpose: p, set: m.set.Peers, waiting: map[string]bool{}, tables: map[string]*table{}}
	if p&forSweep != 0 {
		m.sweep.passes++
		m.sweep.nextPass = now.Add(passEvery)
	}
	ask := m.toAsk(p)
	for _, a := range ask {
		s.waiting[a.ID] = true
	}
	m.survey = s
	if len(ask) == 0 { // everybody sits out, or there is nobody: that is an answer, too
		m.conclude(now)
		return
	}
	m.do(doSurvey{s.id, ask})
}

// toAsk gives the peers a survey asks. A sweep leaves out who sits out; those nobody has heard yet come first, so that in a
// large fleet every one is heard after some passes.
func (m *machine) toAsk(p purpose) []peers.Peer {
	all := m.candidates()
	var out []*memory
	for _, c := range all {
		asked := p&(forProbe|forRepair|forHeal|forDispute) != 0 || p&forAudit != 0 && c.peer.ID == m.auditPeer
		if p&forSweep != 0 && !c.rejected {
			if c.coolingFor > 0 {
				c.coolingFor--
			} else {
				asked = true
			}
		}
		if asked {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b *memory) int { return boolOrder(a.table == nil, b.table == nil) })
	out = out[:min(len(out), surveyWidth)]
	list := make([]peers.Peer, 0, len(out))
	for _, c := range out {
		list = append(list, c.peer)
	}
	return list
}

// boolOrder puts true first.
func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// take notes one peer's answer; the last one concludes the survey.
func (a answered) take(m *machine, now time.Time) {
	s := m.survey
	if s == nil || s.id != a.survey || !s.waiting[a.peer] {
		return
	}
	delete(s.waiting, a.peer)
	if known := m.peers[a.peer]; known != nil {
		if a.err != nil {
			known.fail(a.err)
			known.cool(retryAfter(a.err))
			known.rejected = known.rejected || fetchOutcomeOf(a.err) == FetchRejected
		} else {
			s.tables[a.peer] = m.heard(known, a.table, s.started, now)
		}
		m.metrics.asked(known.answer)
		m.tell(known)
	}
	if len(s.waiting) == 0 {
		m.conclude(now)
	}
}

// heard takes over a peer's table.
func (m *machine) heard(p *memory, raw *snapshot.Table, asked, now time.Time) *table {
	t := newTable(raw, asked, now)
	p.table, p.answer, p.detail, p.skewed = t, AnswerWarm, "", false
	if t.cold() {
		p.answer = AnswerCold
	}
	for i := range m.ranks {
		r := &m.ranks[i]
		row := t.row(r)
		if row == nil || row.Blocks == 0 && t.Format >= 2 || otherLife(row, r) {
			delete(m.mem[r.Rank].named, p.peer.ID)
			continue
		}
		m.mem[r.Rank].named[p.peer.ID] = naming{*row, t.SeedableSince}
	}
	return t
}

// conclude ends a survey and judges what it was for.
func (m *machine) conclude(now time.Time) {
	s := m.survey
	m.survey = nil
	if s.purpose&forSweep != 0 {
		m.judgeSweep(now, s)
	}
	if s.purpose&forProbe != 0 {
		m.judgeProbes(now, s)
	}
	if s.purpose&forRepair != 0 {
		m.judgeRepairs(now)
	}
	if s.purpose&forHeal != 0 {
		m.judgeHeals(now)
	}
	if s.purpose&forDispute != 0 {
		m.judgeDispute(s)
	}
	if s.purpose&forAudit != 0 {
		m.judgeAudit(now, s)
	}
}

// tell logs what became of asking a peer: when that changed, and now and then.
func (m *machine) tell(p *memory) {
	said := string(p.answer) + p.detail
	if said == p.said {
		if p.saidTimes++; p.saidTimes%logEvery != 0 {
			return
		}
	} else {
		p.said, p.saidTimes = said, 0
	}
	args := []any{"peer", p.peer.Name, "answer", string(p.answer)}
	if p.detail != "" {
		args = append(args, "why", p.detail)
	}
	if t := p.table; t != nil {
		args = append(args, "ranks", len(t.Rows), "ready", t.Ready)
	}
	m.log.Info("peer asked", args...)
}
