package bootstrap

import (
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// table is what one peer said of its ranks, ready to be asked about ours.
type table struct {
	*snapshot.Table
	askedAt, answeredAt time.Time
	byUID, byURL        map[place]int
	empty               map[place]bool
}

// place is where a rank is in the terms of replicas.
type place struct {
	worker  string
	dp      int32
	section snapshot.SectionKey
}

func newTable(t *snapshot.Table, asked, answered time.Time) *table {
	out := &table{
		Table: t, askedAt: asked, answeredAt: answered,
		byUID: map[place]int{}, byURL: map[place]int{}, empty: map[place]bool{},
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Worker.PodUID != "" {
			out.byUID[place{r.Worker.PodUID, r.DP, r.Section}] = i
		}
		if r.Worker.URL != "" {
			out.byURL[place{r.Worker.URL, r.DP, r.Section}] = i
		}
	}
	for _, e := range t.Empty {
		out.empty[place{e.Worker.PodUID, e.DP, e.Section}] = true
		out.empty[place{e.Worker.URL, e.DP, e.Section}] = true
	}
	return out
}

// row gives what the peer says of a rank, nil if it does not know it. Pod UIDs decide where both sides have one (B6).
func (t *table) row(r *Rank) *snapshot.TableRow {
	if t == nil {
		return nil
	}
	if i, ok := t.byUID[place{r.Worker.PodUID, r.Rank.DP, r.Section}]; ok && r.Worker.PodUID != "" {
		return &t.Rows[i]
	}
	i, ok := t.byURL[place{r.Worker.URL, r.Rank.DP, r.Section}]
	if !ok || !t.Rows[i].Worker.Same(r.Worker) {
		return nil
	}
	return &t.Rows[i]
}

// holdsNothing tells whether the peer said that it is subscribed to the rank and holds nothing of it.
func (t *table) holdsNothing(r *Rank) bool {
	if t == nil {
		return false
	}
	if row := t.row(r); row != nil && t.Format >= 2 {
		return row.Blocks == 0
	}
	uid, url := place{r.Worker.PodUID, r.Rank.DP, r.Section}, place{r.Worker.URL, r.Rank.DP, r.Section}
	return r.Worker.PodUID != "" && t.empty[uid] || r.Worker.URL != "" && t.empty[url]
}

// cold tells whether the peer holds nothing at all. A list that was not read to its end is no evidence.
func (t *table) cold() bool {
	if t == nil || !t.Complete {
		return false
	}
	for i := range t.Rows {
		if t.Rows[i].Blocks > 0 || t.Format < 2 {
			return false
		}
	}
	return true
}

// strength orders rows as sources of a state, best first (B3): complete ones first, by proof; then partial ones, by proof.
// What cannot be a source at all is noSource.
type strength uint8

const (
	completeOrigin strength = iota
	completeProven
	partialProven
	completeUnwitnessed
	partialUnwitnessed
	noSource
)

// strong sources are taken at once; others only when everybody was asked (reading 10).
func (s strength) strong() bool { return s <= completeProven }

// source tells what a row is worth for a rank.
func source(t *table, row *snapshot.TableRow, r *Rank) strength {
	switch {
	case row == nil, t.Format >= 2 && (!row.Exportable || row.Blocks == 0), otherLife(row, r):
		return noSource
	case row.Cursor.Proof == cursor.Origin && !row.Cursor.Partial:
		return completeOrigin
	case row.Cursor.Proof == cursor.Origin, row.Cursor.Proof == cursor.Proven && row.Cursor.Partial:
		return partialProven
	case row.Cursor.Proof == cursor.Proven:
		return completeProven
	case row.Cursor.Proof == cursor.Unwitnessed && !row.Cursor.Partial:
		return completeUnwitnessed
	case row.Cursor.Proof == cursor.Unwitnessed:
		return partialUnwitnessed
	default:
		return noSource
	}
}

// otherLife tells whether a row speaks of another life of the rank's engine, as far as is known here. The worker's name is
// the reader's: the two sides may know it by different ones.
func otherLife(row *snapshot.TableRow, r *Rank) bool {
	theirs, ours := row.Cursor, r.Cursor
	theirs.Incarnation.Worker = ours.Incarnation.Worker
	if !r.begun() {
		a, b := theirs.Incarnation.Start, ours.Incarnation.Start
		return a.Known && b.Known && a != b
	}
	return cursor.Relate(ours, theirs) == cursor.OtherLife
}

// oneLife tells whether a row certainly speaks of the rank's present life.
func oneLife(row *snapshot.TableRow, ours cursor.Cursor) bool {
	theirs := row.Cursor
	theirs.Incarnation.Worker = ours.Incarnation.Worker
	return cursor.Relate(ours, theirs) == cursor.OneLife
}
