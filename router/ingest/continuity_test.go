package ingest

import (
	"strings"
	"testing"
)

// play tells a story's lines and gives everything that was done, in order.
func play(t *testing.T, lines ...string) (st *story, did []string) {
	t.Helper()
	st = newStory(t)
	for _, line := range lines {
		did = append(did, st.tell(line)...)
	}
	st.accounted()
	return st, did
}

// before checks that one thing was done, and before another.
func before(t *testing.T, did []string, first, second string) {
	t.Helper()
	at := func(what string) int {
		for i, d := range did {
			if strings.HasPrefix(d, what) {
				return i
			}
		}
		t.Fatalf("%q was not done:\n%s", what, strings.Join(did, "\n"))
		return 0
	}
	if at(first) > at(second) {
		t.Errorf("%q came after %q:\n%s", first, second, strings.Join(did, "\n"))
	}
}

func never(t *testing.T, did []string, what string) {
	t.Helper()
	for _, d := range did {
		if strings.HasPrefix(d, what) {
			t.Errorf("%q was done:\n%s", d, strings.Join(did, "\n"))
		}
	}
}

// A process that restarted has already passed our cursor when we are back: its batch looks like the end of a gap.
func TestRestartPastTheCursorIsNotRepairedAsAGap(t *testing.T) {
	for name, answer := range map[string]string{
		"by the start":  "start 2 p2",
		"by the replay": "replay 2 complete P2:1-9",
		"by a replay that has nothing from the cursor on": "replay 2 complete",
	} {
		t.Run(name, func(t *testing.T) {
			st, did := play(t, "register replays start=p1", "open 1", "start 1 p1", "batch 1 0", "batch 1 1", "close 1",
				"open 2", "batch 2 P2:9", answer)
			before(t, did, "clear", "proving -> pending: restart")
			never(t, did, "apply P2:9")
			never(t, did, "distrust true")
			if st.s.tally.Gaps != 0 {
				t.Errorf("%d gaps were booked", st.s.tally.Gaps)
			}
			if n := st.s.tally.Restarts; n[HowStart]+n[HowReplay] != 1 {
				t.Errorf("restarts: %v", n)
			}
		})
	}
}

// The dead connection may deliver beside the new one. What it brings is later than the cursor, or below it: both look like
// something else.
func TestLateDeliveryOfTheOldConnectionIsNotARestart(t *testing.T) {
	st, did := play(t, "register replays start=p1", "open 1", "start 1 p1", "batch 1 0", "batch 1 1", "open 2",
		"batch 1 P2:0", "batch 1 2", "end 1", "replay 2 complete 1-3", "batch 1 P2:1", "batch 2 4", "close 1")
	never(t, did, "clear")
	never(t, did, "apply P2:")
	if got := st.standing(); got != `following, at 4, origin, start "p1"` {
		t.Errorf("the rank is %s", got)
	}
	if st.s.tally.Late != 3 {
		t.Errorf("%d late batches were booked, want 3", st.s.tally.Late)
	}
}

// A replay repeats what was applied, and later than the cursor's batch was made.
func TestReplayBesideLiveIsNotARestart(t *testing.T) {
	st, did := play(t, "register replays start=p1", "open 1", "start 1 p1", "batch 1 0", "batch 1 1", "batch 1 2", "close 1", "open 2",
		"batch 2 3", "batch 2 4", "replay 2 complete 2-6", "batch 2 5", "batch 2 6", "batch 2 7")
	never(t, did, "clear")
	if got := st.standing(); got != `following, at 7, origin, start "p1"` {
		t.Errorf("the rank is %s", got)
	}
	if got := st.s.tally.Batches; got != 8 {
		t.Errorf("%d batches were applied, want each of 0..7 once", got)
	}
}

func TestNobodyToAskMeansNotTrusted(t *testing.T) {
	st, _ := play(t, "register start=none", "open 1", "start 1 none", "batch 1 0", "close 1", "open 2", "batch 2 1", "start 2 none")
	if got := st.standing(); got != `following, at 1, untrusted, start ""` {
		t.Errorf("the rank is %s", got)
	}
}

func TestTenSecondsWithoutAnAnswerMeanNotTrusted(t *testing.T) {
	st, did := play(t, "register replays start=p1", "open 1", "start 1 p1", "batch 1 0", "close 1", "wait 60s", "open 2", "batch 2 1", "wait 9s")
	never(t, did, "distrust true")
	if st.s.state != Proving {
		t.Fatalf("the rank is %v after 9 s", st.s.state)
	}
	st.tell("wait 1s")
	if got := st.standing(); got != `following, at 1, untrusted, start "p1"` && got != `following, at 1, untrusted` {
		t.Errorf("the rank is %s after 10 s", got)
	}
}

func TestHeldBatchesAreBoundedInNumber(t *testing.T) {
	st, _ := play(t, "register replays start=p1", "open 1", "start 1 p1", "batch 1 0", "close 1", "open 2")
	for _, b := range st.batches("1-1025") {
		st.step(&arrived{epoch: 2, batch: b})
	}
	if got := st.standing(); got != `following, at 1025, untrusted, start "p1"` && got != "following, at 1025, untrusted" {
		t.Errorf("the rank is %s", got)
	}
	if st.s.tally.Overflows != 1 {
		t.Errorf("%d overflows", st.s.tally.Overflows)
	}
	st.accounted()
}
