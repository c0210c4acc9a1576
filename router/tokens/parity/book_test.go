package parity

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/tokens/chat"
)

var (
	tokensEqual = Evidence{}
	tokensOther = Evidence{Difference: "by tokens"}
	countEqual  = Evidence{Count: true}
	countOther  = Evidence{Count: true, Difference: "by count"}
)

func subject(engine string, kind Kind) Subject {
	return Subject{Group{"m", chat.VLLM, kind}, engine}
}

// The table of the package doc, state by evidence.
func TestEveryStateTakesEveryEvidence(t *testing.T) {
	history := map[string][]Evidence{
		"unknown":         nil,
		"unknown, once":   {countOther},
		"unknown, twice":  {countOther, countOther},
		"equal":           {tokensEqual},
		"equal, often":    append([]Evidence{tokensEqual}, repeated(countOther, countsToDoubt-1)...),
		"differs, tokens": {tokensOther},
		"differs, counts": {countOther, countOther, countOther},
		"healing":         append([]Evidence{countOther, countOther, countOther}, repeated(countEqual, countsToAgree-1)...),
	}
	for _, c := range []struct {
		state string
		with  Evidence
		want  Verdict
	}{
		{"unknown", tokensEqual, Equal}, {"unknown", tokensOther, Differs}, {"unknown", countEqual, Equal}, {"unknown", countOther, Unknown},
		{"unknown, once", countOther, Unknown}, {"unknown, once", countEqual, Equal}, {"unknown, once", tokensEqual, Equal}, {"unknown, once", tokensOther, Differs},
		{"unknown, twice", countOther, Differs}, {"unknown, twice", countEqual, Equal}, {"unknown, twice", tokensEqual, Equal}, {"unknown, twice", tokensOther, Differs},
		{"equal", tokensEqual, Equal}, {"equal", tokensOther, Differs}, {"equal", countEqual, Equal}, {"equal", countOther, Equal},
		{"equal, often", countOther, Differs}, {"equal, often", countEqual, Equal}, {"equal, often", tokensEqual, Equal}, {"equal, often", tokensOther, Differs},
		{"differs, tokens", tokensEqual, Equal}, {"differs, tokens", tokensOther, Differs}, {"differs, tokens", countEqual, Differs}, {"differs, tokens", countOther, Differs},
		{"differs, counts", tokensEqual, Equal}, {"differs, counts", tokensOther, Differs}, {"differs, counts", countEqual, Differs}, {"differs, counts", countOther, Differs},
		{"healing", countEqual, Equal}, {"healing", countOther, Differs}, {"healing", tokensEqual, Equal}, {"healing", tokensOther, Differs},
	} {
		b := NewBook()
		s := subject("e", Text)
		for _, e := range history[c.state] {
			b.Hear(s, "worker", e)
		}
		before := b.Verdict(s)
		got, changed := b.Hear(s, "worker", c.with)
		if got != c.want || changed != (got != before) || b.Verdict(s) != got {
			t.Errorf("%s with %+v: %s, changed %v, want %s", c.state, c.with, got, changed, c.want)
		}
		if trusted := b.Trusted(s.Group); trusted != (got != Differs) {
			t.Errorf("%s with %+v: trusted %v", c.state, c.with, trusted)
		}
	}
}

func repeated(e Evidence, n int) (list []Evidence) {
	for range n {
		list = append(list, e)
	}
	return list
}

// No number of equal counts outweighs tokens that differ: two tokenizers agree on counts now and then.
func TestCountsDoNotHealWhatTokensShowed(t *testing.T) {
	b := NewBook()
	b.Hear(subject("e", Chat), "w", tokensOther)
	for range 100 {
		b.Hear(subject("e", Chat), "w", countEqual)
	}
	if b.Trusted(Group{"m", chat.VLLM, Chat}) {
		t.Error("healed by counts")
	}
}

func TestOneEngineThatDiffersIsNamedAndItsGroupNotTrusted(t *testing.T) {
	b := NewBook()
	b.Hear(subject("good", Chat), "ns/good", tokensEqual)
	b.Hear(subject("bad", Chat), "ns/bad", Compare([]uint32{1, 2, 3}, []uint32{1, 9, 3}))
	for _, c := range []struct {
		group Group
		want  bool
	}{
		{Group{"m", chat.VLLM, Chat}, false}, {Group{"m", chat.VLLM, Text}, true}, {Group{"m", chat.VLLM, Tools}, false},
		{Group{"m", chat.SGLang, Chat}, true}, {Group{"other", chat.VLLM, Chat}, true},
	} {
		if got := b.Trusted(c.group); got != c.want {
			t.Errorf("%+v: trusted %v", c.group, got)
		}
	}
	problems := b.Problems()
	if len(problems) != 1 || problems[0].Worker != "ns/bad" || !strings.Contains(problems[0].Message, "token 1 of 3 is 2, and 9 at the engine") {
		t.Errorf("%+v", problems)
	}
	b.Keep(map[string]bool{"good": true})
	if !b.Trusted(Group{"m", chat.VLLM, Chat}) || len(b.Problems()) != 0 {
		t.Error("an engine that is gone is still held against the group")
	}
}

func TestComparisonsSayWhereAndNotWhat(t *testing.T) {
	for _, c := range []struct {
		ours, theirs []uint32
		want         string
	}{
		{nil, nil, ""}, {[]uint32{1}, []uint32{1}, ""},
		{[]uint32{1, 2}, []uint32{1, 3}, "token 1 of 2 is 2, and 3 at the engine"},
		{[]uint32{1}, []uint32{1, 3}, "1 tokens, and 2 at the engine"},
	} {
		if got := Compare(c.ours, c.theirs); got.Difference != c.want || got.Count {
			t.Errorf("%v, %v: %+v", c.ours, c.theirs, got)
		}
	}
	if got := CompareCounts(3, 4); !got.Count || got.Difference == "" {
		t.Errorf("%+v", got)
	}
}

// The twin keeps the whole history and derives all from it.
func TestTrustIsWhatTheHistorySays(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	b := NewBook()
	history := map[Subject][]Evidence{}
	all := []Evidence{tokensEqual, tokensOther, countEqual, countOther}
	for step := range 600 {
		s := Subject{Group{fmt.Sprint(random.IntN(2)), chat.Dialect(random.IntN(2)), Kind(random.IntN(int(kinds)))}, fmt.Sprint(random.IntN(3))}
		e := all[random.IntN(len(all))]
		// Runs of one evidence, or none would be long enough to count.
		for range 1 + random.IntN(40)*random.IntN(2) {
			b.Hear(s, s.Engine, e)
			history[s] = append(history[s], e)
		}
		if random.IntN(50) == 0 {
			gone := fmt.Sprint(random.IntN(3))
			b.Keep(map[string]bool{"0": gone != "0", "1": gone != "1", "2": gone != "2"})
			for s := range history {
				if s.Engine == gone {
					delete(history, s)
				}
			}
		}
		want := map[Group]bool{}
		for s, h := range history {
			if twin(h) == Differs {
				want[s.Group] = true
			}
			if got := b.Verdict(s); got != twin(h) {
				t.Fatalf("seed %d step %d: %+v is %s, want %s", seed, step, s, got, twin(h))
			}
		}
		for s := range history {
			differs := false
			for kind := Text; kind <= s.Kind; kind++ {
				differs = differs || want[Group{s.Model, s.Dialect, kind}]
			}
			if b.Trusted(s.Group) == differs {
				t.Fatalf("seed %d step %d: %+v trusted %v", seed, step, s.Group, !differs)
			}
		}
	}
}

// twin judges a history from its end: the last word of tokens, and the counts since.
func twin(h []Evidence) Verdict {
	last := -1
	for i, e := range h {
		if !e.Count {
			last = i
		}
	}
	verdict, byCount := Unknown, false
	if last >= 0 {
		verdict = Equal
		if h[last].Difference != "" {
			verdict = Differs
		}
	}
	runOther, runEqual := 0, 0
	for _, e := range h[last+1:] {
		if e.Difference != "" {
			runOther, runEqual = runOther+1, 0
		} else {
			runOther, runEqual = 0, runEqual+1
		}
		switch {
		case verdict == Unknown && runEqual > 0:
			verdict = Equal
		case verdict == Unknown && runOther >= countsToDiffer, verdict == Equal && runOther >= countsToDoubt:
			verdict, byCount = Differs, true
		case verdict == Differs && byCount && runEqual >= countsToAgree:
			verdict, byCount = Equal, false
		}
	}
	return verdict
}

func TestTheBookIsBounded(t *testing.T) {
	b := NewBook()
	for i := range maxSubjects + 10 {
		b.Hear(subject(fmt.Sprint(i), Text), "w", tokensEqual)
	}
	if _, equal, _ := b.Counts(); equal != maxSubjects {
		t.Errorf("%d subjects", equal)
	}
}
