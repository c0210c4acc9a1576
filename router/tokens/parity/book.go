package parity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/routerfleet/routerfleet/router/tokens/chat"
)

// Kind is what of a tokenizer's files a prompt uses.
type Kind uint8

// Kinds: a completion's text, a chat, and a chat with tools. A wrong template leaves texts right.
const (
	Text Kind = iota
	Chat
	Tools

	kinds
)

var kindNames = [kinds]string{"text", "chat", "tools"}

// String is the metric label.
func (k Kind) String() string { return kindNames[min(k, kinds-1)] }

// Group is what shares one way to tokens: engines of one dialect that serve one model, for one kind of prompt.
type Group struct {
	Model   string
	Dialect chat.Dialect
	Kind    Kind
}

// Subject is what a verdict is of.
type Subject struct {
	Group
	Engine string // its id
}

// Verdict says how tokens compare. The zero value is that nobody knows.
type Verdict uint8

// Verdicts.
const (
	Unknown Verdict = iota
	Equal
	Differs
)

// String is for people.
func (v Verdict) String() string { return [...]string{"unknown", "equal", "differs"}[min(v, Differs)] }

// Evidence is one comparison.
type Evidence struct {
	// Count says that only the number of tokens was compared.
	Count bool
	// Difference says where the two differ, in words without any of the prompt; empty: they are equal.
	Difference string
}

const (
	// countsToDiffer in a row say that tokens differ where nothing ever agreed, countsToDoubt in a row where it did: a
	// client could send a few requests that are counted in another way. countsToAgree in a row say that they do so no more.
	countsToDiffer = 3
	countsToDoubt  = 32
	countsToAgree  = 8
	// maxSubjects bounds the book: some thousand engines with all kinds.
	maxSubjects = 8192
)

// state is the machine's of one subject.
type state struct {
	verdict  Verdict
	byCount  bool // verdict differs because of counts
	against  int  // counts in a row
	agreeing int
	example  string // of the difference
	worker   string // the engine's name
}

// step takes evidence and says whether the verdict changed.
func (s *state) step(e Evidence) bool {
	before := s.verdict
	switch {
	case !e.Count && e.Difference == "":
		*s = state{verdict: Equal, worker: s.worker}
	case !e.Count:
		*s = state{verdict: Differs, example: e.Difference, worker: s.worker}
	case e.Difference == "":
		s.against = 0
		s.agreeing++
		if s.verdict == Unknown || s.verdict == Differs && s.byCount && s.agreeing >= countsToAgree {
			s.verdict, s.byCount, s.example = Equal, false, ""
		}
	default:
		s.agreeing = 0
		s.against++
		if s.verdict == Unknown && s.against >= countsToDiffer || s.verdict == Equal && s.against >= countsToDoubt {
			s.verdict, s.byCount, s.example = Differs, true, e.Difference
		}
	}
	return s.verdict != before
}

// Book has the verdicts. It is for any number of goroutines; Trusted does not block.
type Book struct {
	mu       sync.Mutex // guards subjects, and held to replace distrusted
	subjects map[Subject]*state
	// distrusted are groups in which some engine differs. The map is immutable.
	distrusted atomic.Pointer[map[Group]bool]
}

// NewBook gives an empty one.
func NewBook() *Book {
	b := &Book{subjects: map[Subject]*state{}}
	b.distrusted.Store(&map[Group]bool{})
	return b
}

// Trusted says whether the router's own tokens may be used. A chat is made with what makes a text, and one with tools with
// what makes a chat: they are no better than those.
func (b *Book) Trusted(g Group) bool {
	distrusted := *b.distrusted.Load()
	for kind := Text; kind <= g.Kind; kind++ {
		if distrusted[Group{g.Model, g.Dialect, kind}] {
			return false
		}
	}
	return true
}

// Hear takes evidence on a subject, whose engine people call worker. changed is the new verdict if it is another one.
func (b *Book) Hear(s Subject, worker string, e Evidence) (now Verdict, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.subjects[s]
	if st == nil {
		if len(b.subjects) >= maxSubjects {
			return Unknown, false
		}
		st = &state{}
		b.subjects[s] = st
	}
	st.worker = worker
	before := st.verdict
	changed = st.step(e)
	if changed && (before == Differs || st.verdict == Differs) {
		b.publish()
	}
	return st.verdict, changed
}

// publish derives the groups that are distrusted. The mutex is held.
func (b *Book) publish() {
	next := map[Group]bool{}
	for s, st := range b.subjects {
		if st.verdict == Differs {
			next[s.Group] = true
		}
	}
	b.distrusted.Store(&next)
}

// Keep forgets the engines that are not among those listed by id.
func (b *Book) Keep(engines map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.subjects)
	maps.DeleteFunc(b.subjects, func(s Subject, _ *state) bool { return !engines[s.Engine] })
	if len(b.subjects) != before {
		b.publish()
	}
}

// Verdict gives what is known of a subject.
func (b *Book) Verdict(s Subject) Verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	if st := b.subjects[s]; st != nil {
		return st.verdict
	}
	return Unknown
}

// Problem is an engine that makes other tokens than the router.
type Problem struct{ Worker, Message string }

// Problems lists them, one for each engine and kind, in the order of workers.
func (b *Book) Problems() []Problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []Problem
	for s, st := range b.subjects {
		if st.verdict == Differs {
			list = append(list, Problem{st.worker, fmt.Sprintf("model %s: the engine's tokens of a %s prompt are not the router's (%s); is --tokenizer-path that of the engine's model?", s.Model, s.Kind, st.example)})
		}
	}
	slices.SortFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Message, b.Message))
	})
	return list
}

// Counts counts the subjects by verdict.
func (b *Book) Counts() (unknown, equal, differs int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, st := range b.subjects {
		switch st.verdict {
		case Equal:
			equal++
		case Differs:
			differs++
		default:
			unknown++
		}
	}
	return unknown, equal, differs
}

// Compare is evidence from two lists of tokens.
func Compare(ours, theirs []uint32) Evidence {
	n := min(len(ours), len(theirs))
	for i := range n {
		if ours[i] != theirs[i] {
			return Evidence{Difference: fmt.Sprintf("token %d of %d is %d, and %d at the engine", i, len(ours), ours[i], theirs[i])}
		}
	}
	if len(ours) != len(theirs) {
		return Evidence{Difference: fmt.Sprintf("%d tokens, and %d at the engine", len(ours), len(theirs))}
	}
	return Evidence{}
}

// CompareCounts is evidence from the numbers of tokens.
func CompareCounts(ours, theirs int) Evidence {
	if ours == theirs {
		return Evidence{Count: true}
	}
	return Evidence{Count: true, Difference: fmt.Sprintf("%d tokens, and %d counted by the engine", ours, theirs)}
}
