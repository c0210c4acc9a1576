package peers

import (
	"cmp"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// PortName is the admin port's name in the slices of a fleet's peer Service.
const PortName = "admin"

// MaxPeers bounds a set: a fleet has at most 1,000 replicas, twice that during a rollout.
const MaxPeers = 2000

// condition is what the slices say of an endpoint, from best to worst.
type condition int

const (
	ready condition = iota
	terminating
	unready
)

// conditionOf reads the flags. A terminating endpoint is a teacher as long as it answers, whatever serving says
// (peer-bootstrap B10); one that is unready otherwise is booting itself.
func conditionOf(c discoveryv1.EndpointConditions) condition {
	switch {
	case c.Terminating != nil && *c.Terminating:
		return terminating
	case c.Ready == nil || *c.Ready:
		return ready
	default:
		return unready
	}
}

// seen is one endpoint of one slice.
type seen struct {
	Peer
	condition condition
}

// extract turns slices into the set of siblings, sorted by URL. It is pure, and the order of slices does not matter. A pod
// in several slices (dual stack, a slice being split) is one peer: its lowest URL, which prefers IPv4, and its worst
// condition, because slices of one pod are not written at one instant and the first to say so is right.
func extract(list []*discoveryv1.EndpointSlice, self Self, portName string) []Peer {
	v4, v6 := self.families()
	merged := map[string]seen{}
	for _, s := range list {
		if s.AddressType == discoveryv1.AddressTypeIPv4 && !v4 || s.AddressType == discoveryv1.AddressTypeIPv6 && !v6 {
			continue
		}
		port := portOf(s.Ports, portName, int32(self.Port))
		for i := range s.Endpoints {
			ep := &s.Endpoints[i]
			if len(ep.Addresses) == 0 || self.is(s.Namespace, ep) {
				continue
			}
			p := sight(ep, port)
			if before, ok := merged[p.ID]; ok {
				p = merge(before, p)
			}
			merged[p.ID] = p
		}
	}
	return present(merged)
}

// sight reads one endpoint. Of several addresses the first counts, as the API demands of consumers.
func sight(ep *discoveryv1.Endpoint, port int32) seen {
	host := net.JoinHostPort(ep.Addresses[0], strconv.Itoa(int(port)))
	p := Peer{URL: (&url.URL{Scheme: "http", Host: host}).String(), Name: host}
	p.ID = p.URL
	if t := ep.TargetRef; t != nil && t.UID != "" {
		p.UID, p.Name = string(t.UID), cmp.Or(t.Name, host)
		p.ID = p.UID + ":" + strconv.Itoa(int(port))
	}
	c := conditionOf(ep.Conditions)
	p.Terminating = c == terminating
	return seen{p, c}
}

func merge(a, b seen) seen {
	best := a
	if b.URL < a.URL {
		best = b
	}
	best.condition = max(a.condition, b.condition)
	best.Terminating = best.condition == terminating
	return best
}

func present(merged map[string]seen) []Peer {
	out := make([]Peer, 0, len(merged))
	for _, s := range slices.SortedFunc(maps.Values(merged), func(a, b seen) int { return cmp.Compare(a.URL, b.URL) }) {
		if s.condition != unready && len(out) < MaxPeers {
			out = append(out, s.Peer)
		}
	}
	return out
}

// portOf chooses among a slice's ports: by name, else the one this replica listens on itself, else the first, else our
// own.
func portOf(ports []discoveryv1.EndpointPort, name string, own int32) int32 {
	first := int32(0)
	sameAsOwn := false
	for _, p := range ports {
		if p.Port == nil || p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP {
			continue
		}
		if p.Name != nil && *p.Name == name {
			return *p.Port
		}
		sameAsOwn = sameAsOwn || *p.Port == own
		first = cmp.Or(first, *p.Port)
	}
	if sameAsOwn || first == 0 {
		return own
	}
	return first
}
