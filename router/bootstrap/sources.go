package bootstrap

import (
	"cmp"
	"slices"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
)

// offer is what one peer has for one rank.
type offer struct {
	peer     *memory
	order    int // among the candidates
	strength strength
	seq      int64
}

// offers gives what the candidates have for a rank, those of dead lives left out: of two cursors with seq and time in
// contradiction the earlier is dead, however high its seq (B0, B3).
func offers(candidates []*memory, r *Rank, now time.Time) []offer {
	var out []offer
	for i, m := range candidates {
		if m.rejected || m.misfit(r.Rank, now) {
			continue
		}
		row := m.table.row(r)
		if s := source(m.table, row, r); s != noSource && !outlived(candidates, i, r) {
			out = append(out, offer{m, i, s, row.Cursor.Seq})
		}
	}
	return out
}

// outlived tells whether some other peer's cursor, or our own, shows that the peer's is of a dead life.
func outlived(candidates []*memory, at int, r *Rank) bool {
	mine := candidates[at].table.row(r).Cursor
	if r.begun() && mine.Outlived(r.Cursor) {
		return true
	}
	for i, m := range candidates {
		if row := m.table.row(r); i != at && row != nil && mine.Outlived(row.Cursor) {
			return true
		}
	}
	return false
}

// best leaves the offers that are as good as any: of the best strength, and not far behind.
func best(list []offer) []offer {
	if len(list) == 0 {
		return nil
	}
	top := slices.MinFunc(list, func(a, b offer) int {
		return cmp.Or(cmp.Compare(a.strength, b.strength), cmp.Compare(b.seq, a.seq))
	})
	return slices.DeleteFunc(slices.Clone(list), func(o offer) bool {
		return o.strength != top.strength || o.seq < top.seq-seqSlack
	})
}

// plan is whom to ask for which ranks.
type plan struct {
	peer  *memory
	ranks []*Rank
}

// choose gives the peer that is among the best for the most ranks; of equals the less busy one, then the one whose turn it
// is. The other ranks are for the next fetch. Ranks without an offer are in no plan.
func choose(wanted []*Rank, offered map[index.Rank][]offer) (plan, bool) {
	type count struct {
		peer  *memory
		order int
		n     int
	}
	counts := map[*memory]*count{}
	for _, r := range wanted {
		for _, o := range best(offered[r.Rank]) {
			if counts[o.peer] == nil {
				counts[o.peer] = &count{peer: o.peer, order: o.order}
			}
			counts[o.peer].n++
		}
	}
	var top *count
	for _, c := range counts {
		if top == nil || cmp.Or(cmp.Compare(top.n, c.n), cmp.Compare(c.peer.table.Builds, top.peer.table.Builds), cmp.Compare(c.order, top.order)) < 0 {
			top = c
		}
	}
	if top == nil {
		return plan{}, false
	}
	p := plan{peer: top.peer}
	for _, r := range wanted {
		if slices.ContainsFunc(best(offered[r.Rank]), func(o offer) bool { return o.peer == top.peer }) {
			p.ranks = append(p.ranks, r)
		}
	}
	return p, true
}
