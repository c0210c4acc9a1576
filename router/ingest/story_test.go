package ingest

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/kvevents"
)

var update = flag.Bool("update", false, "write testdata/*.txt anew")

// Each file of testdata is a story: what a rank is told, one message a line, and indented below it what it does, and where
// it stands afterwards.
//
//	register [replays] [start=NAME|none]   introspected, before a connection is opened
//	open E | close E | end E               of connection epoch E; end is END_SEQ
//	batch E B [clear] [damaged] [tight]    a live batch
//	replay GEN ENDING B...                 an answer to a replay; complete, torn or timed_out
//	start E NAME|none|unknown              an answer to the question for the engine's start
//	wait DURATION                          the clock goes on and ticks
//	relocated | forget
//
// B is SEQ or P2:SEQ for the batch of a later process, SEQ@T for another time (seconds). A range, 3-6, stands for four.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := tellStory(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want) {
				t.Errorf("the story went otherwise:\n%s", got)
			}
		})
	}
}

// story plays one rank.
type story struct {
	t    *testing.T
	s    *rankState
	now  time.Time
	in   map[*kvevents.Batch]string // batches that went in and have not come out
	line string
}

func newStory(t *testing.T) *story {
	return &story{t: t, s: newRankState("uid", nil), now: time.Unix(1000, 0), in: map[*kvevents.Batch]string{}}
}

func tellStory(t *testing.T, text string) string {
	st := newStory(t)
	var out strings.Builder
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for _, did := range st.tell(line) {
			fmt.Fprintln(&out, "  "+did)
		}
	}
	st.accounted()
	return out.String()
}

// tell gives one line to the rank and what came of it.
func (st *story) tell(line string) []string {
	st.t.Helper()
	st.line = line
	w := strings.Fields(line)
	if out, ok := st.tellOfSiblings(w); ok {
		return out
	}
	var m message
	switch w[0] {
	case "register":
		m = st.register(w[1:])
	case "open":
		m = opened{st.epoch(w[1])}
	case "close":
		m = closed{st.epoch(w[1])}
	case "end":
		m = ended{st.epoch(w[1])}
	case "batch":
		m = st.arrival(w[1:])
	case "replay":
		m = st.answer(w[1:])
	case "start":
		m = identified{st.epoch(w[1]), startNamed(w[2])}
	case "wait":
		d, err := time.ParseDuration(w[1])
		if err != nil {
			st.t.Fatalf("%s: %v", line, err)
		}
		st.now = st.now.Add(d)
		m = tick{}
	case "relocated":
		m = relocated{}
	case "forget":
		m = forget{}
	default:
		st.t.Fatalf("%q is no message", line)
	}
	return st.step(m)
}

func (st *story) register(words []string) message {
	var r registered
	for _, w := range words {
		if w == "replays" {
			r.replays = true
		} else {
			r.start = startNamed(strings.TrimPrefix(w, "start="))
		}
	}
	return r
}

func startNamed(name string) Start {
	switch name {
	case "unknown":
		return Start{}
	case "none":
		return Start{Known: true}
	}
	return Start{Known: true, ID: name}
}

func (st *story) epoch(w string) uint64 {
	n, err := strconv.ParseUint(w, 10, 64)
	if err != nil {
		st.t.Fatalf("%s: %v", st.line, err)
	}
	return n
}

func (st *story) arrival(words []string) message {
	m := &arrived{epoch: st.epoch(words[0]), batch: st.batches(words[1])[0]}
	for _, w := range words[2:] {
		switch w {
		case "clear":
			m.batch.Events = append(m.batch.Events, &kvevents.Cleared{})
		case "damaged":
			m.batch.Skips[kvevents.SkipUnknownEvent]++
		case "tight":
			m.tight = true
		default:
			st.t.Fatalf("%s: %q?", st.line, w)
		}
	}
	return m
}

func (st *story) answer(words []string) message {
	endings := map[string]kvevents.Ending{"complete": kvevents.Complete, "torn": kvevents.Torn, "timed_out": kvevents.TimedOut}
	r := &kvevents.ReplayResult{Ending: endings[words[1]], Dense: true}
	for _, w := range words[2:] {
		for _, b := range st.batches(w) {
			if n := len(r.Batches); n > 0 && r.Batches[n-1].Seq+1 != b.Seq {
				r.Dense = false
			}
			r.Batches = append(r.Batches, kvevents.Replayed{Batch: b})
		}
	}
	return replayed{st.epoch(words[0]), r}
}

// batches reads [Pn:]SEQ[-SEQ][@T].
func (st *story) batches(w string) []*kvevents.Batch {
	process, rest := 1, w
	if p, after, ok := strings.Cut(w, ":"); ok {
		process, rest = int(p[1]-'0'), after
	}
	rest, at, timed := strings.Cut(rest, "@")
	first, last, ok := strings.Cut(rest, "-")
	if !ok {
		last = first
	}
	from, err1 := strconv.ParseInt(first, 10, 64)
	to, err2 := strconv.ParseInt(last, 10, 64)
	if err1 != nil || err2 != nil {
		st.t.Fatalf("%s: %q is no batch", st.line, w)
	}
	var out []*kvevents.Batch
	for seq := from; seq <= to; seq++ {
		seconds := float64(process*1000) + float64(seq)
		if timed {
			if seconds, err1 = strconv.ParseFloat(at, 64); err1 != nil {
				st.t.Fatalf("%s: %v", st.line, err1)
			}
		}
		h := fnv.New64a()
		fmt.Fprint(h, process, seq, seconds)
		b := &kvevents.Batch{Seq: seq, Time: sec(seconds), Hash: h.Sum64(), Rank: kvevents.NoRank}
		st.in[b] = fmt.Sprintf("P%d:%d", process, seq)
		out = append(out, b)
	}
	return out
}

func (st *story) step(m message) []string {
	var out []string
	for _, e := range st.s.step(st.now, m) {
		out = append(out, st.effect(e))
	}
	return append(out, "= "+st.standing())
}

func (st *story) effect(e effect) string {
	switch e := e.(type) {
	case apply:
		if e.keep {
			return "apply and keep " + st.in[e.batch]
		}
		return "apply " + st.leaves(e.batch)
	case discard:
		return "discard " + st.leaves(e.batch)
	case clearAll:
		return "clear"
	case distrust:
		return fmt.Sprintf("distrust %v", e.is)
	case redial:
		return fmt.Sprintf("redial %d: %v", e.epoch, e.why)
	case askReplay:
		if e.wait > 0 {
			return fmt.Sprintf("ask replay %d from %d in %v", e.gen, e.from, e.wait)
		}
		return fmt.Sprintf("ask replay %d from %d", e.gen, e.from)
	case dropReplay:
		return fmt.Sprintf("drop replay %d", e.gen)
	case askStart:
		return fmt.Sprintf("ask start, epoch %d", e.epoch)
	case drop:
		return "drop the rank"
	case moved:
		return fmt.Sprintf("%v -> %v: %s", e.from, e.to, e.why)
	case noted:
		return fmt.Sprintf("note: %s (%s)", e.what, e.why)
	}
	st.t.Fatalf("%T has no words", e)
	return ""
}

// leaves books a batch out: each leaves once.
func (st *story) leaves(b *kvevents.Batch) string {
	name, ok := st.in[b]
	if !ok {
		st.t.Fatalf("%s: batch %d left twice", st.line, b.Seq)
	}
	delete(st.in, b)
	return name
}

// accounted checks that every batch that did not leave is held.
func (st *story) accounted() {
	st.t.Helper()
	held := map[*kvevents.Batch]bool{}
	for _, b := range slices.Concat(st.s.held.list, st.s.kept.list) {
		if held[b] {
			st.t.Errorf("%s: batch %s is held twice", st.line, st.in[b])
		}
		held[b] = true
	}
	for b, name := range st.in {
		if !held[b] {
			st.t.Errorf("%s: batch %s neither left nor is held", st.line, name)
		}
	}
}

func (st *story) standing() string {
	s := st.s
	w := []string{s.state.String()}
	if s.epoch == 0 {
		w = append(w, "no connection")
	}
	if s.state == Following || s.state == Proving || s.state == Repairing {
		w = append(w, fmt.Sprintf("at %d, %v", s.cursor.Seq, s.cursor.Proof))
		if s.cursor.Partial {
			w = append(w, "partial")
		}
		if id := s.cursor.Incarnation.Start; id.Known {
			w = append(w, fmt.Sprintf("start %q", id.ID))
		}
	}
	if n := len(s.held.list); n > 0 {
		w = append(w, fmt.Sprintf("holds %d..%d", s.held.list[0].Seq, s.held.list[n-1].Seq))
	}
	return strings.Join(append(w, st.owing()...), ", ")
}
