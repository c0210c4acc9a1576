package enginesim

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs an engine for the rest of the test's bubble.
func start(t *testing.T, opts Options) *Engine {
	t.Helper()
	e, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return e
}

func readAll(t *testing.T, s *Stream) (tokens []uint32, err error) {
	t.Helper()
	for {
		event, err := s.Next(t.Context())
		if err != nil {
			return tokens, err
		}
		tokens = append(tokens, event.Tokens...)
	}
}

func state(t *testing.T, e *Engine) []RankState {
	t.Helper()
	st, err := e.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestAnAnswerTakesTheTimeTheModelSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, Options{PrefillTokensPerSecond: 1000, TokenInterval: 20 * time.Millisecond})
		prompt := ids(0, 500)
		output := Answer(prompt, 0, 11)
		begin := time.Now()
		s, err := e.Submit(t.Context(), Request{Prompt: prompt, Output: output, Rank: AnyRank})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := time.Since(begin), 500*time.Millisecond; got != want {
			t.Errorf("first token after %v, want %v", got, want)
		}
		rest, err := readAll(t, s)
		if !errors.Is(err, io.EOF) || !slices.Equal(rest, output[1:]) {
			t.Errorf("got %d more tokens and %v, want the 10 others and io.EOF", len(rest), err)
		}
		if got, want := time.Since(begin), 700*time.Millisecond; got != want {
			t.Errorf("last token after %v, want %v", got, want)
		}
	})
}

func TestASlowReaderMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, Options{TokenInterval: time.Millisecond})
		output := Answer(ids(0, 3), 0, 100)
		s, err := e.Submit(t.Context(), Request{Prompt: ids(0, 3), Output: output, Rank: AnyRank})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		event, err := s.Next(t.Context())
		if err != nil || !slices.Equal(event.Tokens, output) {
			t.Errorf("got %d tokens and %v, want all 100 in one event", len(event.Tokens), err)
		}
		if _, err := s.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("then got %v, want io.EOF", err)
		}
	})
}

func TestACancelledRequestLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, Options{TokenInterval: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		s, err := e.Submit(ctx, Request{Prompt: ids(0, 3), Output: ids(0, 100), Rank: AnyRank})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begin := time.Now()
		cancel()
		if tokens, err := readAll(t, s); !errors.Is(err, ErrCancelled) || len(tokens) != 1 {
			t.Errorf("got %d tokens and %v, want the one produced and ErrCancelled", len(tokens), err)
		}
		st := state(t, e)[0]
		if st.Running != 0 || st.Totals.Aborted != 1 || time.Since(begin) != 0 {
			t.Errorf("after %v: running %d aborted %d, want 0 and 1 at once", time.Since(begin), st.Running, st.Totals.Aborted)
		}
	})
}

func TestTheLeastLoadedRankServesUnlessOneIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, Options{DPSize: 3, TokenInterval: time.Second})
		submit := func(rank int) int {
			s, err := e.Submit(t.Context(), Request{Prompt: ids(0, 3), Output: ids(0, 100), Rank: rank})
			if err != nil {
				t.Fatal(err)
			}
			return s.Rank
		}
		var got []int
		for _, rank := range []int{1, AnyRank, AnyRank, AnyRank, 2} {
			got = append(got, submit(rank))
		}
		if want := []int{1, 0, 2, 0, 2}; !slices.Equal(got, want) {
			t.Errorf("served by %v, want %v", got, want)
		}
	})
}

func TestRanksShareNoCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, Options{DPSize: 2, PageSize: 4})
		for _, rank := range []int{0, 1, 0} {
			s, err := e.Submit(t.Context(), Request{Prompt: ids(0, 9), Output: ids(0, 1), Rank: rank})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := readAll(t, s); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		st := state(t, e)
		if st[0].Totals.CachedTokens != 8 || st[1].Totals.CachedTokens != 0 {
			t.Errorf("cached tokens: rank 0 %d, rank 1 %d, want 8 and 0", st[0].Totals.CachedTokens, st[1].Totals.CachedTokens)
		}
	})
}

func TestImpossibleRequestsAreTheCallersFault(t *testing.T) {
	e, err := New(Options{Blocks: 2, PageSize: 4, DPSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		req  Request
		want string
	}{
		"empty prompt": {Request{Output: ids(0, 1), Rank: AnyRank}, "empty"},
		"too long":     {Request{Prompt: ids(0, 5), Output: ids(0, 4), Rank: AnyRank}, "holds 8 tokens; the request needs 9"},
		"no such rank": {Request{Prompt: ids(0, 1), Rank: 2}, "ranks 0 to 1"},
		"rank below 0": {Request{Prompt: ids(0, 1), Rank: -2}, "rank -2"},
	} {
		_, err := e.Submit(t.Context(), c.req)
		var fault *RequestError
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a RequestError with %q", name, err, c.want)
		}
	}
}

func TestClearingRefusesWhileSomethingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, Options{DPSize: 2, PageSize: 2, TokenInterval: time.Second})
		if _, err := e.Submit(t.Context(), Request{Prompt: ids(0, 5), Output: ids(0, 4), Rank: 1}); err != nil {
			t.Fatal(err)
		}
		if busy, err := e.ClearCache(t.Context()); err != nil || !slices.Equal(busy, []int{1}) {
			t.Errorf("busy %v, error %v; want rank 1", busy, err)
		}
		<-time.After(time.Minute)
		if busy, err := e.ClearCache(t.Context()); err != nil || len(busy) != 0 {
			t.Errorf("later: busy %v, error %v; want none", busy, err)
		}
		if got := state(t, e)[1].Blocks; got.Free != got.Total {
			t.Errorf("after clearing: %+v", got)
		}
	})
}

func TestAStoppedEngineEndsItsStreamsAndTakesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Options{TokenInterval: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		running := make(chan struct{})
		go func() { defer close(running); _ = e.Run(ctx) }()
		s, err := e.Submit(t.Context(), Request{Prompt: ids(0, 3), Output: ids(0, 100), Rank: AnyRank})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		if tokens, err := readAll(t, s); !errors.Is(err, ErrStopped) || len(tokens) != 1 {
			t.Errorf("got %d tokens and %v, want 1 and ErrStopped", len(tokens), err)
		}
		<-running
		if _, err := e.Submit(t.Context(), Request{Prompt: ids(0, 3), Rank: AnyRank}); !errors.Is(err, ErrStopped) {
			t.Errorf("Submit after the end: %v, want ErrStopped", err)
		}
	})
}

func TestOptionsReportEverythingWrongAtOnce(t *testing.T) {
	err := Options{DPSize: -1, Blocks: MaxBlocks + 1, PageSize: -5, PrefillTokensPerSecond: -1, TokenInterval: -1, MaxRunning: -1, MaxQueued: -1}.Validate()
	for _, field := range []string{"DPSize", "Blocks", "PageSize", "PrefillTokensPerSecond", "TokenInterval", "MaxRunning", "MaxQueued"} {
		if err == nil || !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%s is not reported: %v", field, err)
		}
	}
	if err := (Options{DPSize: MaxDPSize, Blocks: MaxBlocks, PageSize: MaxPageSize}).Validate(); err != nil {
		t.Errorf("the limits themselves are refused: %v", err)
	}
}

func TestAnswersDependOnPromptAndChoiceAlone(t *testing.T) {
	a := Answer(ids(0, 9), 0, 50)
	if !slices.Equal(a, Answer(ids(0, 9), 0, 50)) || !slices.Equal(a[:20], Answer(ids(0, 9), 0, 50)[:20]) {
		t.Error("one question, two answers")
	}
	if slices.Equal(a, Answer(ids(0, 9), 1, 50)) || slices.Equal(a, Answer(ids(1, 9), 0, 50)) {
		t.Error("two questions, one answer")
	}
}

// A submitted sequence may still be in the mailbox when the engine stops. Which
// of the two a rank sees first is chance, so try often.
func TestAStreamNobodyEverReadEndsWithTheEngine(t *testing.T) {
	for range 40 {
		synctest.Test(t, func(t *testing.T) {
			e, err := New(Options{TokenInterval: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			s, err := e.Submit(context.Background(), Request{Prompt: ids(0, 3), Output: ids(0, 9), Rank: AnyRank})
			if err != nil {
				t.Fatal(err)
			}
			stopped, stop := context.WithCancel(context.Background())
			stop()
			_ = e.Run(stopped)
			for err == nil {
				_, err = s.Next(context.Background())
			}
			if !errors.Is(err, ErrStopped) {
				t.Errorf("got %v, want ErrStopped", err)
			}
		})
	}
}
