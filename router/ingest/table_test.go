package ingest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// standings are the states of a rank, each as a story leads there; where a state has parts that act otherwise, each is
// here.
var standings = []struct{ name, story string }{
	{"unknown", ""},
	{"pending, no connection", "register replays start=p1"},
	{"pending, asking", "register replays start=p1\nopen 1"},
	{"pending, holding", "register replays start=p1\nopen 1\nbatch 1 5"},
	{"pending, asked in vain", "register start=p1\nopen 1"},
	{"following", "register replays start=p1\nopen 1\nstart 1 p1\nbatch 1 0\nbatch 1 1\nbatch 1 2\nbatch 1 3\nbatch 1 4"},
	{"following, untrusted", "register start=p1\nopen 1\nstart 1 p1\nbatch 1 0\nbatch 1 4"},
	{"proving, no connection", "register replays start=p1\nopen 9\nstart 9 p1\nbatch 9 0\nbatch 9 1\nbatch 9 2\nbatch 9 3\nbatch 9 4\nclose 9"},
	{"proving, asking", "register replays start=p1\nopen 9\nstart 9 p1\nbatch 9 0\nbatch 9 1\nbatch 9 2\nbatch 9 3\nbatch 9 4\nclose 9\nopen 1"},
	{"proving, holding", "register replays start=p1\nopen 9\nstart 9 p1\nbatch 9 0\nbatch 9 1\nbatch 9 2\nbatch 9 3\nbatch 9 4\nclose 9\nopen 1\nbatch 1 6"},
	{"proving, start agreed", "register replays start=p1\nopen 9\nstart 9 p1\nbatch 9 0\nbatch 9 1\nbatch 9 2\nbatch 9 3\nbatch 9 4\nclose 9\nopen 1\nstart 1 p1"},
	{"forgotten", "register start=p1\nopen 1\nforget"},
}

// messages are one of each kind, and of those that act otherwise by what they bring.
var messages = []string{
	"register replays start=p1", "open 2", "close 1", "close 7",
	"batch 1 0", "batch 1 4", "batch 1 5", "batch 1 8", "batch 1 3", "batch 1 P2:3", "batch 1 P2:0", "batch 1 9@900",
	"batch 1 8 tight", "batch 1 5 clear", "batch 1 5 damaged", "batch 7 5",
	"end 1", "end 7",
	"replay NOW complete", "replay NOW complete 0-6", "replay NOW complete 4-6", "replay NOW complete P2:4-6",
	"replay NOW torn", "replay NOW timed_out 7-8", "replay 77 complete 0-6",
	"start 1 p1", "start 1 p2", "start 1 none", "start 1 unknown", "start 7 p1",
	"wait 1s", "wait 11s", "wait 61s", "relocated", "forget",
}

// No pair of state and message is undefined: each is in the golden table, keeps the invariants, and accounts for every
// batch.
func TestEveryStateTakesEveryMessage(t *testing.T) {
	var out strings.Builder
	for _, from := range standings {
		fmt.Fprintf(&out, "%s\n", from.name)
		for _, m := range messages {
			st := newStory(t)
			for _, line := range strings.Split(from.story, "\n") {
				if line != "" {
					st.tell(line)
				}
			}
			if !strings.HasPrefix(from.name, st.s.state.String()) {
				t.Fatalf("the story of %q leads to %v", from.name, st.s.state)
			}
			now := fmt.Sprint(max(st.s.question.gen, 1))
			did := st.tell(strings.Replace(m, "NOW", now, 1))
			st.accounted()
			fmt.Fprintf(&out, "  %-26s %s\n", m, strings.Join(summary(did), "; "))
		}
	}
	const file = "testdata/table.golden"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("the table changed; look at it with -update:\n%s", out.String())
	}
}

// summary folds repeated effects.
func summary(did []string) []string {
	var out []string
	n := 1
	for i, d := range did {
		verb, _, _ := strings.Cut(d, " P")
		if i+1 < len(did) && (verb == "apply" || verb == "discard") && strings.HasPrefix(did[i+1], verb+" P") {
			n++
			continue
		}
		if n > 1 {
			d = fmt.Sprintf("%s %d batches", verb, n)
			n = 1
		}
		out = append(out, d)
	}
	return slices.Clip(out)
}

func TestEveryWordHasAName(t *testing.T) {
	for s := range stateEnd {
		if s != StateUnknown && s.String() == "unknown" {
			t.Errorf("state %d has no name", s)
		}
	}
	for h := range hows {
		if h.String() == "" || h.String() == "unknown" {
			t.Errorf("how %d has no name", h)
		}
	}
	for d := range drops {
		if d.String() == "" || d.String() == "unknown" {
			t.Errorf("drop %d has no name", d)
		}
	}
	for p := Origin; p <= Untrusted; p++ {
		if p.String() == "" || p.String() == "unknown" {
			t.Errorf("proof %d has no name", p)
		}
	}
	for name, got := range map[string]string{"state": State(99).String(), "how": How(99).String(), "drop": Drop(99).String(), "proof": Proof(99).String()} {
		if got != "unknown" {
			t.Errorf("a %s beyond the list is called %q", name, got)
		}
	}
}
