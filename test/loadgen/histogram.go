package loadgen

import (
	"math"
	"slices"
	"time"
)

// histogram counts durations in buckets that grow by one percent, from a
// microsecond to an hour: any quantile is right within one percent, whatever the
// length of the run. Values beyond the ends count at the ends.
type histogram struct {
	counts   [histogramBuckets]int64
	total    int64
	sum      time.Duration
	min, max time.Duration
}

const (
	histogramGrowth  = 1.01
	histogramLowest  = time.Microsecond
	histogramBuckets = 2_214 // ceil(ln(1 h / 1 µs) / ln 1.01), one for zero, one for beyond
)

func (h *histogram) add(d time.Duration) {
	if h.total == 0 || d < h.min {
		h.min = d
	}
	h.max = max(h.max, d)
	h.total++
	h.sum += d
	h.counts[bucketOf(d)]++
}

func bucketOf(d time.Duration) int {
	if d <= histogramLowest {
		return 0
	}
	i := int(math.Ceil(math.Log(float64(d)/float64(histogramLowest)) / math.Log(histogramGrowth)))
	return min(i, histogramBuckets-1)
}

// quantile returns the value below or at which a share q of all lie, at most one
// percent too high; 0 of nothing.
func (h *histogram) quantile(q float64) time.Duration {
	rank := int64(math.Ceil(q * float64(h.total)))
	seen := int64(0)
	for i, n := range h.counts {
		if seen += n; n > 0 && seen >= max(1, rank) {
			upper := float64(histogramLowest) * math.Pow(histogramGrowth, float64(i))
			return min(h.max, max(h.min, time.Duration(upper)))
		}
	}
	return 0
}

// Quantiles describe a distribution, in seconds.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// summary is nil of nothing: no number stands for an unmeasured quantity.
func (h *histogram) summary() *Quantiles {
	if h.total == 0 {
		return nil
	}
	return &Quantiles{
		P50: h.quantile(0.5).Seconds(), P90: h.quantile(0.9).Seconds(), P99: h.quantile(0.99).Seconds(),
		Max: h.max.Seconds(), Mean: (h.sum / time.Duration(h.total)).Seconds(),
	}
}

// exact summarizes a few values, negative ones included; nil of nothing.
func exact(values []time.Duration) *Quantiles {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	at := func(q float64) float64 {
		return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)].Seconds()
	}
	var sum time.Duration
	for _, v := range sorted {
		sum += v
	}
	return &Quantiles{P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: at(1), Mean: (sum / time.Duration(len(sorted))).Seconds()}
}
