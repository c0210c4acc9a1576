package loadgen

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Against the dumb twin: keep everything, sort, index.
func TestQuantilesAreWithinOnePercentOfTheExactOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		values := make([]time.Duration, rapid.IntRange(1, 500).Draw(t, "n"))
		var h histogram
		for i := range values {
			values[i] = time.Duration(math.Exp(rng.Float64()*20) * float64(time.Microsecond))
			h.add(values[i])
		}
		slices.Sort(values)
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 1} {
			want := values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
			got := h.quantile(q)
			if got < want || float64(got) > float64(want)*(histogramGrowth+1e-9)+1 {
				t.Fatalf("quantile %v of %d values: got %v, want %v to one percent more", q, len(values), got, want)
			}
		}
		if h.max != values[len(values)-1] || h.min != values[0] {
			t.Fatalf("extremes %v to %v, want %v to %v", h.min, h.max, values[0], values[len(values)-1])
		}
	})
}

func TestTheHistogramReachesFromMicrosecondToHour(t *testing.T) {
	if got := bucketOf(time.Hour); got >= histogramBuckets-1 {
		t.Errorf("an hour falls into bucket %d, the last one", got)
	}
	if got := bucketOf(0); got != 0 {
		t.Errorf("zero falls into bucket %d", got)
	}
	var h histogram
	h.add(100 * time.Hour)
	if got := h.quantile(0.5); got > 100*time.Hour || got < time.Hour {
		t.Errorf("beyond the end: %v", got)
	}
}

func TestNothingMeasuredIsNoNumber(t *testing.T) {
	var h histogram
	if h.summary() != nil || exact(nil) != nil {
		t.Error("a summary of nothing")
	}
}

func TestExactQuantilesKeepTheSign(t *testing.T) {
	got := exact([]time.Duration{-3 * time.Second, 2 * time.Second, time.Second, 0})
	if got.P50 != 0 || got.Max != 2 || got.Mean != 0 || got.P99 != 2 {
		t.Errorf("got %+v", got)
	}
}
