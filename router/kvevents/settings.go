package kvevents

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Codes of problems, from the closed list of /internal/bootstrap.
const (
	// CodeForeignHost: an engine advertises a host that is not its own.
	CodeForeignHost = "foreign_event_host"
	// CodeSettings: what an engine advertises or what was configured for it makes no sense, or contradicts itself.
	CodeSettings = "event_settings"
)

// Problem is something about a worker's event settings that somebody has to set right.
type Problem struct {
	Code    string
	Worker  string // the worker's name
	Message string
}

// Configured are event settings for engines that advertise none: from the fleet's spec, or the pod's annotations. Zero
// fields are not configured.
type Configured struct {
	Port       int64
	Topic      *string
	BlockSize  int64
	DPSize     int64
	ReplayPort int64
}

// Candidate is a worker whose event settings are to be resolved.
type Candidate struct {
	Worker string // name, for problems
	// Host is the host of the worker's URL; it stands in for wildcards.
	Host string
	// Addresses are the pod's own. The URL's host is taken for one too.
	Addresses  []netip.Addr
	Info       ServerInfo
	Configured Configured
	// AllowForeignHosts is --allow-foreign-event-hosts.
	AllowForeignHosts bool
}

// Settings are where and what a worker publishes.
type Settings struct {
	Host       string
	Port       int // rank r publishes on Port+r
	Topic      string
	BlockSize  int
	DPSize     int // ranks that can be subscribed to
	ReplayHost string
	ReplayPort int // rank r repeats on ReplayPort+r; 0 without a replay socket
	LoadPort   int // rank r publishes its load on LoadPort+r; 0 without
	LoadTopic  string
	Bigram     bool // block hashes are over pairs of tokens
}

// Address is where a rank publishes.
func (s *Settings) Address(dp int) string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port+dp)) }

// ReplayAddress is where a rank repeats, empty without a replay socket.
func (s *Settings) ReplayAddress(dp int) string {
	if s.ReplayPort == 0 {
		return ""
	}
	return net.JoinHostPort(s.ReplayHost, strconv.Itoa(s.ReplayPort+dp))
}

// Resolve decides a worker's event settings. What the engine advertises wins; where it says something else than what was
// configured, that is a problem but no obstacle. nil settings with problems mean that the worker routes without cache
// until they are solved, nil without problems that it publishes no events.
func Resolve(c Candidate) (*Settings, []Problem) {
	r := resolver{c: c}
	s := r.resolve()
	if r.fatal {
		s = nil
	}
	return s, r.problems
}

type resolver struct {
	c        Candidate
	problems []Problem
	fatal    bool
}

func (r *resolver) warn(code, format string, args ...any) {
	r.problems = append(r.problems, Problem{code, r.c.Worker, fmt.Sprintf(format, args...)})
}

func (r *resolver) refuse(code, format string, args ...any) {
	r.fatal = true
	r.warn(code, format, args...)
}

func (r *resolver) resolve() *Settings {
	a, c := r.c.Info.Events, &r.c.Configured
	if a == nil {
		if c.Port == 0 {
			return nil
		}
		a = &Advertised{}
	}
	s := &Settings{LoadTopic: a.LoadTopic}
	s.Host = r.host("endpoint_host", a.EndpointHost)
	s.Port = r.port("endpoint_port_base", r.pick("port", a.EndpointPort, c.Port))
	s.Topic = r.topic(a, c)
	s.BlockSize = r.within("block_size", r.pick("block-size", a.BlockSize, c.BlockSize), 1, maxBlockTokens)
	s.DPSize = r.within("dp_size", r.ranks(a, c), 1, maxDPSize)
	s.Bigram = r.bigram(a)
	if r.fatal {
		return nil
	}
	r.fitRanks(s)
	if p := r.pick("replay-port", a.ReplayPort, c.ReplayPort); p != 0 {
		s.ReplayHost = r.host("replay_endpoint_host", cmp.Or(a.ReplayHost, a.EndpointHost))
		s.ReplayPort = r.side("replay_endpoint_port_base", p, s)
	}
	if a.LoadPort != nil && a.LoadTopic != "" {
		s.LoadPort = r.side("load_endpoint_port_base", *a.LoadPort, s)
	}
	return s
}

// ranks is the number of ranks, one if nobody says.
func (r *resolver) ranks(a *Advertised, c *Configured) int64 {
	if a.DPSize == nil && c.DPSize == 0 {
		return 1
	}
	return r.pick("dp-size", a.DPSize, c.DPSize)
}

// pick gives what is advertised, else what is configured, 0 without either.
func (r *resolver) pick(name string, advertised *int64, configured int64) int64 {
	if advertised == nil {
		return configured
	}
	if configured != 0 && configured != *advertised {
		r.warn(CodeSettings, "the engine advertises kv-events %s %d, configured is %d: the engine's is used; correct the configuration", name, *advertised, configured)
	}
	return *advertised
}

func (r *resolver) topic(a *Advertised, c *Configured) string {
	t := a.Topic
	if r.c.Info.Events == nil && c.Topic != nil {
		t = *c.Topic
	} else if c.Topic != nil && *c.Topic != t {
		r.warn(CodeSettings, "the engine advertises kv-events topic %.64q, configured is %.64q: the engine's is used; correct the configuration", t, *c.Topic)
	}
	if len(t) > maxTopic {
		r.refuse(CodeSettings, "the kv-events topic has %d bytes, at most %d are allowed", len(t), maxTopic)
	}
	return t
}

func (r *resolver) within(name string, v, low, high int64) int {
	if v < low || v > high {
		r.refuse(CodeSettings, "kv-events %s is %d, it must be within %d..%d", name, v, low, high)
		return 0
	}
	return int(v)
}

func (r *resolver) port(name string, v int64) int { return r.within(name, v, minPort, maxPort) }

// side resolves the first port of a socket beside the events'. Trouble with it costs that socket only.
func (r *resolver) side(name string, v int64, s *Settings) int {
	last := v + int64(s.DPSize) - 1
	switch {
	case v < minPort || last > maxPort:
		r.warn(CodeSettings, "kv-events %s is %d for %d ranks, ports must be within %d..%d: it is not used", name, v, s.DPSize, minPort, maxPort)
		return 0
	case last >= int64(s.Port) && v < int64(s.Port+s.DPSize):
		r.warn(CodeSettings, "kv-events %s %d and endpoint_port_base %d overlap for %d ranks: it is not used", name, v, s.Port, s.DPSize)
		return 0
	}
	return int(v)
}

// fitRanks leaves out the ranks whose port would be beyond the last.
func (r *resolver) fitRanks(s *Settings) {
	if fit := maxPort - s.Port + 1; s.DPSize > fit {
		r.warn(CodeSettings, "kv-events endpoint_port_base %d leaves ports for %d of %d ranks: the others route without cache", s.Port, fit, s.DPSize)
		s.DPSize = fit
	}
}

// host gives the host to connect to: the worker's own for a wildcard, else the one advertised if it is the worker's.
func (r *resolver) host(name, advertised string) string {
	switch advertised {
	case "", "*", "0.0.0.0", "::", "[::]":
		return r.c.Host
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(advertised, "["), "]")
	if len(bare) > maxHostBytes || strings.ContainsAny(bare, "/@ \t\r\n%") {
		r.refuse(CodeSettings, "kv-events %s %.64q is no host", name, advertised)
		return ""
	}
	if !r.c.AllowForeignHosts && !r.own(bare) {
		r.refuse(CodeForeignHost, "the engine advertises kv-events %s %s, which is none of its own addresses: bind the publisher to a wildcard, or allow it with --allow-foreign-event-hosts", name, bare)
	}
	return bare
}

func (r *resolver) own(host string) bool {
	if strings.EqualFold(host, r.c.Host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	ip = ip.Unmap()
	if own, err := netip.ParseAddr(r.c.Host); err == nil && own.Unmap() == ip {
		return true
	}
	return slices.ContainsFunc(r.c.Addresses, func(a netip.Addr) bool { return a.Unmap() == ip })
}

// bigram tells whether the engine hashes pairs of tokens: EAGLE's family does.
func (r *resolver) bigram(a *Advertised) bool {
	if a.Bigram != nil {
		return *a.Bigram
	}
	name := strings.ToUpper(r.c.Info.Speculative)
	switch name {
	case "EAGLE", "EAGLE3", "FROZEN_KV_MTP":
		return true
	}
	if strings.Contains(name, "EAGLE") || strings.Contains(name, "MTP") {
		r.warn(CodeSettings, "speculative_algorithm %.64q is not known: block hashes are taken to be over single tokens", r.c.Info.Speculative)
	}
	return false
}
