package enginesim

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// steps keeps what an engine of one rank tells its observer.
type steps []Step

func (s *steps) Observe(step Step) { *s = append(*s, step) }

func TestARestartBreaksAnswersOffAndEmptiesTheCacheSilently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen steps
		e, err := New(Options{PageSize: 2, TokenInterval: time.Second, Observer: &seen})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		running := make(chan struct{})
		go func() { defer close(running); _ = e.Run(ctx) }()
		defer func() { stop(); <-running }()
		s, err := e.Submit(t.Context(), Request{Prompt: ids(0, 5), Output: ids(0, 100), Rank: AnyRank})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before, err := e.Blocks(t.Context())
		if err != nil || len(before[0]) != 2 {
			t.Fatalf("before the restart the cache holds %d blocks (%v), want 2", len(before[0]), err)
		}
		if err := e.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(t, s); !errors.Is(err, ErrRestarted) || !errors.Is(err, ErrStopped) {
			t.Errorf("the answer ended with %v", err)
		}
		after, err := e.Blocks(t.Context())
		if err != nil || len(after[0]) != 0 {
			t.Errorf("after it: %d blocks, %v", len(after[0]), err)
		}
		synctest.Wait()
		last := seen[len(seen)-1].Changes
		if _, ok := last[len(last)-1].(Restarted); !ok || len(last) != 1 {
			t.Errorf("the observer heard %#v, want Restarted alone", last)
		}
		again, err := e.Submit(t.Context(), Request{Prompt: ids(0, 5), Rank: AnyRank})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(t, again); !errors.Is(err, io.EOF) {
			t.Errorf("a request after it: %v", err)
		}
		if cached, _ := again.Usage(); cached != 0 {
			t.Errorf("%d tokens of an old life are cached", cached)
		}
		states, err := e.State(t.Context())
		if n := states[0].Totals; err != nil || n.Restarts != 1 || n.Requests != n.Finished+n.Aborted {
			t.Errorf("totals %+v, %v", n, err)
		}
	})
}

func TestBlocksAreWhatTheObserverHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen steps
		e, err := New(Options{PageSize: 2, Blocks: 4, Observer: &seen})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		running := make(chan struct{})
		go func() { defer close(running); _ = e.Run(ctx) }()
		defer func() { stop(); <-running }()
		for i := range 5 {
			s, err := e.Submit(t.Context(), Request{Prompt: ids(100*i, 5), Rank: AnyRank})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := readAll(t, s); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		synctest.Wait() // the answer ends before its blocks are told
		held := map[cache.Key]bool{}
		for _, step := range seen {
			for _, c := range step.Changes {
				switch c := c.(type) {
				case Stored:
					for _, k := range c.Keys {
						held[k] = true
					}
				case Removed:
					for _, k := range c.Keys {
						delete(held, k)
					}
				}
			}
		}
		got, err := e.Blocks(t.Context())
		if err != nil || len(got[0]) == 0 || len(got[0]) != len(held) || !slices.ContainsFunc(got[0], func(k cache.Key) bool { return held[k] }) {
			t.Fatalf("the cache holds %d blocks, the observer %d, %v", len(got[0]), len(held), err)
		}
		for _, k := range got[0] {
			if !held[k] {
				t.Error("a block nobody heard of")
			}
		}
	})
}

func TestPagesOfPairsAreStoredOneTokenLater(t *testing.T) {
	s := newScript(Options{PageSize: 2, Bigram: true, TokenInterval: time.Second})
	prompt, output := ids(0, 4), ids(500, 3) // pairs are complete with tokens 3, 5 and 7
	s.submitQuietly(prompt, output)
	want := cache.BigramChain(append(slices.Clone(prompt), output...), 2, "")
	if len(s.held) != 1 || !s.held[want[0]] {
		t.Errorf("after prefill %d pages are held, want the first", len(s.held))
	}
	s.settle()
	if len(s.held) != 2 || !s.held[want[1]] {
		t.Errorf("at the end %d pages are held, want 2 of the %d named", len(s.held), len(want))
	}
}

// submitQuietly is submit for pages that observe cannot recompute.
func (s *script) submitQuietly(prompt, output []uint32) { s.submit(prompt, output); s.bad = nil }
