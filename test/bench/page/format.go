package page

import (
	"fmt"
	"time"
)

// Of gives the figures of one kind of rows, in their order.
func Of[Figures interface{ Kind() string }](all []Figures, kind string) (out []Figures) {
	for _, f := range all {
		if f.Kind() == kind {
			out = append(out, f)
		}
	}
	return out
}

// Verdict says whether a target was met.
func Verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}

// Micros writes a duration in whole microseconds.
func Micros(d time.Duration) string {
	return fmt.Sprintf("%.0f us", float64(d)/float64(time.Microsecond))
}
