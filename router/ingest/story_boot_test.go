package ingest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/routerfleet/routerfleet/router/snapshot"
)

// Of ranks whose siblings can be asked a story tells more. OWED is the number of an obligation, NOW the present one.
//
//	siblings                               they can be asked; the first line
//	graft OWED B [PROOF] [partial] [start=NAME|none|unknown] [format1] [walked=SEQ]
//	                                       a sibling's section with the cursor of batch B
//	abandon OWED WHY | keep OWED
//	witness OWED B advanced|no_advance|unknown
//	suspect B alone|minority|weaker | equal B
//	behind B B                             our cursor, and a sibling's
func (st *story) tellOfSiblings(w []string) (out []string, known bool) {
	var m message
	switch w[0] {
	case "siblings":
		n := uint64(0)
		st.s = newRankState("uid", func() uint64 { n++; return n })
		return []string{"= " + st.standing()}, true
	case "graft":
		return st.graft(w[1:]), true
	case "abandon":
		m = abandoned{st.owed(w[1]), AbandonWhy(slices.Index(abandonNames[:], w[2]))}
	case "keep":
		m = keep{st.owed(w[1])}
	case "witness":
		words := map[string]Testimony{"advanced": Advanced, "no_advance": NoAdvance, "unknown": TestimonyUnknown}
		m = witnessed{st.owed(w[1]), st.cursorOf(w[2]), words[w[3]]}
	case "suspect":
		m = suspected{st.cursorOf(w[1]), Suspicion(slices.Index(suspicionNames[:], w[2])), true}
	case "equal":
		m = equalled{st.cursorOf(w[1])}
	case "behind":
		m = outrun{st.cursorOf(w[1]), st.cursorOf(w[2])}
	default:
		return nil, false
	}
	return st.step(m), true
}

func (st *story) owed(w string) uint64 {
	if w == "NOW" {
		if a := st.s.awaiting; a != nil {
			return a.Epoch
		}
		return st.s.owed.Epoch
	}
	n, err := strconv.ParseUint(w, 10, 64)
	if err != nil {
		st.t.Fatalf("%s: %v", st.line, err)
	}
	return n
}

// cursorOf makes the cursor of somebody who applied a batch, which is none of ours.
func (st *story) cursorOf(w string) Cursor {
	if w == "MAX" {
		return Cursor{Proof: Proven, Seq: math.MaxInt64, Time: sec(9e6), Incarnation: Incarnation{Worker: "uid", Start: Start{Known: true, ID: "p1"}}}
	}
	b := st.batches(w)[0]
	name := st.in[b]
	delete(st.in, b)
	c := Cursor{Proof: Proven}.At(b)
	c.Incarnation = Incarnation{Worker: "uid", Start: Start{Known: true, ID: "p" + name[1:2]}}
	return c
}

// graft plays the pump: it judges, applies to the section what is kept, and has the rank take it.
func (st *story) graft(w []string) []string {
	epoch := st.owed(w[0])
	v := snapshot.VettedRank{Cursor: st.cursorOf(w[1]), SeededFrom: "sibling"}
	v.WalkedTo = v.Cursor.Seq
	for _, word := range w[2:] {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "partial":
			v.Cursor.Partial = true
		case "start":
			v.Cursor.Incarnation.Start = startNamed(value)
		case "format1":
			v.Cursor.Time, v.Cursor.Hash, v.Cursor.Incarnation.Start, v.Cursor.Proof = 0, 0, Start{}, Unwitnessed
		case "walked":
			v.WalkedTo, _ = strconv.ParseInt(value, 10, 64)
		default:
			for p := Origin; p <= Untrusted; p++ {
				if p.String() == word {
					v.Cursor.Proof = p
				}
			}
		}
	}
	return st.graftSection(&v, epoch)
}

func (st *story) graftSection(v *snapshot.VettedRank, epoch uint64) []string {
	s := st.s
	verdict, reason := s.judge(v, epoch)
	switch {
	case verdict == GraftGap:
		return append([]string{"gap"}, st.step(unspliced{epoch})...)
	case verdict != Grafted:
		return []string{fmt.Sprintf("%v: %v", verdict, reason), "= " + st.standing()}
	}
	at := s.graftedAt(v)
	for b := s.beyond(at.Seq); b != nil; b = s.beyond(at.Seq) {
		at = applied(at, b)
	}
	return append([]string{fmt.Sprintf("the section, to %d", at.Seq)}, st.step(grafted{v, at})...)
}

// owing tells what of a rank's standing has to do with siblings.
func (st *story) owing() (w []string) {
	s := st.s
	if !s.boots {
		return nil
	}
	if n := len(s.kept.list); n > 0 {
		w = append(w, fmt.Sprintf("keeps %d..%d", s.kept.list[0].Seq, s.kept.list[n-1].Seq))
	} else if s.keeping {
		w = append(w, "keeps")
	}
	if o := s.owed; o.Kind != 0 {
		text := fmt.Sprintf("owed %v #%d", o.Kind, o.Epoch)
		if o.Goal > 0 {
			text += fmt.Sprintf(" to %d", o.Goal)
		}
		if o.Since.IsZero() {
			text += ", not before it is connected or keeps"
		} else if age := st.now.Sub(o.Since); age > 0 {
			text += fmt.Sprintf(" since %v", age)
		}
		w = append(w, text)
	}
	if a := s.awaiting; a != nil {
		w = append(w, fmt.Sprintf("awaits a proof from %d #%d", a.Watermark.Seq, a.Epoch))
	}
	if s.audit.suspect {
		w = append(w, "suspect")
	}
	if s.outcome != OutcomeNone {
		w = append(w, "outcome "+s.outcome.String())
	}
	return w
}
