package ingest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
)

// flush publishes the status of the ranks that took a message. Between two messages a rank stands at the end of a batch.
func (p *Pump) flush() {
	changed := false
	for _, r := range p.dirty {
		r.dirty = false
		r.contiguous(r.state.discounted())
		before := r.public.status.Load()
		now := r.status()
		r.public.status.Store(now)
		if before == nil || before.Owed != now.Owed || before.Awaiting != now.Awaiting || before.Outcome != now.Outcome {
			changed = true
		}
	}
	clear(p.dirty)
	p.dirty = p.dirty[:0]
	if changed {
		p.wake()
	}
}

// wake has whoever watches obligations look at the view.
func (p *Pump) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// status gives what there is to know of a rank now.
func (r *pumped) status() *Status {
	s, l := r.state, r.ledger
	st := &Status{
		State: s.state, Connected: s.epoch != 0, Cursor: s.cursor, DigestVersion: index.DigestVersion,
		Trust: Trust{Untrusted: s.cursor.Proof == Untrusted || s.state == Repairing, Suspect: l.suspect.is || s.audit.suspect, UpperBound: l.groups.upperBound()},
		Held:  len(s.held.list), HeldBytes: s.held.bytes,
		Tally:  s.tally,
		Counts: l.counts, Contradictions: l.contradictions,
		Owed: r.owing(), Awaiting: s.awaiting, Outcome: s.outcome,
		SeededFrom: s.seeded, WalkedTo: s.walkedTo, Exportable: s.exportable(), Bound: s.start.bound.Known,
		Kept: len(s.kept.list), KeptBytes: s.kept.bytes, Audited: s.audit.suspect,
	}
	if s.cursor.Proof == ProofUnknown {
		st.Cursor.Incarnation = Incarnation{Worker: s.worker, Start: s.start.bound}
	}
	if h := l.holder; h != nil {
		st.Digest, st.Blocks, st.Life = h.Digest, h.Blocks, h.State()
		st.Contradictions += h.Contradictions
		st.Cursor.Partial = st.Cursor.Partial || h.Evicted > 0
	}
	st.Cursor.Partial = st.Cursor.Partial || l.wanting
	if l.keys != nil {
		st.Mapped, st.Orphans, st.OrphansDropped = l.keys.n, len(l.orphans.byHash), l.orphans.Dropped
	}
	return st
}

// owing gives what the rank is owed, the same value as long as nothing of it changes.
func (r *pumped) owing() *Owed {
	o := r.state.owed
	if o.Kind == 0 {
		r.owed = nil
		return nil
	}
	if r.state.boot() && !r.state.start.bound.Known {
		o.Since = time.Time{}
	}
	o.FirstHeld = NothingHeld
	if log := r.state.log(); len(log) > 0 {
		o.FirstHeld = log[0].Seq
	}
	if r.owed == nil || *r.owed != o {
		r.owed = &o
	}
	return r.owed
}

// publish replaces the view.
func (p *Pump) publish() {
	v := &View{ranks: make(map[index.Rank]*Rank, len(p.ranks)), list: make([]*Rank, 0, len(p.ranks))}
	for id, r := range p.ranks {
		v.ranks[id] = r.public
		v.list = append(v.list, r.public)
	}
	slices.SortFunc(v.list, func(a, b *Rank) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Rank.DP, b.Rank.DP), cmp.Compare(a.Rank.Worker, b.Rank.Worker))
	})
	v.sections = slices.SortedFunc(maps.Values(p.sections), func(a, b *Section) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
	p.view.Store(v)
	p.wake()
}
