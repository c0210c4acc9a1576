package workers

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// condition is what the slices say about an endpoint, ordered from best to worst.
type condition int

const (
	conditionReady condition = iota
	// conditionServing is terminating and still serving: the last resort.
	conditionServing
	conditionNotReady
)

// conditionOf reads an endpoint's three flags by the text of the API: ready nil = ready; serving nil = the value
// of ready; terminating nil = false. A terminating endpoint is never ready, whatever the flag says (Services with
// publishNotReadyAddresses set it for every pod).
func conditionOf(c discoveryv1.EndpointConditions) condition {
	ready := c.Ready == nil || *c.Ready
	serving := ready
	if c.Serving != nil {
		serving = *c.Serving
	}
	switch terminating := c.Terminating != nil && *c.Terminating; {
	case terminating && serving:
		return conditionServing
	case terminating || !ready:
		return conditionNotReady
	default:
		return conditionReady
	}
}

// endpoint is one worker as its source wants it.
type endpoint struct {
	id        ID
	name      string
	uid       string
	url       *url.URL
	condition condition
	// probed says that the source cannot tell health, so a probe must (static workers).
	probed bool
	// labels are those a selector of a model may match: one set for each object the worker was seen in, no set twice.
	labels []map[string]string
	// taken are the models whose selectors take the worker, sorted; nil without a models file.
	taken []string
}

// Skip reasons of discovered endpoints, also values of the metric label reason.
const (
	skipFQDN      = "fqdn"
	skipAddress   = "bad_address"
	skipPort      = "no_such_port"
	skipTakenOver = "address_taken"
)

// portRef is a slice port by name or by number.
type portRef struct {
	name   string
	number int32 // 0 when the port is named
}

// parsePort reads --worker-port. An IANA_SVC_NAME has at least one letter, so a string of digits is a number.
func parsePort(s string) (portRef, error) {
	if s == "" {
		return portRef{name: "http"}, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	switch {
	case err != nil && len(s) > 15:
		return portRef{}, fmt.Errorf("worker port %q is no port number and too long for a port name (15 characters)", s)
	case err != nil:
		return portRef{name: s}, nil
	case n < 1 || n > 65535:
		return portRef{}, fmt.Errorf("worker port %d is outside 1..65535", n)
	}
	return portRef{number: int32(n)}, nil
}

// in finds the port among a slice's ports. A named port must be there. A number must be there too when the slice
// lists any port (a Service port mistaken for the container's would otherwise look like a dead engine); a slice
// without ports (headless Service that names none) takes the number as it is.
func (p portRef) in(ports []discoveryv1.EndpointPort) (int32, bool) {
	for _, sp := range ports {
		if sp.Port == nil || (sp.Protocol != nil && *sp.Protocol != corev1.ProtocolTCP) {
			continue
		}
		if p.number == *sp.Port || (p.number == 0 && sp.Name != nil && *sp.Name == p.name) {
			return *sp.Port, true
		}
	}
	return p.number, p.number != 0 && len(ports) == 0
}

// sighting is one endpoint of one slice.
type sighting struct {
	endpoint
	addr netip.AddrPort
}

// desired turns the slices of a namespace into the set of workers, sorted by id, and counts what it left out by
// reason. It is pure, and the order of slices and endpoints does not matter.
//
// Several sightings of one pod (dual stack, a pod in two Services, a slice being split) are one worker: of its
// addresses IPv4 goes before IPv6 and lower before higher; of its conditions the worst counts, because the slices
// of a pod that turns unready are not written at one instant and the first to say so is right. FQDN slices are
// ignored. Two pods with one address are an old and a new owner: the better condition keeps it.
func desired(all []*discoveryv1.EndpointSlice, port portRef) (set []endpoint, skipped map[string]int) {
	skipped = map[string]int{}
	merged := map[ID]sighting{}
	for _, s := range all {
		for i := range s.Endpoints {
			seen, reason := sight(s, &s.Endpoints[i], port)
			if reason != "" {
				skipped[reason]++
				continue
			}
			if before, ok := merged[seen.id]; ok {
				seen = merge(before, seen)
			}
			merged[seen.id] = seen
		}
	}
	set = make([]endpoint, 0, len(merged))
	for _, s := range slices.SortedFunc(maps.Values(ownersOf(merged, skipped)), compareSightings) {
		set = append(set, s.endpoint)
	}
	return set, skipped
}

func compareSightings(a, b sighting) int { return cmp.Compare(a.id, b.id) }

// sight reads one endpoint; a non-empty reason says why it is left out. Of several addresses the first counts, as
// the API demands of consumers.
func sight(s *discoveryv1.EndpointSlice, ep *discoveryv1.Endpoint, port portRef) (sighting, string) {
	if s.AddressType == discoveryv1.AddressTypeFQDN {
		return sighting{}, skipFQDN
	}
	if len(ep.Addresses) == 0 {
		return sighting{}, skipAddress
	}
	ip, err := netip.ParseAddr(ep.Addresses[0])
	if err != nil {
		return sighting{}, skipAddress
	}
	number, ok := port.in(s.Ports)
	if !ok {
		return sighting{}, skipPort
	}
	addr := netip.AddrPortFrom(ip.Unmap(), uint16(number))
	e := endpoint{
		url:       &url.URL{Scheme: "http", Host: net.JoinHostPort(addr.Addr().String(), strconv.Itoa(int(number)))},
		condition: conditionOf(ep.Conditions), labels: []map[string]string{s.Labels},
	}
	if t := ep.TargetRef; t != nil && t.UID != "" {
		e.uid = string(t.UID)
		e.id = ID(s.Namespace + "/" + e.uid)
		e.name = s.Namespace + "/" + t.Name
	} else {
		e.id = ID(s.Namespace + "/" + s.Name + "/" + e.url.Host)
		e.name = s.Namespace + "/" + s.Name + "-" + notStaticID.ReplaceAllString(e.url.Host, "-")
	}
	return sighting{endpoint: e, addr: addr}, ""
}

// merge keeps the better address, the worse condition and the labels of two sightings of one worker.
func merge(a, b sighting) sighting {
	best := a
	if compareAddrs(b.addr, a.addr) < 0 {
		best = b
	}
	best.condition = max(a.condition, b.condition)
	best.labels = a.labels
	for _, set := range b.labels {
		if !slices.ContainsFunc(a.labels, func(known map[string]string) bool { return maps.Equal(known, set) }) {
			best.labels = append(best.labels[:len(best.labels):len(best.labels)], set)
		}
	}
	return best
}

// compareAddrs puts IPv4 before IPv6, then lower before higher.
func compareAddrs(a, b netip.AddrPort) int {
	if a.Addr().Is4() != b.Addr().Is4() {
		if a.Addr().Is4() {
			return -1
		}
		return 1
	}
	return a.Compare(b)
}

// ownersOf leaves one worker per address: the one in better condition, else one that is a pod, else the higher
// id, so that the choice does not move while both are listed.
func ownersOf(all map[ID]sighting, skipped map[string]int) map[ID]sighting {
	owner := map[netip.AddrPort]sighting{}
	for _, s := range all {
		other, taken := owner[s.addr]
		if taken {
			skipped[skipTakenOver]++
		}
		if !taken || ownsOver(s.endpoint, other.endpoint) {
			owner[s.addr] = s
		}
	}
	kept := make(map[ID]sighting, len(owner))
	for _, s := range owner {
		kept[s.id] = s
	}
	return kept
}

// ownsOver says whether a, rather than b, owns an address both claim.
func ownsOver(a, b endpoint) bool {
	if a.condition != b.condition {
		return a.condition < b.condition
	}
	if (a.uid != "") != (b.uid != "") {
		return a.uid != ""
	}
	return a.id > b.id
}
