package workers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxExplainBytes bounds Explain: below the 1024 bytes a text of the bootstrap status may have.
const maxExplainBytes = 900

// Explain says in one line of bounded length what the workers are and why those that are not in rotation are not: for
// each state one of them, rather one that was asked and failed, then what is wrong with discovery. It may name
// addresses: for logs and the admin listener, never for clients.
func (r *Registry) Explain() string {
	s := r.Snapshot()
	parts := append([]string{fmt.Sprintf("%d discovered", s.counts.Discovered)}, s.explainWorkers()...)
	if r.slices != nil {
		parts = append(parts, r.slices.explain(s)...)
	}
	return cut(strings.Join(parts, "; "), maxExplainBytes)
}

func (s *Snapshot) explainWorkers() []string {
	var counts, asked [stateEnd]int
	var example [stateEnd]*Listed
	for i := range s.workers {
		l := &s.workers[i]
		counts[l.State]++
		if l.Failed {
			asked[l.State]++
		}
		if e := example[l.State]; e == nil || (l.Failed && !e.Failed) {
			example[l.State] = l
		}
	}
	var out []string
	for state, e := range example {
		switch {
		case e == nil || e.State == StateAbsent:
		case e.State == StateInRotation && !e.Worker.breaker.admits():
			out = append(out, fmt.Sprintf("%d %v, the breaker of %s is open", counts[state], e.State, e.Worker.name))
		case e.Reason == "":
			out = append(out, fmt.Sprintf("%d %v", counts[state], e.State))
		case e.Failed:
			out = append(out, fmt.Sprintf("%d %v, %d of them asked: %s: %s", counts[state], e.State, asked[state], e.Worker.name, e.Reason))
		default:
			out = append(out, fmt.Sprintf("%d %v: %s: %s", counts[state], e.State, e.Worker.name, e.Reason))
		}
	}
	return out
}

// explain says what stands between the slices and the workers of a snapshot.
func (w *sliceWatch) explain(s *Snapshot) []string {
	var out []string
	for _, k := range s.skips {
		out = append(out, fmt.Sprintf("%d endpoints are no workers (%s): %s", k.count, k.reason, k.why))
	}
	failing := w.slices.Failing()
	for _, verb := range slices.Sorted(maps.Keys(failing)) {
		out = append(out, fmt.Sprintf("EndpointSlices: %s fails: %s", verb, cut(failing[verb].Error(), maxReasonBytes)))
	}
	switch {
	case len(out) > 0:
	case !s.synced:
		out = append(out, "the EndpointSlices have not been read yet")
	case s.slices == 0:
		out = append(out, fmt.Sprintf("no EndpointSlice in namespace %s matches %q (slices have the labels of their Service)",
			w.source.Namespace, cut(w.source.Selector, maxReasonBytes)))
	case s.counts.Discovered == 0:
		out = append(out, fmt.Sprintf("the %d EndpointSlices that match hold no endpoint", s.slices))
	}
	return out
}
