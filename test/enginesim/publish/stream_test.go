package publish

import (
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/test/enginesim"
)

func TestARestartBeginsAnewTheWayItWasPlanned(t *testing.T) {
	for name, c := range map[string]struct {
		plan   Restart
		want   []int64 // published, the batch before the restart included
		replay []int64 // from 0
	}{
		"at 0":              {Restart{}, []int64{0, 0}, []int64{0, EndSeq}},
		"at 0 with goodbye": {Restart{EndSeq: true, Cut: true}, []int64{0, EndSeq, 0}, []int64{0, EndSeq}},
		"past 0":            {Restart{Seq: 3}, []int64{0, 3}, []int64{0, 1, 2, 3, EndSeq}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, Options{})
			s.change(chain(1, 2))
			old := s.messages[0].Payload
			s.PlanRestart(c.plan)
			s.change(enginesim.Restarted{})
			s.change(chain(1, 1))
			s.want(c.want...)
			if got := replayed(s.Replay(0, 0)); !slices.Equal(got, c.replay) {
				t.Errorf("a replay repeats %v, want %v", got, c.replay)
			}
			if string(s.Replay(0, 0)[0].Payload) == string(old) {
				t.Error("the new life repeats what the old one said")
			}
			if !slices.Equal(s.restarts, []bool{c.plan.Cut}) {
				t.Errorf("the sink heard of restarts %v", s.restarts)
			}
			s.change(enginesim.Restarted{})
			if s.NextSeq(0) != 0 {
				t.Errorf("a plan holds for two restarts: seq %d", s.NextSeq(0))
			}
		})
	}
}

func TestAStepThatRestartsPublishesWhatCameBeforeInTheOldLife(t *testing.T) {
	s := newScript(t, Options{})
	s.PlanRestart(Restart{EndSeq: true})
	s.change(chain(1, 1), enginesim.Restarted{})
	s.want(0, EndSeq)
}

func TestAHangDiesWithItsProcess(t *testing.T) {
	s := newScript(t, Options{})
	s.set(Hang, Params{})
	s.change(chain(1, 1))
	s.change(enginesim.Restarted{})
	s.RemoveAll()
	s.want()
	s.change(chain(1, 1))
	s.want(0)
}

func TestOnlyRanksThatNoLongerHangCatchUp(t *testing.T) {
	s := newScript(t, Options{DPSize: 2})
	s.set(Hang, Params{})
	for rank := range 2 {
		s.Observe(enginesim.Step{Rank: rank, Time: epoch, Changes: []enginesim.Change{enginesim.Cleared{}}})
	}
	s.set(ReplaySilent, Params{})
	if len(s.messages) != 0 {
		t.Errorf("another fault ends a hang: %d messages", len(s.messages))
	}
	one := 1
	s.set(Hang, Params{Rank: &one})
	if len(s.messages) != 1 || read(s, 0).Rank != 0 {
		t.Errorf("%d messages, want that of rank 0", len(s.messages))
	}
}

func TestANewLifeOfAHybridModelForgetsItsWindow(t *testing.T) {
	s := newScript(t, Options{Dialect: VLLMMap, Hybrid: true})
	c := chain(1, 2)
	s.change(c)
	s.change(enginesim.Restarted{})
	s.ranks[0].opts.Hybrid = false // the same blocks without a window
	s.change(c)
	s.change(enginesim.Removed{Keys: c.Keys[1:]})
	if b := decode(t, VLLMMap, s.messages[2]); b.removed != 1 {
		t.Errorf("%d removals of one block", b.removed)
	}
}

func TestARankThatHangsTooLongLosesBatchesVisibly(t *testing.T) {
	s := newScript(t, Options{})
	s.set(Hang, Params{})
	for range maxHeldSteps + 3 {
		s.change(enginesim.Cleared{})
	}
	s.RemoveAll()
	s.change(enginesim.Cleared{})
	if last := s.messages[len(s.messages)-1].Seq; len(s.messages) != maxHeldSteps+1 || last != maxHeldSteps+3 {
		t.Errorf("%d messages up to seq %d, want %d up to %d", len(s.messages), last, maxHeldSteps+1, maxHeldSteps+3)
	}
}

func TestTheRingKeepsTheLastBatchesOnly(t *testing.T) {
	s := newScript(t, Options{BufferSteps: 3})
	for range 5 {
		s.change(enginesim.Cleared{})
	}
	for start, want := range map[uint64][]int64{0: {2, 3, 4, EndSeq}, 4: {4, EndSeq}, 5: {EndSeq}, 1 << 63: {EndSeq}} {
		if got := replayed(s.Replay(0, start)); !slices.Equal(got, want) {
			t.Errorf("from %d: %v, want %v", start, got, want)
		}
	}
	r := ring{maxSteps: 100}
	for seq := range int64(5) {
		r.add(seq, make([]byte, maxRingBytes/2))
	}
	if len(r.batches) != 2 || r.bytes != maxRingBytes {
		t.Errorf("the ring keeps %d batches of %d bytes", len(r.batches), r.bytes)
	}
}

func TestReplayAnswersHaveTheFramesOfTheirDialect(t *testing.T) {
	plain := newScript(t, Options{Topic: "kv"})
	variant := newScript(t, Options{Dialect: VLLMMap, ReplayTopic: true, Topic: "kv"})
	for s, want := range map[*script]int{plain: 3, variant: 4} {
		s.change(chain(1, 1))
		for _, a := range s.Replay(0, 0) {
			if len(a.Parts) != want || len(a.Parts[0]) != 0 || len(a.Parts[want-2]) != 8 || (want == 4 && string(a.Parts[1]) != "kv") {
				t.Errorf("seq %d: frames %q, want %d", a.Seq, a.Parts, want)
			}
		}
	}
}

func TestVLLMAdvertisesNothing(t *testing.T) {
	if got := newScript(t, Options{Dialect: VLLMMap, Ports: Ports{Events: 5557}}).Advertised(); got != nil {
		t.Errorf("got %+v", got)
	}
	if got := newScript(t, Options{}).Advertised(); got != nil {
		t.Errorf("without ports: %+v", got)
	}
}

func TestOptionsReportEverythingWrongAtOnce(t *testing.T) {
	err := Options{Dialect: "esperanto", DPSize: 999, PageSize: -1, BufferSteps: -1, Ports: Ports{Replay: 70_000}}.Validate()
	for _, want := range []string{"Dialect:", "sglang-array, sglang-map, vllm-array", "DPSize:", "PageSize:", "BufferSteps:", "Ports.Replay:", "need Events", "Sink:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not reported: %v", want, err)
		}
	}
	sink := &recording{}
	for want, o := range map[string]Options{
		"only vLLM":       {Hybrid: true, Sink: sink},
		"no load gauge":   {Dialect: VLLMMap, Ports: Ports{Events: 5557, Load: 5558}, Sink: sink},
		"HashScheme:":     {Dialect: VLLMMap, HashScheme: "md5", Sink: sink},
		"give them room":  {DPSize: 4, Ports: Ports{Events: 5557, Replay: 5560}, Sink: sink},
		"Ports.Events: 6": {DPSize: 4, Ports: Ports{Events: 65_534}, Sink: sink},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if err := (Options{DPSize: 3, Ports: Ports{Events: 5557, Replay: 5560, Load: 65_533}, Sink: sink}).Validate(); err != nil {
		t.Errorf("the limits themselves are refused: %v", err)
	}
}
