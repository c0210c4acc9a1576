package kvevents

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/routerfleet/routerfleet/router/index"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
)

func ptr[T any](v T) *T { return &v }

// told is what a batch says, in a form that outlives it and compares.
func told(b *Batch) string {
	var out strings.Builder
	fmt.Fprintf(&out, "seq %d time %d rank %d skips %v\n", b.Seq, b.Time, b.Rank, b.Skips)
	for _, e := range b.Events {
		fmt.Fprintf(&out, "%T %+v\n", e, e)
	}
	return out.String()
}

func decodeAs(t testing.TB, scheme index.Scheme, payload []byte) string {
	t.Helper()
	b := NewDecoder(DecoderOptions{Scheme: scheme, Seed: 1}).Decode(0, payload)
	defer b.Release()
	return told(b)
}

// decode gives the events of a batch, which the test releases at its end.
func decode(t *testing.T, scheme index.Scheme, payload []byte) *Batch {
	t.Helper()
	b := NewDecoder(DecoderOptions{Scheme: scheme, Seed: 1}).Decode(0, payload)
	t.Cleanup(b.Release)
	return b
}

// some is a batch with everything an engine may say.
func some(rank *int) wire.Batch {
	return wire.Batch{TS: 1.7e9, Rank: rank, Events: []wire.Event{
		wire.Stored{Hashes: []wire.Hash{1, 1 << 63, 3}, Tokens: []uint32{1, 2, 3, 4, 5, 70000}, BlockSize: 2, Medium: "GPU"},
		wire.Stored{Hashes: []wire.Hash{4}, Parent: ptr[wire.Hash](77), Tokens: []uint32{7, 8}, BlockSize: 2, Medium: "CPU", LoRAName: "a"},
		wire.Removed{Hashes: []wire.Hash{9, 8}, Medium: "DISK", Group: ptr(1)},
		wire.Cleared{},
		wire.Stored{Hashes: []wire.Hash{5}, Tokens: []uint32{9}, BlockSize: 2, Group: ptr(2), GroupKind: "sliding_window", Window: ptr(128)},
	}}
}

func TestEveryDialectDecodesToOneModel(t *testing.T) {
	for _, scheme := range []index.Scheme{index.SchemeSGLang, index.SchemeVLLM, index.SchemeTokens} {
		want := map[wire.HashForm]string{}
		for _, d := range wire.Dialects {
			for _, nulls := range []bool{false, true} {
				d.Nulls = nulls
				got := decodeAs(t, scheme, d.Encode(some(ptr(3))))
				form := d.Hashes
				if form == wire.Int64 {
					form = wire.Uint64
				}
				if want[form] == "" {
					want[form] = got
				}
				if got != want[form] {
					t.Errorf("%s, nulls %v: got\n%s want\n%s", d.Name, nulls, got, want[form])
				}
			}
		}
		// The forms differ in nothing but their mark.
		if a, b := strings.ReplaceAll(want[wire.Bytes32], "Form:2", "Form:1"), want[wire.Uint64]; a != b {
			t.Errorf("%s: bytes give\n%s integers\n%s", scheme, a, b)
		}
	}
}

func TestDialectsMayBeMixedInOneBatch(t *testing.T) {
	array := wire.SGLangArray.Encode(wire.Batch{Events: []wire.Event{wire.Stored{Hashes: []wire.Hash{1}, BlockSize: 1, Tokens: []uint32{1}}}})
	event := wire.Raw(array[10+1 : len(array)-1]) // after the header and ts; the list's header; the rank
	for _, d := range wire.Dialects {
		b := decode(t, index.SchemeSGLang, d.Encode(wire.Batch{Events: []wire.Event{event, wire.Removed{Hashes: []wire.Hash{2}}, event}}))
		if len(b.Events) != 3 || b.Untrusted() {
			t.Errorf("%s: %s", d.Name, told(b))
		}
	}
}

// The encoder of the tests is our own; here one we did not write speaks.
func TestBatchesOfAnotherEncoderDecode(t *testing.T) {
	hash := bytes.Repeat([]byte{0xab}, 24)
	hash = append(hash, 0, 0, 0, 0, 0, 0, 1, 2)
	batch := map[string]any{
		"type": "KVEventBatch", "ts": 12.25, "data_parallel_rank": 5, "future": map[string]any{"x": []any{1, "y"}},
		"events": []any{
			[]any{"BlockStored", []any{hash}, nil, []any{1, 2}, 2, nil, "GPU", nil, nil, 0, "full_attention"},
			map[string]any{"type": "BlockRemoved", "block_hashes": []any{hash}, "medium": "GPU", "ownership": "me"},
			map[string]any{"type": "AllBlocksCleared", "medium": nil},
		},
	}
	payload, err := msgpack.Marshal(batch)
	if err != nil {
		t.Fatal(err)
	}
	b := decode(t, index.SchemeVLLM, payload)
	if b.Untrusted() || b.Rank != 5 || b.Time != 12_250_000_000 || len(b.Events) != 3 {
		t.Fatal(told(b))
	}
	if s := b.Events[0].(*Stored); s.Hashes[0] != 0x102 || s.Form != BytesForm || s.GroupKind != GroupFull || s.Group != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestAnUnknownOrBrokenEventCostsItselfOnly(t *testing.T) {
	good := wire.Removed{Hashes: []wire.Hash{1}}
	list := func(v ...any) wire.Raw {
		b, err := msgpack.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	cases := []struct {
		name   string
		event  wire.Raw
		reason Skip
	}{
		{"an unknown tag", list("BlockMigrated", []int{1, 2}, map[string]int{"a": 1}), SkipUnknownEvent},
		{"no list or map", list()[:0], SkipUndecodable}, // replaced below
		{"an empty list", list(), SkipUndecodable},
		{"a number for a tag", list(7), SkipUndecodable},
		{"a text for hashes", list("BlockRemoved", "x"), SkipUndecodable},
		{"a text for a hash", list("BlockRemoved", []any{"x"}), SkipUndecodable},
		{"a short byte hash", list("BlockRemoved", []any{[]byte{1, 2, 3}}), SkipUndecodable},
		{"hashes of two forms", list("BlockRemoved", []any{1, make([]byte, 32)}), SkipUndecodable},
		{"no hashes", list("BlockStored"), SkipUndecodable},
		{"no block size", list("BlockStored", []any{1}, nil, []any{}), SkipUndecodable},
		{"a block size without end", list("BlockStored", []any{1}, nil, []any{}, uint64(math.MaxUint64)), SkipUndecodable},
		{"a negative block size", list("BlockStored", []any{1}, nil, []any{}, -1), SkipUndecodable},
		{"a parent of another form", list("BlockStored", []any{1}, make([]byte, 32), []any{}, 1), SkipUndecodable},
		{"a negative group", list("BlockRemoved", []any{1}, nil, -1), SkipUndecodable},
		{"a list for a medium", list("BlockRemoved", []any{1}, []any{}), SkipUndecodable},
		{"a name too long", list("BlockStored", []any{1}, nil, []any{}, 1, nil, nil, strings.Repeat("x", maxNameBytes+1)), SkipTooLarge},
		{"tokens that are none", list("BlockStored", []any{1}, nil, 5, 1), SkipUndecodable},
	}
	cases[1].event = wire.Raw{0x07}
	for _, c := range cases {
		b := decode(t, index.SchemeSGLang, wire.SGLangArray.Encode(wire.Batch{Events: []wire.Event{good, c.event, wire.Cleared{}}}))
		if len(b.Events) != 2 || !b.Untrusted() || b.Skips[c.reason] != 1 {
			t.Errorf("%s: %s", c.name, told(b))
			continue
		}
		if r := b.Events[0].(*Removed); !slices.Equal(r.Hashes, []Hash{1}) {
			t.Errorf("%s: the event before it became %+v", c.name, r)
		}
	}
}

func TestABatchThatIsNoneIsUntrustedAndNothingElse(t *testing.T) {
	whole := wire.SGLangMap.Encode(some(nil))
	for n := range whole {
		b := NewDecoder(DecoderOptions{Scheme: index.SchemeTokens}).Decode(4, whole[:n])
		// The last byte is the rank, which may be missing only if the header says so.
		if !b.Untrusted() || b.Seq != 4 {
			t.Errorf("cut at %d of %d: %s", n, len(whole), told(b))
		}
		b.Release()
	}
	for _, payload := range [][]byte{nil, {0xc0}, {0x90}, {0x91, 0}, {0x80}, {0xc1}, []byte("hello"), {0x92, 0, 0}} {
		if b := decode(t, index.SchemeSGLang, payload); !b.Untrusted() || len(b.Events) != 0 {
			t.Errorf("% x: %s", payload, told(b))
		}
	}
}

func TestATimeThatIsNoneLeavesItUnknown(t *testing.T) {
	for _, ts := range []float64{math.NaN(), math.Inf(1), -1, 1e300} {
		b := decode(t, index.SchemeSGLang, wire.SGLangArray.Encode(wire.Batch{TS: ts, Events: []wire.Event{wire.Cleared{}}}))
		if b.Time != 0 || !b.Untrusted() || len(b.Events) != 1 {
			t.Errorf("ts %v: %s", ts, told(b))
		}
	}
	if b := decode(t, index.SchemeSGLang, wire.SGLangArray.Encode(wire.Batch{TS: 1.9e-9})); b.Time != 2 {
		t.Errorf("a time is not rounded: %d", b.Time)
	}
	p := msgp.AppendArrayHeader(nil, 2)
	p = msgp.AppendArrayHeader(msgp.AppendInt64(p, 1_700_000_000), 0)
	if b := decode(t, index.SchemeSGLang, p); b.Time != 1_700_000_000_000_000_000 || b.Untrusted() {
		t.Errorf("an integer time: %s", told(b))
	}
}

func TestEventsThatContinueEachOtherAreJoined(t *testing.T) {
	page := func(h wire.Hash, parent *wire.Hash) wire.Stored {
		return wire.Stored{Hashes: []wire.Hash{h}, Parent: parent, Tokens: []uint32{uint32(h), 1}, BlockSize: 2, Medium: "GPU"}
	}
	other := page(5, ptr[wire.Hash](4))
	other.Medium = "CPU"
	batch := wire.Batch{Events: []wire.Event{
		page(1, nil), page(2, ptr[wire.Hash](1)), page(3, ptr[wire.Hash](2)), // one chain
		page(4, ptr[wire.Hash](9)), // another
		other,                      // its child, in another memory
		page(6, nil),               // a root continues nothing
		wire.Removed{Hashes: []wire.Hash{1}, Medium: "GPU"}, wire.Removed{Hashes: []wire.Hash{2}, Medium: "GPU"},
		wire.Removed{Hashes: []wire.Hash{3}, Medium: "CPU"},
		page(7, ptr[wire.Hash](6)), // not beside its parent
	}}
	for _, scheme := range []index.Scheme{index.SchemeSGLang, index.SchemeTokens} {
		b := decode(t, scheme, wire.SGLangMap.Encode(batch))
		var got []string
		for _, e := range b.Events {
			switch e := e.(type) {
			case *Stored:
				got = append(got, fmt.Sprint("stored ", e.Hashes, e.HasParent, e.Parent, e.Joined, e.Tokens, len(e.Chunks)))
			case *Removed:
				got = append(got, fmt.Sprint("removed ", e.Hashes, e.Joined))
			}
		}
		n := 0
		if scheme == index.SchemeTokens {
			n = 1
		}
		want := []string{
			fmt.Sprint("stored [1 2 3] false 0 3 6 ", 3*n), fmt.Sprint("stored [4] true 9 1 2 ", n), fmt.Sprint("stored [5] true 4 1 2 ", n),
			fmt.Sprint("stored [6] false 0 1 2 ", n), "removed [1 2] 2", "removed [3] 1", fmt.Sprint("stored [7] true 6 1 2 ", n),
		}
		for i := range want { // Sprint puts spaces between operands that are no strings
			want[i] = strings.ReplaceAll(want[i], " ", "")
		}
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], " ", "")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", scheme, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// However the engine cuts its chains into events, the same blocks follow each other.
func TestJoiningChangesNoChain(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var whole, cut wire.Batch
		next := wire.Hash(1)
		for range 1 + random.IntN(4) {
			n := 1 + random.IntN(2000)
			hashes := make([]wire.Hash, n)
			tokens := make([]uint32, n)
			for i := range hashes {
				hashes[i], tokens[i] = next, random.Uint32()
				next++
			}
			whole.Events = append(whole.Events, wire.Stored{Hashes: hashes, Tokens: tokens, BlockSize: 1})
			for from := 0; from < n; {
				to := from + 1 + random.IntN(n-from)
				s := wire.Stored{Hashes: hashes[from:to], Tokens: tokens[from:to], BlockSize: 1}
				if from > 0 {
					s.Parent = &hashes[from-1]
				}
				cut.Events = append(cut.Events, s)
				from = to
			}
		}
		a, b := decode(t, index.SchemeTokens, wire.VLLMMap.Encode(whole)), decode(t, index.SchemeTokens, wire.VLLMMap.Encode(cut))
		if len(a.Events) != len(b.Events) {
			t.Fatalf("%d events, cut %d", len(a.Events), len(b.Events))
		}
		for i := range a.Events {
			x, y := a.Events[i].(*Stored), b.Events[i].(*Stored)
			if !slices.Equal(x.Hashes, y.Hashes) || !slices.Equal(x.Chunks, y.Chunks) || x.Tokens != y.Tokens {
				t.Fatalf("event %d: %d and %d blocks", i, len(x.Hashes), len(y.Hashes))
			}
		}
	}
}

func TestAnOversizedTokenListIsPassedOver(t *testing.T) {
	tokens := make([]uint32, 1<<21)
	for _, pairs := range []bool{false, true} {
		payload := wire.SGLangMap.Encode(wire.Batch{Events: []wire.Event{
			wire.Stored{Hashes: []wire.Hash{1}, Tokens: tokens, Pairs: pairs, BlockSize: 1}, wire.Removed{Hashes: []wire.Hash{2}},
		}})
		if b := decode(t, index.SchemeSGLang, payload); b.Untrusted() || len(b.Events) != 2 {
			t.Errorf("pairs %v: %s", pairs, told(b))
		}
	}
}

func TestLimitsHoldAtThemAndBeyond(t *testing.T) {
	at := func(n int) *Batch {
		return decode(t, index.SchemeSGLang, wire.SGLangArray.Encode(wire.Batch{Events: []wire.Event{
			wire.Removed{Hashes: make([]wire.Hash, n)}, wire.Cleared{},
		}}))
	}
	if b := at(maxEventHashes); b.Untrusted() || len(b.Events) != 2 {
		t.Errorf("an event at the limit: skips %v", b.Skips)
	}
	if b := at(maxEventHashes + 1); b.Skips[SkipTooLarge] != 1 || len(b.Events) != 1 {
		t.Errorf("an event beyond the limit: skips %v, %d events", b.Skips, len(b.Events))
	}

	full := wire.Removed{Hashes: make([]wire.Hash, maxEventHashes)}
	var events []wire.Event
	for range maxBatchHashes / maxEventHashes {
		events = append(events, full, wire.Cleared{})
	}
	if b := decode(t, index.SchemeSGLang, wire.SGLangArray.Encode(wire.Batch{Events: events})); b.Untrusted() {
		t.Errorf("a batch at the limit of hashes: skips %v", b.Skips)
	}
	events = append(events, wire.Removed{Hashes: []wire.Hash{1}}, wire.Cleared{})
	if b := decode(t, index.SchemeSGLang, wire.SGLangArray.Encode(wire.Batch{Events: events})); b.Skips[SkipTooLarge] != 1 || len(b.Events) != len(events)-1 {
		t.Errorf("a batch beyond the limit of hashes: skips %v", b.Skips)
	}

	events = slices.Repeat([]wire.Event{wire.Cleared{}}, maxBatchEvents)
	if b := decode(t, index.SchemeSGLang, wire.SGLangArray.Encode(wire.Batch{Events: events})); b.Untrusted() {
		t.Errorf("a batch at the limit of events: skips %v", b.Skips)
	}
	events = append(events, wire.Cleared{}, wire.Cleared{})
	b := decode(t, index.SchemeSGLang, wire.SGLangArray.Encode(wire.Batch{Rank: ptr(1), Events: events}))
	if b.Skips[SkipTooMany] != 2 || len(b.Events) != maxBatchEvents || b.Rank != 1 {
		t.Errorf("a batch beyond the limit of events: skips %v, rank %d", b.Skips, b.Rank)
	}
	if most := int64(16 << 20); b.Bytes() > most {
		t.Errorf("the batch takes %d bytes", b.Bytes())
	}
}

func TestJoinedEventsStayBelowTheLimitOfOne(t *testing.T) {
	half := wire.Removed{Hashes: make([]wire.Hash, maxEventHashes/2+1)}
	b := decode(t, index.SchemeSGLang, wire.SGLangArray.Encode(wire.Batch{Events: []wire.Event{half, half}}))
	if len(b.Events) != 2 {
		t.Errorf("%d events", len(b.Events))
	}
}

func TestWhatAnEngineForeseesWeForesee(t *testing.T) {
	remote := wire.Stored{Hashes: []wire.Hash{1}, BlockSize: 1, Medium: "GPU", Locality: "REMOTE"}
	set := wire.Stored{Hashes: []wire.Hash{1, 2}, BlockSize: 16, Medium: "CPU"}
	salted := wire.Stored{Hashes: []wire.Hash{1}, BlockSize: 1, Tokens: []uint32{1}, CacheSalt: "tenant"}
	b := decode(t, index.SchemeTokens, wire.VLLMMap.Encode(wire.Batch{Events: []wire.Event{remote, set, salted}}))
	if b.Untrusted() || len(b.Events) != 3 {
		t.Fatal(told(b))
	}
	if s := b.Events[0].(*Stored); s.Medium != MediumExternal || s.Medium.StoreTier() != index.External {
		t.Errorf("a remote block is in %s", s.Medium)
	}
	if s := b.Events[1].(*Stored); !s.Set() || s.Chunks != nil || s.Medium.StoreTier() != index.Host {
		t.Errorf("offloaded blocks: %+v", s)
	}
	if s := b.Events[2].(*Stored); s.CacheSalt != "tenant" || s.Set() {
		t.Errorf("a salted block: %+v", s)
	}
}

// SGLang once put metadata where vLLM has the LoRA's name.
func TestPositionsOfAnotherVariantAreNotMisread(t *testing.T) {
	for _, odd := range []any{map[string]any{"a": 1}, []any{"full", "swa"}, 7} {
		event, err := msgpack.Marshal([]any{"BlockStored", []any{1}, nil, []any{5}, 1, nil, "GPU", odd, "x", -3, 9})
		if err != nil {
			t.Fatal(err)
		}
		b := decode(t, index.SchemeTokens, wire.SGLangArray.Encode(wire.Batch{Events: []wire.Event{wire.Raw(event)}}))
		if b.Untrusted() || len(b.Events) != 1 {
			t.Errorf("%v: %s", odd, told(b))
			continue
		}
		if s := b.Events[0].(*Stored); s.Group != NoGroup || s.LoRA != "" {
			t.Errorf("%v: %+v", odd, s)
		}
	}
}

func TestNamesAreAllocatedOnce(t *testing.T) {
	d := NewDecoder(DecoderOptions{Scheme: index.SchemeSGLang})
	for i := range 3 * internedNames {
		s := wire.Stored{Hashes: []wire.Hash{1}, BlockSize: 1, LoRAName: fmt.Sprint("adapter-", i)}
		b := d.Decode(0, wire.VLLMMap.Encode(wire.Batch{Events: []wire.Event{s}}))
		if got := b.Events[0].(*Stored).LoRA; got != s.LoRAName {
			t.Fatalf("adapter %q, want %q", got, s.LoRAName)
		}
		b.Release()
		if len(d.names.known) > internedNames {
			t.Fatalf("%d names are kept", len(d.names.known))
		}
	}
}

func TestARepeatedPayloadHasTheSameHash(t *testing.T) {
	p, q := wire.SGLangMap.Encode(some(nil)), wire.SGLangMap.Encode(some(ptr(0)))
	a, b, c := decode(t, index.SchemeSGLang, p), decode(t, index.SchemeTokens, p), decode(t, index.SchemeSGLang, q)
	if a.Hash != b.Hash || a.Hash == c.Hash || a.Hash == 0 {
		t.Errorf("hashes %x %x %x", a.Hash, b.Hash, c.Hash)
	}
}
