package peers

import (
	"net"
	"net/netip"
	"os"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// Self is what a replica knows of itself, by the downward API. Empty is unknown.
type Self struct {
	UID, Name, Namespace, IP string
	// Host and Port are those of the admin listener.
	Host string
	Port int
}

// Known tells whether a replica could recognize itself in a slice.
func (s Self) Known() bool { return s.UID != "" || s.Name != "" || s.IP != "" }

// is tells whether an endpoint is this replica. The pod's name and UID come first: an IP is that of the primary family
// only, and the other address of a dual-stack pod would pass for a sibling. An address that is ours is ours all the same,
// whoever had it before: asking it would be asking ourselves.
func (s Self) is(namespace string, ep *discoveryv1.Endpoint) bool {
	if s.IP != "" {
		for _, address := range ep.Addresses {
			if address == s.IP {
				return true
			}
		}
	}
	ref := ep.TargetRef
	if ref == nil || ref.Kind != "" && ref.Kind != "Pod" {
		return false
	}
	if s.UID != "" && string(ref.UID) == s.UID {
		return true
	}
	if ref.Namespace != "" {
		namespace = ref.Namespace
	}
	return s.Name != "" && ref.Name == s.Name && (s.Namespace == "" || namespace == "" || s.Namespace == namespace)
}

// families tells which address families this replica reaches: those it listens on. A listener on every IPv4 address hears
// no IPv6; one on "::", or on a name, may hear both.
func (s Self) families() (v4, v6 bool) {
	ip, err := netip.ParseAddr(s.Host)
	switch {
	case err != nil:
		return true, true
	case ip.Is4() || ip.Is4In6():
		return true, false
	case ip.IsUnspecified():
		return true, true
	default:
		return false, true
	}
}

// Here tells whether a URL's host and port are this replica's admin listener, as far as its own addresses tell: one
// command line for all replicas of a fleet names each of them to itself.
func (s Self) Here(host, port string, own []net.Addr) bool {
	if port != strconv.Itoa(s.Port) {
		return false
	}
	if host == s.IP && s.IP != "" || host == s.Host && host != "" {
		return true
	}
	if name, err := os.Hostname(); err == nil && host == name {
		return true
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	for _, a := range own {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr() == ip.Unmap() {
			return true
		}
	}
	return false
}
