package cursor

import (
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/kvevents"
)

// sec makes a stamp of seconds after some moment.
func sec(s float64) kvevents.Stamp { return kvevents.Stamp(1e18 + s*float64(time.Second)) }

func TestCursorsContradictWhereSeqAndTimeDoNotGrowTogether(t *testing.T) {
	at := func(seq int64, s float64, hash uint64) Cursor { return Cursor{Seq: seq, Time: sec(s), Hash: hash} }
	for name, c := range map[string]struct {
		a, b        Cursor
		contradicts bool
		aOutlived   bool
	}{
		"later seq, later time":                {at(5, 1, 1), at(9, 7, 2), false, false},
		"lower seq, later time within margin":  {at(5, 9, 1), at(9, 7, 2), false, false},
		"lower seq, later time by 2 s exactly": {at(5, 9.0, 1), at(9, 7.0, 2), false, false},
		"lower seq, later time beyond margin":  {at(5, 9.1, 1), at(9, 7, 2), true, false},
		"higher seq, earlier time":             {at(9, 7, 1), at(5, 9.1, 2), true, true},
		"equal seq, equal time and hash":       {at(5, 7, 1), at(5, 7, 1), false, false},
		"equal seq, other time by a hair":      {at(5, 7, 1), at(5, 7.001, 1), true, true},
		"equal seq and time, other hash":       {at(5, 7, 1), at(5, 7, 2), true, false},
		"equal seq and time, one hash unknown": {at(5, 7, 1), at(5, 7, 0), false, false},
		"one time unknown":                     {Cursor{Seq: 9, Hash: 1}, at(5, 99, 2), false, false},
		"one time unknown, equal seq":          {Cursor{Seq: 5, Hash: 1}, at(5, 99, 2), true, true},
	} {
		if got := c.a.Contradicts(c.b); got != c.contradicts {
			t.Errorf("%s: contradicts: got %v", name, got)
		}
		if got := c.b.Contradicts(c.a); got != c.contradicts {
			t.Errorf("%s: the other way round: got %v", name, got)
		}
		if got := c.a.Outlived(c.b); got != c.aOutlived {
			t.Errorf("%s: outlived: got %v", name, got)
		}
	}
}

func TestOneLifeNeedsWorkerStartAndTimesToAgree(t *testing.T) {
	base := Cursor{Incarnation: Incarnation{"uid", Start{true, "p1"}}, Seq: 5, Time: sec(7), Hash: 1}
	with := func(change func(*Cursor)) Cursor { c := base; change(&c); return c }
	for name, c := range map[string]struct {
		other Cursor
		want  Relation
	}{
		"the same":               {base, OneLife},
		"further on":             {with(func(c *Cursor) { c.Seq, c.Time = 9, sec(8) }), OneLife},
		"another pod":            {with(func(c *Cursor) { c.Incarnation.Worker = "uid2" }), OtherLife},
		"another start":          {with(func(c *Cursor) { c.Incarnation.Start.ID = "p2" }), OtherLife},
		"a start not known":      {with(func(c *Cursor) { c.Incarnation.Start = Start{} }), Undecided},
		"none against a start":   {with(func(c *Cursor) { c.Incarnation.Start = Start{Known: true} }), OtherLife},
		"not known, but killed":  {with(func(c *Cursor) { c.Incarnation.Start, c.Seq, c.Time = Start{}, 3, sec(20) }), OtherLife},
		"equal seq, other bytes": {with(func(c *Cursor) { c.Hash = 2 }), OtherLife},
	} {
		if got := Relate(base, c.other); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		if got := Relate(c.other, base); got != c.want {
			t.Errorf("%s, the other way round: got %v, want %v", name, got, c.want)
		}
	}
	none := with(func(c *Cursor) { c.Incarnation.Start = Start{Known: true} })
	if got := Relate(none, none); got != OneLife {
		t.Errorf("two cursors of an engine without a start: got %v", got)
	}
}

func TestWhereABatchLiesToTheCursor(t *testing.T) {
	cursor := Cursor{Seq: 10, Time: sec(100), Hash: 77}
	grafted := Cursor{Seq: 10, Time: sec(100)}
	untimed := Cursor{Seq: 10, Hash: 77}
	origin := Cursor{Seq: 0, Time: sec(100), Hash: 77}
	for name, c := range map[string]struct {
		cursor Cursor
		seq    int64
		time   kvevents.Stamp
		hash   uint64
		want   Place
	}{
		"the next":                           {cursor, 11, sec(101), 1, PlaceNext},
		"the next, clock back a little":      {cursor, 11, sec(98.5), 1, PlaceNext},
		"the next, clock back by the margin": {cursor, 11, sec(98), 1, PlaceNext},
		"above, made long before":            {cursor, 11, sec(97.9), 1, PlaceStale},
		"far above, made long before":        {cursor, 99, sec(97.9), 1, PlaceStale},
		"a gap of one":                       {cursor, 12, sec(101), 1, PlaceGap},
		"the cursor's own":                   {cursor, 10, sec(100), 77, PlaceDuplicate},
		"the cursor's seq, other bytes":      {cursor, 10, sec(100), 78, PlaceRestart},
		"after a graft, the cursor's time":   {grafted, 10, sec(100), 78, PlaceDuplicate},
		"after a graft, another time":        {grafted, 10, sec(100.001), 78, PlaceRestart},
		"below, earlier":                     {cursor, 9, sec(99), 1, PlaceDuplicate},
		"below, at the same time":            {cursor, 9, sec(100), 1, PlaceDuplicate},
		"below, later":                       {cursor, 9, sec(100.001), 1, PlaceRestart},
		"zero, later":                        {cursor, 0, sec(101), 1, PlaceRestart},
		"zero, a little earlier":             {cursor, 0, sec(98), 1, PlaceRestart},
		"zero, long before: a late copy":     {cursor, 0, sec(97.9), 1, PlaceDuplicate},
		"zero, time not known":               {cursor, 0, 0, 1, PlaceRestart},
		"zero again behind zero, same bytes": {origin, 0, sec(100), 77, PlaceDuplicate},
		"zero again behind zero, others":     {origin, 0, sec(100), 78, PlaceRestart},
		"below, no time to compare":          {untimed, 9, sec(500), 1, PlaceDuplicate},
		"above, no time to compare":          {untimed, 11, sec(0), 1, PlaceNext},
	} {
		b := &kvevents.Batch{Seq: c.seq, Time: c.time, Hash: c.hash}
		if got := c.cursor.Place(b); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestAGraftInheritsTheWeakerProof(t *testing.T) {
	for _, c := range []struct{ a, b, want Proof }{
		{Origin, Proven, Proven}, {Proven, Origin, Proven}, {Unwitnessed, Proven, Unwitnessed},
		{Origin, Untrusted, Untrusted}, {Origin, Origin, Origin}, {ProofUnknown, Origin, Untrusted},
	} {
		if got := c.a.Weaker(c.b); got != c.want {
			t.Errorf("%v and %v: got %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
