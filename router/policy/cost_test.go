package policy

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/workers"
)

// The worked example of the design, in blocks of one token and without the term of active requests.
func TestTheWorkedExampleCostsWhatTheDesignSays(t *testing.T) {
	k := DefaultKnobs()
	k.DecodeWeightPercent = 100
	want := []int64{18, 10, 11}
	for i, overlap := range []int64{2, 5, 8} {
		l := workers.Load{DecodeTokens: []int64{10, 5, 9}[i]}
		got := k.cost(l, 10, credit(overlap*percent, 1, 100, 0, 10)).total()
		if got != want[i]*percent {
			t.Errorf("rank %d costs %d hundredths, want %d tokens", i, got, want[i])
		}
	}
}

func TestCostAddsItsTermsByTheirWeights(t *testing.T) {
	k := Knobs{PrefillScalePercent: 150, DecodeWeightPercent: 10}
	l := workers.Load{Active: 3, QueuedPrefillTokens: 1_000, PrefilledTokens: 400, DecodeTokens: 777}
	if got, want := k.cost(l, 500, 200), (terms{prefill: 150 * 900, decode: 10 * 777, requests: 100 * 512 * 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := k.cost(workers.Load{}, 500, 600).prefill; got != 0 {
		t.Errorf("more credit than there is to compute costs %d, want 0", got)
	}
	if got := k.cost(workers.Load{QueuedPrefillTokens: 100}, 500, 500).prefill; got != 150*100 {
		t.Errorf("a prompt that is cached whole costs %d behind 100 queued tokens, want 15000 hundredths", got)
	}
}

func TestCreditIsDiscountedAndCapped(t *testing.T) {
	for _, c := range []struct {
		name                                  string
		blocks, size, trust, capacity, prompt int64
		want                                  int64
	}{
		{"device blocks count whole", 1_000, 512, 100, 0, 9_999, 5_120},
		{"by tier and trust", 750, 512, 50, 0, 9_999, 1_920},
		{"rounded down once, at the end", 3 * 25, 1, 50, 0, 9, 0},
		{"what the cache can hold", 1_000, 512, 100, 4_000, 9_999, 4_000},
		{"what the prompt has", 1_000, 512, 100, 0, 5_000, 5_000},
		{"nothing without trust", 1_000, 512, 0, 0, 5_000, 0},
	} {
		if got := credit(c.blocks, c.size, c.trust, c.capacity, c.prompt); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestKnobsOutOfRangeAreNamedAllAtOnce(t *testing.T) {
	if err := DefaultKnobs().Validate(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	bad := Knobs{101, -1, 101, -1, time.Hour, maxWeightPercent + 1, -1}
	_, err := New(NameCacheAware, Options{Knobs: &bad})
	if err == nil {
		t.Fatal("bad knobs were taken")
	}
	for _, name := range []string{"hostTierPercent", "diskTierPercent", "untrustedPercent", "pileUpTokens", "predictTTLSeconds", "prefillScalePercent", "decodeWeightPercent"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not name %s", err, name)
		}
	}
}

func TestTheGuardsLimitsAreWhereTheDesignPutsThem(t *testing.T) {
	crowd := func(pileUp int64, queued, active []int64) guard {
		g := guard{pileUp: pileUp}
		for i := range queued {
			g.add(queued[i], active[i])
		}
		return g
	}
	for _, c := range []struct {
		name           string
		queued, active []int64
		want           verdict // of the first
	}{
		{"16,384 above the mean is allowed", []int64{21_844 + 1, 0, 0, 0}, []int64{0, 0, 0, 0}, allowed},
		{"more is not", []int64{21_848, 0, 0, 0}, []int64{0, 0, 0, 0}, queueTooLong},
		{"1.25 x the mean above it is allowed", []int64{225_000, 100_000, 75_000, 0}, []int64{0, 0, 0, 0}, allowed},
		{"more of it is not", []int64{225_004, 100_000, 74_996, 0}, []int64{0, 0, 0, 0}, queueTooLong},
		{"8 requests are allowed when nobody else has any", []int64{0, 0, 0, 0, 0, 0, 0, 0}, []int64{8, 0, 0, 0, 0, 0, 0, 0}, allowed},
		{"8 + 3 x the mean are allowed", []int64{0, 0, 0, 0, 0, 0, 0, 0}, []int64{32, 8, 4, 4, 4, 4, 4, 4}, allowed},
		{"one more is not", []int64{0, 0, 0, 0, 0, 0, 0, 0}, []int64{33, 7, 4, 4, 4, 4, 4, 4}, tooManyRequests},
		{"alone, everything is allowed", []int64{1 << 40}, []int64{1 << 20}, allowed},
	} {
		g := crowd(16_384, c.queued, c.active)
		if got := g.judge(c.queued[0], c.active[0]); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestTheGuardLeavesSomebody(t *testing.T) {
	for seed := range uint64(2_000) {
		r := rand.New(rand.NewPCG(seed, 3))
		g, n := guard{pileUp: r.Int64N(20_000)}, 1+r.IntN(40)
		queued, active := make([]int64, n), make([]int64, n)
		for i := range n { // heavy tails, so that many are far above the mean
			queued[i], active[i] = 1<<r.IntN(40)-1, 1<<r.IntN(20)-1
			g.add(queued[i], active[i])
		}
		left := 0
		for i := range n {
			if g.judge(queued[i], active[i]) == allowed {
				left++
			}
		}
		if left == 0 {
			t.Fatalf("seed %d: nobody of %d is left: queued %v active %v", seed, n, queued, active)
		}
	}
}
