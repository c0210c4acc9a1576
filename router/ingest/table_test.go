package ingest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

type standing struct{ name, story string }

// standings are the states of a rank, each as a story leads there; where a state has parts that act otherwise, each is
// here.
var standings = []standing{
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

// standingsBesideSiblings are those of ranks whose siblings can be asked.
var standingsBesideSiblings = []standing{
	{"unknown", "siblings"},
	{"pending, no connection", booting[:len(booting)-len(stands)]},
	{"pending, owed", booting},
	{"pending, holding", booting + "\nbatch 1 5"},
	{"pending, once more", booting + "\nbatch 1 5\ngraft NOW 2\nreplay 1 torn"},
	{"pending, asking", booting + "\nabandon NOW no_peers"},
	{"pending, asking and holding", booting + "\nbatch 1 5\nabandon NOW no_peers"},
	{"cold", "siblings\nregister start=p1" + stands + "\nabandon NOW no_peers"},
	{"cold, asking", "siblings\nregister replays start=p1\nabandon NOW timed_out" + stands},
	{"cold, keeping", "siblings\nregister start=p1" + stands + "\nabandon NOW no_peers\nkeep NOW"},
	{"following, whole", booting + "\nbatch 1 0\nbatch 1 1\nbatch 1 2\nbatch 1 3\nbatch 1 4"},
	{"following, awaiting a proof", booting + "\ngraft NOW 4"},
	{"following, awaiting a proof, silent engine", "siblings\nregister start=p1" + stands + "\ngraft NOW 4"},
	{"following, ailing", booting + "\ngraft NOW 3 unwitnessed\nbatch 1 4"},
	{"following, keeping", booting + "\ngraft NOW 3 unwitnessed\nkeep NOW\nbatch 1 4"},
	{"following, tail asked for", booting + "\ngraft NOW 3\nbatch 1 4\nbehind 4 8\nwait 60s\nbehind 4 8"},
	{"following, suspect", booting + "\ngraft NOW 3\nbatch 1 4\nsuspect 4 minority"},
	{"following, all asked for", booting + "\ngraft NOW 3\nbatch 1 4\nsuspect 4 alone"},
	{"proving, awaiting a proof", strings.ReplaceAll(booting, " 1", " 9") + "\ngraft NOW 4\nclose 9\nopen 1"},
	{"repairing, asking", booting + "\ngraft NOW 3\nbatch 1 4\nbatch 1 7"},
	{"repairing, owed", booting + "\ngraft NOW 3\nbatch 1 4\nbatch 1 7\nreplay 1 torn"},
	{"repairing, seam", booting + "\ngraft NOW 4\nbatch 1 7"},
	{"repairing, seam of a heal", strings.Replace(booting, "replays ", "", 1) + "\nabandon NOW no_peers\nregister replays start=p1\nkeep NOW\ngraft NOW 4\nbatch 1 7"},
	{"forgotten", booting + "\nforget"},
}

const (
	stands  = "\nopen 1\nstart 1 p1"
	booting = "siblings\nregister replays start=p1" + stands
)

var messagesOfSiblings = []string{
	"graft NOW 4", "graft NOW 6", "graft NOW 2", "graft NOW P2:4", "graft NOW 6 partial", "graft NOW 6 unwitnessed", "graft NOW 6 format1", "graft 77 6",
	"abandon NOW fleet_cold", "abandon NOW timed_out", "abandon NOW uncovered", "abandon 77 no_peers", "keep NOW", "keep 77",
	"witness NOW 4 advanced", "witness NOW 4 no_advance", "witness NOW 4 unknown", "witness 77 4 advanced", "witness NOW 3 advanced",
	"suspect 4 alone", "suspect 4 minority", "suspect 4 weaker", "suspect 3 weaker", "equal 4", "behind 4 8", "behind 3 8",
}

// No pair of state and message is undefined: each is in the golden table, keeps the invariants, and accounts for every
// batch.
func TestEveryStateTakesEveryMessage(t *testing.T) {
	tabulate(t, "testdata/table.golden", standings, messages)
}

// The same for ranks whose siblings can be asked.
func TestEveryStateTakesEveryMessageBesideSiblings(t *testing.T) {
	tabulate(t, "testdata/table_siblings.golden", standingsBesideSiblings, slices.Concat(messages, messagesOfSiblings))
}

func tabulate(t *testing.T, file string, standings []standing, messages []string) {
	var out strings.Builder
	for _, from := range standings {
		fmt.Fprintf(&out, "%s\n", from.name)
		for _, m := range messages {
			st, asWritten := newStory(t), m
			for _, line := range strings.Split(from.story, "\n") {
				if line != "" {
					st.tell(line)
				}
			}
			if !strings.HasPrefix(from.name, st.s.state.String()) {
				t.Fatalf("the story of %q leads to %v", from.name, st.s.state)
			}
			if strings.HasPrefix(m, "replay") {
				m = strings.Replace(m, "NOW", fmt.Sprint(max(st.s.question.gen, 1)), 1)
			}
			did := st.tell(m)
			st.accounted()
			fmt.Fprintf(&out, "  %-26s %s\n", asWritten, strings.Join(summary(did), "; "))
		}
	}
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
