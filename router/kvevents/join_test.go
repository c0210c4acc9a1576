package kvevents

import (
	"slices"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/routerfleet/routerfleet/router/index"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
)

// Whatever an event that is skipped has left behind, the pages around it are one chain with their own chunks.
func TestABrokenEventBetweenPagesLeavesTheirChainWhole(t *testing.T) {
	broken := func(v ...any) wire.Raw {
		b, err := msgpack.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, event := range map[string]wire.Event{
		"among its hashes": broken("BlockStored", []any{7, 8, "x"}, nil, []any{1}, 1),
		"after its hashes": broken("BlockRemoved", []any{7, 8}, []any{}),
		"among its tokens": broken("BlockStored", []any{7, 8}, nil, []any{1, "x"}, 1),
		"an unknown event": broken("BlockMigrated", []any{7, 8}),
	} {
		b := decode(t, index.SchemeTokens, wire.SGLangMap.Encode(wire.Batch{Events: []wire.Event{
			wire.Stored{Hashes: []wire.Hash{1}, Tokens: []uint32{10}, BlockSize: 1}, event,
			wire.Stored{Hashes: []wire.Hash{2}, Parent: ptr[wire.Hash](1), Tokens: []uint32{20}, BlockSize: 1},
		}}))
		if len(b.Events) != 1 {
			t.Errorf("%s: %s", name, told(b))
			continue
		}
		s := b.Events[0].(*Stored)
		if !slices.Equal(s.Hashes, []Hash{1, 2}) || !slices.Equal(s.Chunks, []index.Chunk{chunkOf("", nil, 10), chunkOf("", nil, 20)}) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestEventsOfUnlikeKindAreNotJoined(t *testing.T) {
	first := wire.Stored{Hashes: []wire.Hash{1}, Tokens: []uint32{10}, BlockSize: 1}
	child := wire.Stored{Hashes: []wire.Hash{2}, Parent: ptr[wire.Hash](1), Tokens: []uint32{20}, BlockSize: 1}
	change := func(f func(*wire.Stored)) wire.Stored { s := child; f(&s); return s }
	ints, err := msgpack.Marshal([]any{"BlockStored", []any{1}, nil, []any{10}, 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2]wire.Event{
		"another parent":     {first, change(func(s *wire.Stored) { s.Parent = ptr[wire.Hash](3) })},
		"a root":             {first, change(func(s *wire.Stored) { s.Parent = nil })},
		"no tokens":          {first, change(func(s *wire.Stored) { s.Tokens = nil })},
		"another block size": {first, change(func(s *wire.Stored) { s.BlockSize = 2 })},
		"another medium":     {first, change(func(s *wire.Stored) { s.Medium = "DISK" })},
		"another group":      {first, change(func(s *wire.Stored) { s.Group = ptr(1) })},
		"another kind":       {first, change(func(s *wire.Stored) { s.GroupKind = "mamba" })},
		"another window":     {first, change(func(s *wire.Stored) { s.Window = ptr(9) })},
		"another adapter":    {first, change(func(s *wire.Stored) { s.LoRAName = "l" })},
		"another salt":       {first, change(func(s *wire.Stored) { s.CacheSalt = "s" })},
		"another hash form":  {wire.Raw(ints), child}, // the dialect below gives bytes
		"a set's child":      {wire.Stored{Hashes: []wire.Hash{9, 1}, BlockSize: 1}, change(func(s *wire.Stored) { s.Tokens = nil })},
		"a removal between":  {first, wire.Removed{Hashes: []wire.Hash{1}}},
		"another removal":    {wire.Removed{Hashes: []wire.Hash{1}}, wire.Removed{Hashes: []wire.Hash{1}, Group: ptr(1)}},
	} {
		for _, scheme := range []index.Scheme{index.SchemeSGLang, index.SchemeTokens} {
			b := decode(t, scheme, wire.VLLMMap.Encode(wire.Batch{Events: pair[:]}))
			if len(b.Events) != 2 || b.Untrusted() {
				t.Errorf("%s, %s: %s", name, scheme, told(b))
			}
		}
	}
	b := decode(t, index.SchemeTokens, wire.VLLMMap.Encode(wire.Batch{Events: []wire.Event{first, child}}))
	if len(b.Events) != 1 {
		t.Errorf("the pair itself is not joined: %s", told(b))
	}
}

func TestStoreNarrowRemoveWide(t *testing.T) {
	for name, want := range map[string][2]index.Tier{
		"":           {index.Device, index.AllTiers},
		"GPU":        {index.Device, index.Device},
		"CPU_PINNED": {index.Host, index.Host},
		"CPU":        {index.Host, index.Host},
		"DISK":       {index.Disk, index.Disk},
		"STORAGE":    {index.Disk, index.Disk},
		"EXTERNAL":   {index.External, index.External},
		"REMOTE":     {index.External, index.External},
		"TAPE":       {0, index.AllTiers},
	} {
		b := decode(t, index.SchemeSGLang, wire.SGLangMap.Encode(wire.Batch{Events: []wire.Event{
			wire.Stored{Hashes: []wire.Hash{1}, BlockSize: 1, Medium: name}, wire.Removed{Hashes: []wire.Hash{1}, Medium: name},
		}}))
		got := [2]index.Tier{b.Events[0].(*Stored).Medium.StoreTier(), b.Events[1].(*Removed).Medium.RemoveTier()}
		if got != want {
			t.Errorf("medium %q stores into and removes from %v, want %v", name, got, want)
		}
	}
}

func TestGroupsOfHybridModelsAreClassified(t *testing.T) {
	for kind, want := range map[string]GroupKind{
		"": GroupUnspecified, "full_attention": GroupFull, "mla_attention": GroupFull, "sink_full_attention": GroupFull,
		"sliding_window": GroupWindow, "sliding_window_mla": GroupWindow, "chunked_local_attention": GroupWindow,
		"mamba": GroupOther, "unknown": GroupOther, "of next year": GroupOther,
	} {
		b := decode(t, index.SchemeSGLang, wire.VLLMArray.Encode(wire.Batch{Events: []wire.Event{wire.Stored{Hashes: []wire.Hash{1}, BlockSize: 1, GroupKind: kind}}}))
		if got := b.Events[0].(*Stored).GroupKind; got != want {
			t.Errorf("%q is %s, want %s", kind, got, want)
		}
	}
	b := decode(t, index.SchemeSGLang, wire.VLLMArray.Encode(wire.Batch{Events: []wire.Event{wire.Stored{Hashes: []wire.Hash{1}, BlockSize: 1, Window: ptr(128)}}}))
	if s := b.Events[0].(*Stored); s.GroupKind != GroupWindow || s.Window != 128 {
		t.Errorf("a window without a kind: %+v", s)
	}
}
