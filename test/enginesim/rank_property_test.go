package enginesim

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// action is one thing a random history does.
type action struct {
	After  time.Duration
	Prompt []uint32
	Output int
	Cancel uint64 // instead of a prompt
}

func drawHistory(t *rapid.T) []action {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) action {
		a := action{After: time.Duration(rapid.IntRange(0, 4).Draw(t, "after")) * 250 * time.Millisecond}
		if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
			a.Cancel = rapid.Uint64Range(1, 20).Draw(t, "cancel")
			return a
		}
		a.Prompt = rapid.SliceOfN(rapid.Uint32Range(0, 1), 1, 9).Draw(t, "prompt")
		a.Output = rapid.IntRange(0, 6).Draw(t, "output")
		return a
	}), 1, 25).Draw(t, "history")
}

func play(s *script, history []action, punctual bool) {
	for _, a := range history {
		at := s.now.Add(a.After)
		for punctual {
			due, ok := s.rank.next()
			if !ok || due.After(at) {
				break
			}
			s.now = due
			s.send(tick{})
		}
		s.now = at
		if a.Cancel != 0 {
			s.send(cancel{a.Cancel})
			continue
		}
		s.submit(a.Prompt, Answer(a.Prompt, 0, a.Output))
	}
	s.settle()
}

func TestALateClockChangesNothingAndTheObserverKnowsTheCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opts := Options{
			PageSize:               rapid.IntRange(1, 3).Draw(t, "page"),
			Blocks:                 rapid.IntRange(16, 30).Draw(t, "blocks"),
			MaxRunning:             rapid.IntRange(1, 3).Draw(t, "running"),
			MaxQueued:              rapid.IntRange(1, 6).Draw(t, "queued"),
			PrefillTokensPerSecond: rapid.SampledFrom([]float64{0, 8, 3}).Draw(t, "rate"),
			TokenInterval:          rapid.SampledFrom([]time.Duration{0, 250 * time.Millisecond, 400 * time.Millisecond}).Draw(t, "interval"),
		}
		history := drawHistory(t)
		punctual, late := newScript(opts), newScript(opts)
		play(punctual, history, true)
		play(late, history, false)
		if !reflect.DeepEqual(punctual.log, late.log) {
			t.Fatalf("on time\n%s\nlate\n%s", list(punctual.log), list(late.log))
		}
		checkRest(t, punctual)
		checkRest(t, late)
	})
}

// checkRest checks a rank that has nothing left to do.
func checkRest(t *rapid.T, s *script) {
	if len(s.bad) > 0 {
		t.Fatalf("the observer was told nonsense: %v", s.bad)
	}
	st := s.rank.state()
	if st.Running != 0 || st.Queued != 0 || st.Blocks.Pinned != 0 || st.Blocks.Private != 0 {
		t.Fatalf("something is left: %+v", st)
	}
	if st.Blocks.Cached != len(s.held) || int64(len(s.held)) != st.Totals.StoredBlocks-st.Totals.RemovedBlocks {
		t.Fatalf("the cache holds %d blocks, the observer %d, the totals say %+v", st.Blocks.Cached, len(s.held), st.Totals)
	}
	if n := st.Totals; n.Requests != n.Finished+n.Aborted+n.Rejected {
		t.Fatalf("not every request ended: %+v", n)
	}
	for key := range s.held {
		if s.rank.cache.Match([]cache.Key{key}) != 1 {
			t.Fatalf("the observer holds a block that the cache does not")
		}
	}
}
