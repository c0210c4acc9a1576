package kvevents

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// AnnotationPrefix begins the pod annotations that configure events: -port, -topic, -block-size, -dp-size, -replay-port.
const AnnotationPrefix = "routerfleet.io/kv-events-"

// WithAnnotations gives the fleet's settings with those of a pod's annotations in their place.
func (c Configured) WithAnnotations(worker string, annotations map[string]string) (Configured, []Problem) {
	var problems []Problem
	for name, into := range map[string]*int64{
		"port": &c.Port, "block-size": &c.BlockSize, "dp-size": &c.DPSize, "replay-port": &c.ReplayPort,
	} {
		text, ok := annotations[AnnotationPrefix+name]
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || n <= 0 {
			problems = append(problems, Problem{CodeSettings, worker,
				fmt.Sprintf("annotation %s%s is %.64q: it must be a positive number", AnnotationPrefix, name, text)})
			continue
		}
		*into = n
	}
	if topic, ok := annotations[AnnotationPrefix+"topic"]; ok {
		c.Topic = &topic
	}
	slices.SortFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Message, b.Message) })
	return c, problems
}

// Collisions finds workers that resolve to one publisher: what it says would count for both. All of them are named, for
// none can be told to be the right one; each worker once, sorted.
func Collisions(settings map[string]*Settings) []Problem {
	type socket struct {
		host string
		port int
	}
	owner := map[socket]string{}
	against := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		s := settings[name]
		if s == nil {
			continue
		}
		for dp := range s.DPSize {
			at := socket{canonicalHost(s.Host), s.Port + dp}
			other, taken := owner[at]
			if !taken {
				owner[at] = name
				continue
			}
			against[name] = other
			against[other] = cmp.Or(against[other], name)
		}
	}
	problems := make([]Problem, 0, len(against))
	for _, name := range slices.Sorted(maps.Keys(against)) {
		s := settings[name]
		problems = append(problems, Problem{CodeSettings, name, fmt.Sprintf(
			"its events come from ports %d..%d of %s, those of %s too: give each engine ports of its own", s.Port, s.Port+s.DPSize-1, s.Host, against[name])})
	}
	return problems
}

func canonicalHost(h string) string {
	if ip, err := netip.ParseAddr(h); err == nil {
		return ip.Unmap().String()
	}
	return strings.ToLower(h)
}
