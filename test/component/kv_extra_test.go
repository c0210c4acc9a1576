package component

import (
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
)

// speaker is an engine that says what it is told to, over ZMTP in one dialect.
type speaker struct {
	t       *testing.T
	engine  *streamEngine
	dialect wire.Dialect
	pump    *ingest.Pump
	seq     int64
}

// vllmDialects are those of vLLM: with array and map events and batches.
var vllmDialects = []wire.Dialect{wire.VLLMArray, wire.VLLMArrayInts, wire.VLLMMap, wire.VLLMMapInts, wire.VLLMMapMap}

func forSpeakers(t *testing.T, f func(t *testing.T, s *speaker)) {
	for _, dialect := range vllmDialects {
		t.Run(dialect.Name, func(t *testing.T) {
			engines := bootStreamEngines(t, dialect, false)
			s := &speaker{t: t, engine: engines[0], dialect: dialect, pump: startFeed(t, engines, false)}
			eventually(t, "the publisher has its subscriber", func() bool { return s.engine.pub.Subscriptions() == 1 })
			f(t, s)
		})
	}
}

// says publishes a batch and waits until it is applied.
func (s *speaker) says(events ...wire.Event) {
	s.t.Helper()
	s.engine.pub.Publish(nil, wire.SeqFrame(s.seq), s.dialect.Encode(wire.Batch{TS: 1000 + float64(s.seq), Events: events}))
	s.seq++
	eventually(s.t, "the batch is applied", func() bool { return s.rank().Status().Tally.Batches == uint64(s.seq) })
}

func (s *speaker) rank() *ingest.Rank { return s.pump.View().Rank(s.engine.rank()) }

// depth is how many blocks of a chain a request of text finds.
func (s *speaker) depth(ids ...uint64) int {
	section := s.rank().Section
	var r index.Result
	section.Index.Match(streamKeys(section, ids), index.Deepest, index.DefaultWeights, &r)
	n, _ := r.Of(s.engine.rank())
	return int(n)
}

func (s *speaker) want(depth int, ids ...uint64) {
	s.t.Helper()
	if got := s.depth(ids...); got != depth {
		s.t.Errorf("a request for %d finds %d blocks, want %d", ids, got, depth)
	}
}

// blocks stores a chain from its root under hashes that begin behind shift: equal tokens, other blocks.
func blocks(shift uint64, change func(*wire.Stored), ids ...uint64) wire.Stored {
	e := wire.Stored{BlockSize: streamBlock, Medium: "GPU"}
	for _, id := range ids {
		e.Hashes = append(e.Hashes, streamHash(shift+id))
		e.Tokens = streamTokens(e.Tokens, id)
	}
	change(&e)
	return e
}

func plainBlocks(*wire.Stored) {}

// kv-events 4, extra keys in the chunk: where an image was, the tokens are placeholders, equal for all images and for the
// text of them. Blocks with an image are no text's, and not another image's.
func TestBlocksWithAnImageAreNeverAText(t *testing.T) {
	forSpeakers(t, func(t *testing.T, s *speaker) {
		image := func(name string, at int) func(*wire.Stored) {
			return func(e *wire.Stored) {
				e.ExtraKeys = make([][]any, len(e.Hashes))
				e.ExtraKeys[at] = []any{[]any{name, 3}} // its hash, and where in the block it begins
			}
		}
		s.says(blocks(100, image("cat", 1), 1, 2, 3))
		s.want(1, 1, 2, 3) // up to the image the prefix is text
		s.says(blocks(200, image("dog", 1), 1, 2, 3), blocks(300, image("cat", 0), 4, 5))
		s.want(1, 1, 2, 3)
		s.want(0, 4, 5)
		if status := s.rank().Status(); status.Trust.Suspect || status.Tally.Damaged != 0 {
			t.Errorf("the rank is %+v, %+v", status.Trust, status.Tally)
		}
		s.says(blocks(400, plainBlocks, 1, 2, 3))
		s.want(3, 1, 2, 3)
		s.says(wire.Removed{Hashes: []wire.Hash{streamHash(403), streamHash(402)}, Medium: "GPU"})
		s.want(1, 1, 2, 3) // block 1 is there for both images, and for the text still
	})
}

// kv-events 4: the blocks of a model that has sliding windows only are indexed from those groups, until another kind is
// named.
func TestAModelOfWindowsOnlyIsIndexedFromThem(t *testing.T) {
	group := func(n int, kind string, window int) func(*wire.Stored) {
		return func(e *wire.Stored) {
			e.Group, e.GroupKind = &n, kind
			if window > 0 {
				e.Window = &window
			}
		}
	}
	forSpeakers(t, func(t *testing.T, s *speaker) {
		s.says(blocks(0, group(0, "sliding_window", 128), 1, 2, 3))
		s.want(3, 1, 2, 3)
		if !s.rank().Status().Trust.UpperBound {
			t.Error("a window's depth is believed like full attention's")
		}
		zero := 0
		s.says(wire.Removed{Hashes: []wire.Hash{streamHash(3)}, Medium: "GPU", Group: &zero})
		s.want(2, 1, 2, 3)
		s.says(blocks(1000, group(1, "full_attention", 0), 7, 8))
		s.want(2, 7, 8)
		s.want(0, 1, 2, 3) // the windows' blocks are no prefixes any more
		s.says(wire.Removed{Hashes: []wire.Hash{streamHash(1), streamHash(2)}, Medium: "GPU", Group: &zero})
		s.want(2, 7, 8)
	})
}

// kv-events 4, orphans: a block whose parent is not known answers nothing until it is, and dies with its removal.
func TestAnOrphanOverTheWireIsFoundWhenItsParentComes(t *testing.T) {
	forSpeakers(t, func(t *testing.T, s *speaker) {
		behind := func(parent uint64, ids ...uint64) wire.Stored {
			return blocks(0, func(e *wire.Stored) { h := streamHash(parent); e.Parent = &h }, ids...)
		}
		s.says(behind(1, 2, 3), behind(3, 4))
		s.want(0, 1, 2, 3, 4)
		if n := s.rank().Status().Orphans; n != 3 {
			t.Errorf("%d orphans, want 3", n)
		}
		s.says(wire.Removed{Hashes: []wire.Hash{streamHash(4)}, Medium: "GPU"}) // it dies with its removal
		s.says(blocks(0, plainBlocks, 1))
		s.want(3, 1, 2, 3, 4)
		if n := s.rank().Status().Orphans; n != 0 {
			t.Errorf("%d orphans are left", n)
		}
	})
}
