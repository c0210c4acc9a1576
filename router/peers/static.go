package peers

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// ParseStatic reads the base URL of a peer's admin listener. The port must be said: there is no default that would be
// right for both schemes.
func ParseStatic(raw string) (Peer, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return Peer{}, fmt.Errorf("peer %q: %w", raw, err)
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return Peer{}, fmt.Errorf("peer %q is not http://HOST:PORT of a router's admin listener", raw)
	case u.Port() == "":
		return Peer{}, fmt.Errorf("peer %q has no port: name that of the admin listener (9400 by default)", raw)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return Peer{}, fmt.Errorf("peer %q has more than scheme, host and port", raw)
	}
	u.Path, u.Host = "", strings.ToLower(u.Host)
	return Peer{ID: u.String(), Name: u.Host, URL: u.String()}, nil
}

// Others leaves out the peer that is this replica itself, and those named twice.
func Others(list []Peer, self Self) []Peer {
	own, err := net.InterfaceAddrs()
	if err != nil { // then nothing is left out, and a replica that asks itself learns nothing
		own = nil
	}
	var out []Peer
	known := map[string]bool{}
	for _, p := range list {
		u, err := url.Parse(p.URL)
		if err != nil || known[p.ID] || self.Here(u.Hostname(), u.Port(), own) {
			continue
		}
		known[p.ID] = true
		out = append(out, p)
	}
	return out
}
