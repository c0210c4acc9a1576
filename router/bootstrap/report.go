package bootstrap

import (
	"cmp"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/cursor"
)

// facts looks at the world as it is now and at what is remembered.
func (c *Coordinator) facts() *facts {
	w := c.world()
	now := c.opt.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.machine
	f := &facts{
		ranks: w.ranks, set: w.set, settled: m.track.settled(now), seedFailed: m.track.failed, gateClosed: m.track.gateClosed(now),
		alone: w.set.Alone() && (!m.opt.Upstream || w.upstream.Alone()),
	}
	if f.settled {
		f.settledAt = m.track.settledAt
		if m.lostAt.After(f.settledAt) {
			f.settledAt = m.lostAt
		}
	}
	f.answers = m.answers()
	f.coverage = m.coverage(w.ranks)
	f.seedable = f.settled && slices.ContainsFunc(w.ranks, func(r Rank) bool { return r.trusted() && !r.boots() && r.Blocks > 0 })
	if f.seedable {
		f.seedableSince = m.heldSince
		if c := f.coverage; !m.sourceSince.IsZero() && c.Recoverable > 0 && c.Recovered*100 >= c.Recoverable*wholePercent {
			f.seedableSince = earlier(f.seedableSince, m.sourceSince)
		}
	}
	f.seededFrom = seededFrom(w.ranks)
	return f
}

// seededFrom names whom most ranks were seeded from.
func seededFrom(ranks []Rank) string {
	counts := map[string]int{}
	for i := range ranks {
		if s := ranks[i].SeededFrom; s != "" {
			counts[s]++
		}
	}
	best := ""
	for s, n := range counts {
		if best == "" || n > counts[best] || n == counts[best] && s < best {
			best = s
		}
	}
	return best
}

// answers are how the present peers answered last, by URL.
func (m *machine) answers() []asked {
	out := make([]asked, 0, len(m.peers))
	for _, p := range m.peers {
		a := asked{peer: p.peer, answer: p.answer}
		for _, mem := range m.mem {
			_, named := mem.named[p.peer.ID]
			a.ours = a.ours || named
		}
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b asked) int { return cmp.Compare(a.peer.URL, b.peer.URL) })
	return out
}

// coverage counts what could be recovered, and what is (B8).
func (m *machine) coverage(ranks []Rank) (c status.Coverage) {
	for i := range ranks {
		r := &ranks[i]
		switch {
		case r.recovered():
			c.Recoverable++
			c.Recovered++
		case m.recoverable(r):
			c.Recoverable++
		}
	}
	if c.Recoverable > 0 {
		percent := c.Recovered * 100 / c.Recoverable
		c.Percent = &percent
	}
	return c
}

// recoverable tells whether a present sibling named something of the rank's present life that would be a gain: anything if
// the rank has nothing, else a complete state, or older content. What descends from us, or is as young as ours, is none: two
// replicas that began blind together would hold each other's rollout for ever.
func (m *machine) recoverable(r *Rank) bool {
	mem := m.mem[r.Rank]
	if mem == nil {
		return false
	}
	for _, n := range mem.named {
		row := n.row
		switch {
		case otherLife(&row, r):
		case !r.begun() || r.Blocks == 0 || r.boots():
			return true
		case row.Cursor.Proof != cursor.Untrusted && !row.Cursor.Partial:
			return true
		case !m.descends(row.SeededFrom) && m.older(n.since, r):
			return true
		}
	}
	return false
}

// Settled tells whether the boot is over; it latches.
func (c *Coordinator) Settled() bool { return c.facts().settled }

// Ready tells whether readiness may be told, and why not. The boot must have settled, and no seed be waited for.
func (c *Coordinator) Ready() (ok bool, why string) {
	f := c.facts()
	switch {
	case !f.settled:
		return false, "the index is being copied from siblings"
	case f.gateClosed:
		return false, "no sibling has given a copy of the index, and one is required"
	default:
		return true, ""
	}
}

// Admit latches that readiness was told: nothing here takes it back.
func (c *Coordinator) Admit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machine.track.admit()
}

// SeedableSince is since when the content is held that a snapshot would bring, the zero time if it would bring none.
func (c *Coordinator) SeedableSince() time.Time { return c.facts().seedableSince }

// Seedable tells whether this replica is a source.
func (c *Coordinator) Seedable() bool { return c.facts().seedable }

// Fill writes what the coordinator knows into a status.
func (c *Coordinator) Fill(s *status.Status) {
	f := c.facts()
	s.State = status.StateBootstrapping
	switch {
	case f.settled:
		s.State, s.SettledAt = status.StateSettled, f.settledAt.UTC()
	case len(f.ranks) == 0:
		s.State = status.StateStarting
	}
	s.Verdict = f.verdict()
	s.SeededFrom, s.Seedable = f.seededFrom, f.seedable
	if f.seedable {
		s.SeedableSince = f.seedableSince.UTC()
	}
	s.Coverage = &f.coverage
	s.Ranks = tally(f.ranks)
	s.Peers = f.peers()
	s.PeersAsked = f.peersAsked()
	if t, ok := c.progress.read(c.opt.Now()); ok {
		s.Progress = &status.Progress{
			Peer: t.Peer, Bytes: t.Bytes, BytesTotal: t.TotalBytes, Nodes: t.Nodes, NodesTotal: t.TotalNodes,
			RanksDone: f.done(), RanksTotal: len(f.ranks), BytesPerSecond: int64(t.Rate()), SecondsLeft: int64(t.Left().Seconds()),
		}
	}
}

// tally counts ranks by what is to be said of them.
func tally(ranks []Rank) (t status.Ranks) {
	t.Total = len(ranks)
	for i := range ranks {
		r := &ranks[i]
		count := func(into *int, is bool) {
			if is {
				*into++
			}
		}
		recovered := r.recovered()
		count(&t.Warm, recovered && r.Cursor.Proof != cursor.Unwitnessed)
		count(&t.Unwitnessed, recovered && r.Cursor.Proof == cursor.Unwitnessed)
		count(&t.Proving, r.Proving || r.Awaiting != nil)
		count(&t.Pending, r.state() == RankPending)
		count(&t.Cold, r.state() == RankFailed)
		count(&t.Untrusted, r.Cursor.Proof == cursor.Untrusted)
		count(&t.Suspect, r.Suspect)
		count(&t.Partial, r.begun() && r.Cursor.Partial)
	}
	return t
}

func (f *facts) peers() *status.Peers {
	p := &status.Peers{Known: len(f.set.Peers), Synced: f.set.Synced}
	for _, a := range f.answers {
		if a.answer == AnswerWarm {
			p.Warm++
		}
	}
	return p
}

func (f *facts) peersAsked() (out []status.PeerAsked) {
	for _, a := range f.answers {
		if a.answer != AnswerNone && len(out) < maxAsked {
			out = append(out, status.PeerAsked{PodUID: a.peer.UID, Name: a.peer.Name, Answer: string(a.answer)})
		}
	}
	return out
}

// Problems lists what somebody has to set right for siblings to hear each other.
func (c *Coordinator) Problems() (out []status.Problem) {
	if trouble := c.opt.Peers.Set().Trouble; apierrors.IsForbidden(trouble) || apierrors.IsUnauthorized(trouble) {
		out = append(out, status.Problem{Code: status.CodePeerRBAC, Count: 1, Example: trouble.Error()})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	skew := status.Problem{Code: status.CodeClockSkew}
	for _, p := range c.machine.peers {
		if p.skewed {
			skew.Count++
			if skew.Example == "" || p.detail < skew.Example {
				skew.Example = p.detail
			}
		}
	}
	if skew.Count > 0 {
		out = append(out, skew)
	}
	return out
}

// Rows describes every rank, for ?detail=ranks.
func Rows(ranks []Rank) []status.RankRow {
	out := make([]status.RankRow, 0, len(ranks))
	for i := range ranks {
		out = append(out, row(&ranks[i]))
	}
	return out
}

func row(r *Rank) status.RankRow {
	out := status.RankRow{Worker: r.Name, Rank: r.Rank.DP, Blocks: r.Blocks, Outcome: r.Outcome.String(), SeededFrom: r.SeededFrom}
	if r.begun() {
		out.Proof, out.Seq = r.Cursor.Proof.String(), r.Cursor.Seq
	}
	for _, flag := range []struct {
		name string
		is   bool
	}{
		{"pending", r.state() == RankPending}, {"proving", r.Proving}, {"awaiting", r.Awaiting != nil}, {"partial", r.begun() && r.Cursor.Partial},
		{"suspect", r.Suspect}, {"disconnected", !r.Connected},
	} {
		if flag.is {
			out.Flags = append(out.Flags, flag.name)
		}
	}
	if r.Owed != nil {
		out.Flags = append(out.Flags, "owed_"+r.Owed.Kind.String())
	}
	return out
}
