package workers

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// maxOffered bounds the ports named to who looks for the right one.
const maxOffered = 5

// skip counts endpoints that are no workers for one reason, and says what to do about it.
type skip struct {
	reason string // value of the metric label
	count  int
	why    string
}

// skipped reports a reason to leave out endpoints that is new, or has new words; unskipped that it is gone.
type (
	skipped   struct{ skip }
	unskipped struct{ reason string }
)

func (skipped) effect()   {}
func (unskipped) effect() {}

// skipsOf explains the counts, sorted by reason. An address that changed hands is the usual course of things: it is
// counted by the metric and nobody needs to act.
func skipsOf(counts map[string]int, all []*discoveryv1.EndpointSlice, port portRef) []skip {
	var out []skip
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		s := skip{reason: reason, count: counts[reason]}
		switch reason {
		case skipFQDN:
			s.why = "their EndpointSlices hold host names: name such engines one by one, with --worker or as static workers"
		case skipAddress:
			s.why = "their EndpointSlices hold no IP address for them"
		case skipPort:
			s.why = fmt.Sprintf("their EndpointSlices have no TCP port %s, but %s: correct --worker-port (in a fleet spec.workers.port)",
				port, offered(all))
		default:
			continue
		}
		out = append(out, s)
	}
	return out
}

// newsOf compares by reason and words. Counts move whenever engines scale and are no news.
func newsOf(before, now []skip) []effect {
	var out []effect
	for _, s := range now {
		if !slices.ContainsFunc(before, func(b skip) bool { return b.reason == s.reason && b.why == s.why }) {
			out = append(out, skipped{s})
		}
	}
	for _, b := range before {
		if !slices.ContainsFunc(now, func(s skip) bool { return s.reason == b.reason }) {
			out = append(out, unskipped{b.reason})
		}
	}
	return out
}

// String is the port as the configuration names it.
func (p portRef) String() string {
	if p.number != 0 {
		return strconv.Itoa(int(p.number))
	}
	return strconv.Quote(p.name)
}

// offered lists the TCP ports that slices have, the lowest names first.
func offered(all []*discoveryv1.EndpointSlice) string {
	seen := map[string]bool{}
	for _, s := range all {
		for _, p := range s.Ports {
			if p.Port == nil || (p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP) {
				continue
			}
			text := strconv.Itoa(int(*p.Port))
			if p.Name != nil && *p.Name != "" {
				text = fmt.Sprintf("%q (%s)", *p.Name, text)
			}
			seen[text] = true
		}
	}
	names := slices.Sorted(maps.Keys(seen))
	switch n := len(names); {
	case n == 0:
		return "none at all"
	case n > maxOffered:
		return strings.Join(names[:maxOffered], ", ") + fmt.Sprintf(" and %d more", n-maxOffered)
	}
	return strings.Join(names, ", ")
}
