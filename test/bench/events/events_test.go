package main

import (
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
)

// A short run of every kind, scaled down: measure itself fails if the ranks end up with other blocks than the story's,
// a batch is skipped or dropped, or the pump distrusts a rank.
func TestAShortRunOfEveryRowIsUnderstoodAndCounted(t *testing.T) {
	var all []figures
	for _, r := range rows(1.0 / 64) {
		f, err := measure(r, time.Millisecond)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		all = append(all, f)
		switch r.Kind {
		case kindDecode:
			for _, d := range []decoding{f.Hashes, f.Tokens, f.Any} {
				if d.Batches <= 0 || d.Blocks < d.Batches*2*wirePiece*.999 || d.Blocks > d.Batches*2*wirePiece*1.001 {
					t.Errorf("%s: %+v", r.Dialect, d)
				}
			}
			// That the decoder allocates nothing is package kvevents' promise; under -race its pool forgets on purpose.
			if ours := max(f.Hashes.Allocations, f.Tokens.Allocations); f.Any.Allocations < 10 || ours > f.Any.Allocations/10 {
				t.Errorf("%s: %.1f allocations a batch, msgpack %.1f", r.Dialect, ours, f.Any.Allocations)
			}
		case kindApply, kindPipeline:
			if f.Batches <= 0 || f.Blocks < f.Batches {
				t.Errorf("%+v: %.0f batches/s, %.0f blocks/s", r, f.Batches, f.Blocks)
			}
		case kindKeyMap:
			// 18 bytes a slot, never more than full; the fixed parts of 8 maps are spread over few blocks here.
			if b := f.BytesABlock; b.End < 18 || b.Worst < b.End || b.Worst > 100 {
				t.Errorf("%+v bytes a block", b)
			}
		case kindKeys:
			if f.Prompt <= 0 {
				t.Errorf("%+v: a prompt took %v", r, f.Prompt)
			}
		}
	}
	text := markdown(all)
	for _, want := range []string{"| sglang-array |", "| vllm-map-map |", "| tokens |", "bytes** a (rank, block)", "| vllm-map | tokens |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

func TestAReportJudgesByTheTargets(t *testing.T) {
	rows := func(sglang, tokens, bytes float64) []figures {
		return []figures{
			{Row: row{Kind: kindApply, Scheme: index.SchemeSGLang, Batch: 8}, Blocks: sglang},
			{Row: row{Kind: kindApply, Scheme: index.SchemeTokens, Batch: 8}, Blocks: tokens},
			{Row: row{Kind: kindKeyMap, Scheme: index.SchemeTokens}, BytesABlock: bytesABlock{Worst: bytes, End: 20}},
		}
	}
	if text := markdown(rows(4e6, 2.5e6, 24)); strings.Contains(text, "missed") || strings.Count(text, "met") < 3 {
		t.Errorf("all at the targets:\n%s", text)
	}
	if text := markdown(rows(3.9e6, 2.4e6, 24.1)); strings.Count(text, "missed") != 3 {
		t.Errorf("all beyond the targets:\n%s", text)
	}
}

// A story that stores what is held, or removes what is not, would measure something else.
func TestAStoryStoresWhatIsAbsentAndRemovesWhatIsHeld(t *testing.T) {
	s := newStory(1, 3*sessionBlocks, 32, false)
	held := map[uint64]bool{}
	take := func(m move) []uint64 { return s.sessions[m.session].hashes[m.from:m.to] }
	store := func(n int, m move) {
		if p := s.parent(m); p != nil && !held[*p] {
			t.Fatalf("batch %d stores behind a block that is not held", n)
		}
		for _, h := range take(m) {
			if held[h] {
				t.Fatalf("batch %d stores a block that is held", n)
			}
			held[h] = true
		}
	}
	for n := range s.fills() {
		store(n, s.fill(n))
	}
	for n := range 5 * s.steps() {
		in, out := s.step(n)
		store(s.fills()+n, in)
		for _, h := range s.leaving(out) {
			if !held[h] {
				t.Fatalf("step %d removes a block that is not held", n)
			}
			delete(held, h)
		}
		if len(held) != s.resident() {
			t.Fatalf("after step %d there are %d blocks, want %d", n, len(held), s.resident())
		}
	}
}
