package publish

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/test/enginesim"
)

// faultTests holds the proof of each fault; a fault without one fails
// TestEveryFaultDoesWhatItSays.
var faultTests = map[FaultName]func(*testing.T){
	Drop: func(t *testing.T) {
		s := faulted(t, Drop, Params{Batches: 1})
		s.want(1)
		if got := replayed(s.Replay(0, 0)); !slices.Equal(got, []int64{1, EndSeq}) {
			t.Errorf("a replay repeats %v, want the hole to stay", got)
		}
	},

	Lose: func(t *testing.T) {
		s := faulted(t, Lose, Params{Batches: 1})
		s.want(1)
		if got := replayed(s.Replay(0, 0)); !slices.Equal(got, []int64{0, 1, EndSeq}) {
			t.Errorf("a replay repeats %v, want all", got)
		}
	},

	Duplicate: func(t *testing.T) {
		s := faulted(t, Duplicate, Params{Batches: 1})
		s.want(0, 0, 1)
		if !bytes.Equal(s.messages[0].Payload, s.messages[1].Payload) {
			t.Error("the two differ")
		}
	},

	BadFrames: func(t *testing.T) {
		for _, n := range []int{1, 2, 4, 5000} {
			s := faulted(t, BadFrames, Params{Batches: 1, Frames: n})
			if a, b := len(s.messages[0].Parts), len(s.messages[1].Parts); a != n || b != 3 {
				t.Errorf("%d and %d frames, want %d and 3", a, b, n)
			}
		}
	},

	ShortSeq: func(t *testing.T) {
		s := faulted(t, ShortSeq, Params{Batches: 1})
		if a, b := len(s.messages[0].Parts[1]), len(s.messages[1].Parts[1]); a != 4 || b != 8 {
			t.Errorf("seqs of %d and %d bytes, want 4 and 8", a, b)
		}
	},

	Garbage: func(t *testing.T) {
		s := faulted(t, Garbage, Params{Batches: 1, Bytes: 1000})
		if p := s.messages[0].Payload; len(p) != 1000 || skips(s, 0)[kvevents.SkipTorn] != 1 {
			t.Errorf("%d bytes, skips %v", len(p), skips(s, 0))
		}
		wantTrusted(t, s, 1)
	},

	Torn: func(t *testing.T) {
		s := faulted(t, Torn, Params{Batches: 1})
		if _, err := msgp.Skip(s.messages[0].Payload); err == nil {
			t.Error("half a payload is MessagePack")
		}
		wantTrusted(t, s, 1)
	},

	Pairs: func(t *testing.T) {
		s := faulted(t, Pairs, Params{Batches: 1})
		first, second := decode(t, SGLangMap, s.messages[0]).stored[0], decode(t, SGLangMap, s.messages[1]).stored[0]
		if pairs := first["token_ids"].([]any); len(pairs) != 3 || len(pairs[0].([]any)) != 2 {
			t.Errorf("got %v", pairs)
		}
		if number(second["token_ids"].([]any)[0]) == 0 {
			t.Error("the fault goes on")
		}
		wantTrusted(t, s, 0)
	},

	LongTokens: func(t *testing.T) {
		s := faulted(t, LongTokens, Params{Batches: 1, Count: 100_000})
		if got := len(decode(t, SGLangMap, s.messages[0]).stored[0]["token_ids"].([]any)); got != 100_004 {
			t.Errorf("%d tokens", got)
		}
		wantTrusted(t, s, 0) // a list too long costs nothing where tokens are not looked at
	},

	LongHashes: func(t *testing.T) {
		s := faulted(t, LongHashes, Params{Batches: 1, Count: 65_537})
		if b := decode(t, SGLangMap, s.messages[0]); b.hashes != 2+65_537 {
			t.Errorf("%d hashes", b.hashes)
		}
		if got := skips(s, 0); got[kvevents.SkipTooLarge] != 1 {
			t.Errorf("skips %v", got)
		}
	},

	UnknownEvent: func(t *testing.T) {
		s := faulted(t, UnknownEvent, Params{Batches: 1})
		if b := decode(t, SGLangMap, s.messages[0]); b.unknown != 1 || len(b.stored) != 2 {
			t.Errorf("%+v", b)
		}
		if got := skips(s, 0); got[kvevents.SkipUnknownEvent] != 1 {
			t.Errorf("skips %v", got)
		}
	},

	UnknownField: func(t *testing.T) {
		for _, d := range Dialects() {
			s := newScript(t, Options{Dialect: d})
			s.set(UnknownField, Params{})
			c := chain(1, 2)
			s.change(c)
			s.change(enginesim.Removed{Keys: c.Keys})
			for i := range s.messages {
				wantTrusted(t, s, i)
			}
			if !bytes.Contains(s.messages[0].Payload, []byte("nobody knows")) {
				t.Errorf("%s: no such field", d)
			}
		}
	},

	WrongBlock: func(t *testing.T) {
		s := faulted(t, WrongBlock, Params{Batches: 1, BlockSize: 77})
		a, b := decode(t, SGLangMap, s.messages[0]).stored[0], decode(t, SGLangMap, s.messages[1]).stored[0]
		if number(a["block_size"]) != 77 || number(b["block_size"]) != 4 {
			t.Errorf("block sizes %v and %v", a["block_size"], b["block_size"])
		}
	},

	WrongRank: func(t *testing.T) {
		s := faulted(t, WrongRank, Params{Batches: 1, DPRank: 9})
		if a, b := read(s, 0).Rank, read(s, 1).Rank; a != 9 || b != 0 {
			t.Errorf("ranks %d and %d", a, b)
		}
	},

	Contradict: func(t *testing.T) {
		s := faulted(t, Contradict, Params{Batches: 1})
		stored := decode(t, SGLangMap, s.messages[0]).stored
		first, again := stored[0], stored[len(stored)-1]
		if len(stored) != 3 || number(first["block_hashes"].([]any)[0]) != number(again["block_hashes"].([]any)[0]) || first["parent_block_hash"] != nil || again["parent_block_hash"] == nil {
			t.Errorf("got %v", stored)
		}
		wantTrusted(t, s, 0) // nothing in its form gives it away
	},

	Cycle: func(t *testing.T) {
		s := faulted(t, Cycle, Params{Batches: 1})
		stored := decode(t, SGLangMap, s.messages[0]).stored
		a, b := stored[2], stored[3]
		if number(a["parent_block_hash"]) != number(b["block_hashes"].([]any)[0]) || number(b["parent_block_hash"]) != number(a["block_hashes"].([]any)[0]) {
			t.Errorf("got %v and %v", a, b)
		}
		wantTrusted(t, s, 0)
	},

	Hang: func(t *testing.T) {
		s := newScript(t, Options{})
		s.set(Hang, Params{})
		c := chain(1, 3)
		s.change(c)
		s.change(enginesim.Removed{Keys: c.Keys[2:]})
		if len(s.messages) != 0 || s.Replay(0, 0) != nil {
			t.Fatalf("%d messages of a rank that hangs", len(s.messages))
		}
		s.Remove(Hang)
		s.change(enginesim.Cleared{})
		s.want(0, 1, 2)
	},

	Clock: func(t *testing.T) {
		s := faulted(t, Clock, Params{OffsetMillis: -2500})
		if got := read(s, 0).Time.Time(); !got.Equal(epoch.Add(-2500 * time.Millisecond)) {
			t.Errorf("got %v", got)
		}
	},

	ForeignGroup: func(t *testing.T) {
		s := newScript(t, Options{Dialect: VLLMMap})
		s.set(ForeignGroup, Params{})
		testGroups(t, s, nil)
	},

	Copies: func(t *testing.T) {
		for d, events := range map[Dialect]int{VLLMMap: 1, SGLangMap: 2} {
			s := newScript(t, Options{Dialect: d})
			s.set(Copies, Params{})
			c := chain(1, 2)
			s.change(c)
			s.RemoveAll()
			s.change(enginesim.Removed{Keys: c.Keys})
			if b := decode(t, d, s.messages[0]); len(b.stored) != 2*events || b.hashes != 4 || b.removed != 2 {
				t.Errorf("%s: %d stored events of %d blocks, %d removals; want two copies of 2 and one removal of each", d, len(b.stored), b.hashes, b.removed)
			}
			if b := decode(t, d, s.messages[1]); b.removed != 2 {
				t.Errorf("%s: %d removals of the copies that stayed", d, b.removed)
			}
			wantTrusted(t, s, 0)
		}
	},

	ReplayReorder: func(t *testing.T) {
		s := faulted(t, ReplayReorder, Params{})
		if got := replayed(s.Replay(0, 0)); !slices.Equal(got, []int64{1, 0, EndSeq}) {
			t.Errorf("got %v", got)
		}
	},

	ReplaySlow: func(t *testing.T) {
		s := faulted(t, ReplaySilent, Params{}) // any other fault, to have two batches
		s.RemoveAll()
		if err := s.Set(Fault{Name: ReplaySlow, Delay: time.Second}); err != nil {
			t.Fatal(err)
		}
		for _, a := range s.Replay(0, 0) {
			if a.Delay != time.Second {
				t.Errorf("seq %d after %v", a.Seq, a.Delay)
			}
		}
	},

	ReplayTruncate: func(t *testing.T) {
		s := faulted(t, ReplayTruncate, Params{AfterBatches: 1})
		if got := replayed(s.Replay(0, 0)); !slices.Equal(got, []int64{0}) {
			t.Errorf("got %v", got)
		}
		s.set(ReplayTruncate, Params{AfterBatches: 100})
		if got := replayed(s.Replay(0, 0)); !slices.Equal(got, []int64{0, 1}) {
			t.Errorf("got %v, want all but the terminator", got)
		}
	},

	ReplaySilent: func(t *testing.T) {
		s := faulted(t, ReplaySilent, Params{})
		if got := s.Replay(0, 0); got != nil {
			t.Errorf("got %v", got)
		}
	},

	LoadSilent: testLoadSilent,

	Advertise: func(t *testing.T) {
		s := newScript(t, Options{DPSize: 2, Ports: Ports{Events: 5557, Replay: 5657, Load: 5757}})
		truth := *s.Advertised()
		s.set(Advertise, Params{Host: "192.0.2.7", DPSize: 60_000, BlockSize: 3, EventPort: 22})
		want := Advertisement{"zmq", "192.0.2.7", 22, "", 3, 60_000, 5757, "load", 5657}
		if got := *s.Advertised(); got != want {
			t.Errorf("got %+v", got)
		}
		s.RemoveAll()
		if got := *s.Advertised(); got != truth || truth != (Advertisement{"zmq", "*", 5557, "", 4, 2, 5757, "load", 5657}) {
			t.Errorf("afterwards %+v, before %+v", got, truth)
		}
	},
}

func TestEveryFaultDoesWhatItSays(t *testing.T) {
	all := slices.Concat(batchFaults, standingFaults)
	for _, name := range all {
		t.Run(string(name), func(t *testing.T) {
			test, there := faultTests[name]
			if !there {
				t.Fatal("no test proves this fault")
			}
			test(t)
		})
	}
	if len(faultTests) != len(all) {
		t.Errorf("%d tests for %d faults", len(faultTests), len(all))
	}
}

func TestAFaultOfOneRankLeavesTheOthersAlone(t *testing.T) {
	s := newScript(t, Options{DPSize: 2})
	one := 1
	s.set(Drop, Params{Rank: &one})
	for rank := range 2 {
		s.Observe(enginesim.Step{Rank: rank, Time: epoch, Changes: []enginesim.Change{chain(1, 1)}})
	}
	if len(s.messages) != 1 || read(s, 0).Rank != 0 {
		t.Errorf("%d messages", len(s.messages))
	}
	two := 2
	if err := s.Set(Fault{Name: Drop, Params: Params{Rank: &two}}); err == nil {
		t.Error("a rank that does not exist is taken")
	}
	if err := s.Set(Fault{Name: "kv_nothing"}); err == nil {
		t.Error("an unknown fault is taken")
	}
}
