package enginesim

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// script drives a rank by hand and writes down what it does.
type script struct {
	rank *rank
	now  time.Time
	ids  uint64
	log  []string
	held map[cache.Key]bool // what an observer believes is cached
	bad  []string           // what an observer could not believe
}

func newScript(opts Options) *script {
	return &script{rank: newRank(opts.withDefaults(), 0), now: epoch, held: map[cache.Key]bool{}}
}

func (s *script) send(m message) {
	for _, e := range s.rank.step(s.now, m) {
		s.note(e)
	}
}

func (s *script) submit(prompt, output []uint32) uint64 {
	s.ids++
	seq := newSequence(s.ids, Request{Prompt: prompt, Output: output}, s.rank.opts)
	s.send(submit{seq})
	return s.ids
}

func (s *script) wait(d time.Duration) {
	s.now = s.now.Add(d)
	s.send(tick{})
}

// settle steps at each due time until nothing is left to do.
func (s *script) settle() {
	for {
		due, ok := s.rank.next()
		if !ok {
			return
		}
		s.now = due
		s.send(tick{})
	}
}

func (s *script) note(e effect) {
	switch e := e.(type) {
	case progressed:
		s.log = append(s.log, fmt.Sprintf("%v #%d token %d, %d cached", e.at.Sub(epoch), e.seq.id, e.produced, e.cached))
	case ended:
		s.log = append(s.log, fmt.Sprintf("%v #%d ended: %v", e.at.Sub(epoch), e.seq.id, e.err))
	case changed:
		for _, c := range e.step.Changes {
			s.observe(c)
		}
	}
}

// observe believes what it is told, and complains when it cannot.
func (s *script) observe(c Change) {
	switch c := c.(type) {
	case Stored:
		if c.Parent != nil && !s.held[*c.Parent] {
			s.bad = append(s.bad, "stored behind an unknown parent")
		}
		if len(c.Tokens) != len(c.Keys)*c.PageSize || cacheNext(c) != c.Keys[0] {
			s.bad = append(s.bad, "the tokens are not those of the keys")
		}
		for _, k := range c.Keys {
			if s.held[k] {
				s.bad = append(s.bad, "stored twice")
			}
			s.held[k] = true
		}
	case Removed:
		for _, k := range c.Keys {
			if !s.held[k] {
				s.bad = append(s.bad, "removed what was not stored")
			}
			delete(s.held, k)
		}
	case Cleared:
		clear(s.held)
	}
}

func cacheNext(c Stored) cache.Key {
	return cache.Next(c.Parent, c.Tokens[:c.PageSize])
}

func (s *script) want(t *testing.T, lines ...string) {
	t.Helper()
	if !slices.Equal(s.log, lines) {
		t.Errorf("got\n%s\nwant\n%s", list(s.log), list(lines))
	}
	s.log = nil
}

func list(lines []string) string {
	out := ""
	for _, l := range lines {
		out += "\t" + l + "\n"
	}
	return out
}

func ids(from, n int) []uint32 {
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = uint32(from + i)
	}
	return tokens
}

func TestPrefillQueuesAndDecodeRunsBesideIt(t *testing.T) {
	s := newScript(Options{PageSize: 4, PrefillTokensPerSecond: 10, TokenInterval: 300 * time.Millisecond})
	s.submit(ids(0, 10), ids(500, 3))   // 1 s of prefill
	s.submit(ids(100, 5), ids(600, 1))  // waits for it, then 0.5 s
	s.submit(ids(200, 20), ids(700, 1)) // waits for both, then 2 s
	s.settle()
	s.want(t,
		"1s #1 token 1, 0 cached",
		"1.3s #1 token 2, 0 cached",
		"1.5s #2 token 1, 0 cached",
		"1.5s #2 ended: <nil>",
		"1.6s #1 token 3, 0 cached",
		"1.6s #1 ended: <nil>",
		"3.5s #3 token 1, 0 cached",
		"3.5s #3 ended: <nil>",
	)
}

func TestCachedTokensCostNoPrefill(t *testing.T) {
	s := newScript(Options{PageSize: 4, PrefillTokensPerSecond: 10})
	s.submit(ids(0, 10), ids(500, 1))
	s.submit(ids(0, 10), ids(500, 1))
	s.settle()
	s.want(t,
		"1s #1 token 1, 0 cached",
		"1s #1 ended: <nil>",
		"1.2s #2 token 1, 8 cached",
		"1.2s #2 ended: <nil>",
	)
}

func TestTheLastPromptTokenIsAlwaysComputed(t *testing.T) {
	s := newScript(Options{PageSize: 4})
	s.submit(ids(0, 8), ids(500, 1))
	s.submit(ids(0, 8), ids(500, 1))
	s.submit(ids(0, 9), ids(500, 1))
	s.want(t,
		"0s #1 token 1, 0 cached", "0s #1 ended: <nil>",
		"0s #2 token 1, 4 cached", "0s #2 ended: <nil>",
		"0s #3 token 1, 8 cached", "0s #3 ended: <nil>",
	)
}

// The newest token of an answer has not been computed, so it completes no page.
func TestTheAnswerIsCachedForTheNextTurn(t *testing.T) {
	for answer, want := range map[int]int64{5: 8, 6: 8, 7: 12} {
		s := newScript(Options{PageSize: 4})
		s.submit(ids(0, 6), ids(6, answer))
		s.submit(ids(0, 20), ids(500, 1))
		if got := s.rank.state().Totals.CachedTokens; got != want {
			t.Errorf("after a prompt of 6 and an answer of %d tokens the next turn found %d, want %d", answer, got, want)
		}
	}
}

func TestASequenceThatDoesNotFitWaitsAndHoldsTheQueue(t *testing.T) {
	s := newScript(Options{PageSize: 4, Blocks: 4, TokenInterval: time.Second})
	s.submit(ids(0, 8), ids(500, 4)) // 3 pages for 3 s
	s.submit(ids(100, 8), ids(600, 1))
	s.submit(ids(200, 2), ids(700, 1)) // would fit, but came later
	s.settle()
	s.want(t,
		"0s #1 token 1, 0 cached", "1s #1 token 2, 0 cached", "2s #1 token 3, 0 cached", "3s #1 token 4, 0 cached",
		"3s #1 ended: <nil>",
		"3s #2 token 1, 0 cached", "3s #2 ended: <nil>",
		"3s #3 token 1, 0 cached", "3s #3 ended: <nil>",
	)
}

func TestNoMoreThanMaxRunningRun(t *testing.T) {
	s := newScript(Options{MaxRunning: 2, TokenInterval: time.Second})
	for range 3 {
		s.submit(ids(0, 4), ids(500, 2))
	}
	if state := s.rank.state(); state.Running != 2 || state.Queued != 1 {
		t.Errorf("running %d queued %d, want 2 and 1", state.Running, state.Queued)
	}
}

func TestAFullQueueRefuses(t *testing.T) {
	s := newScript(Options{MaxRunning: 1, MaxQueued: 1, TokenInterval: time.Second})
	for range 3 {
		s.submit(ids(0, 4), ids(500, 2))
	}
	s.want(t, "0s #1 token 1, 0 cached", "0s #3 ended: "+ErrQueueFull.Error())
	if got := s.rank.state().Totals.Rejected; got != 1 {
		t.Errorf("rejected %d, want 1", got)
	}
}

func TestPaceSlowsTheTokensThatFollow(t *testing.T) {
	s := newScript(Options{TokenInterval: time.Second})
	s.submit(ids(0, 4), ids(500, 3))
	s.send(setPace{3}) // the second token is already on its way
	s.settle()
	s.want(t, "0s #1 token 1, 0 cached", "1s #1 token 2, 0 cached", "4s #1 token 3, 0 cached", "4s #1 ended: <nil>")
}

// TestEveryStateTakesEveryMessage walks the table of the package doc.
func TestEveryStateTakesEveryMessage(t *testing.T) {
	opts := Options{PageSize: 2, MaxRunning: 1, PrefillTokensPerSecond: 4, TokenInterval: time.Second}
	states := map[string]func(s *script){ // leaves sequence 1 in the state
		"queued": func(s *script) {
			s.rank.opts.MaxRunning = 0
			s.submit(ids(0, 4), ids(500, 3))
			s.rank.opts.MaxRunning = 1
		},
		"prefilling": func(s *script) { s.submit(ids(0, 4), ids(500, 3)) },
		"decoding":   func(s *script) { s.submit(ids(0, 4), ids(500, 3)); s.wait(time.Second) },
		"over":       func(s *script) { s.submit(ids(0, 4), ids(500, 3)); s.settle() },
	}
	cancelled := "#1 ended: " + ErrCancelled.Error()
	messages := map[string]struct {
		m    message
		want map[string]string // by state; what the log must end with
	}{
		"cancel":       {cancel{1}, map[string]string{"queued": "0s " + cancelled, "prefilling": "0s " + cancelled, "decoding": "1s " + cancelled, "over": ""}},
		"cancel other": {cancel{9}, map[string]string{}},
		"pace":         {setPace{2}, map[string]string{}},
		"tick":         {tick{}, map[string]string{}},
	}
	for state, enter := range states {
		for name, c := range messages {
			t.Run(state+"/"+name, func(t *testing.T) {
				s := newScript(opts)
				enter(s)
				s.log = nil
				s.send(c.m)
				var want []string
				if line := c.want[state]; line != "" {
					want = []string{line}
				}
				s.want(t, want...)
				s.settle()
				if st := s.rank.state(); st.Running != 0 || st.Queued != 0 || st.Blocks.Pinned != 0 || st.Blocks.Private != 0 {
					t.Errorf("after the end: %+v", st)
				}
			})
		}
		t.Run(state+"/clear", func(t *testing.T) {
			s := newScript(opts)
			enter(s)
			alive := s.rank.running() > 0 || len(s.rank.queue) > 0
			reply := make(chan bool, 1)
			effects := s.rank.step(s.now, clearCache{reply})
			i := slices.IndexFunc(effects, func(e effect) bool { _, ok := e.(cleared); return ok })
			if i < 0 || effects[i].(cleared).done == alive {
				t.Errorf("clear with running=%v: effects %v", alive, effects)
			}
		})
	}
}

func TestAStoppingRankEndsEverySequence(t *testing.T) {
	s := newScript(Options{MaxRunning: 2, PrefillTokensPerSecond: 1, TokenInterval: time.Hour})
	s.submit(ids(0, 1), ids(500, 9))
	s.wait(time.Second) // #1 decodes
	s.submit(ids(0, 9), ids(500, 9))
	s.submit(ids(0, 9), ids(500, 9))
	s.log = nil
	for _, e := range s.rank.drain(s.now, errors.New("stop")) {
		s.note(e)
	}
	s.want(t, "1s #3 ended: stop", "1s #1 ended: stop", "1s #2 ended: stop")
}
