package app

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/routerfleet/routerfleet/router/bootstrap"
	"github.com/routerfleet/routerfleet/router/peers"
)

// PeerOptions are the flags of what replicas tell each other. Without a peer selector and peers nothing is asked of anybody.
type PeerOptions struct {
	KVPeerSelector               string   `name:"kv-peer-selector" group:"Peer bootstrap" placeholder:"LABELS" help:"Label selector of the EndpointSlices of this router's siblings, which have the labels of their Service: kubernetes.io/service-name=NAME. A router that starts copies from them what engines have cached. Empty: it does not, unless --kv-peer names some."`
	KVPeer                       []string `name:"kv-peer" sep:"none" group:"Peer bootstrap" placeholder:"URL" help:"Admin listener of a sibling, http://HOST:PORT. Repeatable; the router itself may be among them. May be combined with --kv-peer-selector."`
	KVBootstrapTimeoutMS         int      `name:"kv-bootstrap-timeout-ms" group:"Peer bootstrap" default:"60000" help:"How long a router that starts looks for siblings to copy from before it becomes ready without."`
	KVBootstrapFetchTimeoutCapMS int      `name:"kv-bootstrap-fetch-timeout-cap-ms" group:"Peer bootstrap" default:"120000" help:"Longest time of one transfer, 30000 to 600000."`
	KVBootstrapSeedRequired      bool     `name:"kv-bootstrap-seed-required" group:"Peer bootstrap" help:"Stay unready while siblings are there and none has given a copy, up to three times --kv-bootstrap-timeout-ms, at least a minute."`
	KVUpstreamPeerSelector       string   `name:"kv-upstream-peer-selector" group:"Peer bootstrap" placeholder:"LABELS" help:"Label selector of the EndpointSlices of routers of the open SGLang stack, to copy from when moving away from them: asked once, without credentials."`
	KVUpstreamPeer               []string `name:"kv-upstream-peer" sep:"none" group:"Peer bootstrap" placeholder:"URL" help:"Such a router's base URL. Repeatable; may be combined with the selector."`
	KVUpstreamPeerPort           string   `name:"kv-upstream-peer-port" group:"Peer bootstrap" default:"http" help:"Name of those routers' port in the EndpointSlices."`

	// What the pod is told about itself by the downward API; empty outside a pod.
	PodName      string `name:"pod-name" hidden:"" env:"POD_NAME,HOSTNAME"`
	PodNamespace string `name:"pod-namespace" hidden:"" env:"POD_NAMESPACE"`
	PodIP        string `name:"pod-ip" hidden:"" env:"POD_IP"`
}

// asksPeers says whether anybody is to be asked.
func (o *PeerOptions) asksPeers() bool {
	return o.KVPeerSelector != "" || len(o.KVPeer) > 0 || o.asksUpstream()
}

// asksUpstream says whether routers of another kind are to be asked.
func (o *PeerOptions) asksUpstream() bool {
	return o.KVUpstreamPeerSelector != "" || len(o.KVUpstreamPeer) > 0
}

func (o *PeerOptions) fillDefaults() {
	fill(&o.KVBootstrapTimeoutMS, int(bootstrap.DefaultTimeout/time.Millisecond))
	fill(&o.KVBootstrapFetchTimeoutCapMS, int(bootstrap.DefaultFetchCap/time.Millisecond))
	fill(&o.KVUpstreamPeerPort, "http")
}

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// validatePeers expects defaults to be filled in.
func (o *Options) validatePeers() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, s := range []struct{ flag, selector string }{
		{"--kv-peer-selector", o.KVPeerSelector}, {"--kv-upstream-peer-selector", o.KVUpstreamPeerSelector},
	} {
		parsed, err := labels.Parse(s.selector)
		switch {
		case s.selector == "":
		case err != nil:
			fault("%s %q: %w", s.flag, s.selector, err)
		case parsed.Empty():
			fault("%s selects everything: name the labels of one Service, kubernetes.io/service-name=NAME", s.flag)
		case o.peerNamespace() == "":
			fault("%s needs POD_NAMESPACE in the environment, or --service-discovery-namespace", s.flag)
		}
	}
	for flag, list := range map[string][]string{"--kv-peer": o.KVPeer, "--kv-upstream-peer": o.KVUpstreamPeer} {
		for _, raw := range list {
			if _, err := peers.ParseStatic(raw); err != nil {
				fault("%s: %w", flag, err)
			}
		}
	}
	if o.asksPeers() && !o.followsEvents() {
		fault("--kv-peer-selector, --kv-peer and --kv-upstream-peer* need --policy cache_aware and --kv-events: without them there is nothing to copy")
	}
	if (o.KVPeerSelector != "" || len(o.KVPeer) > 0) && o.TokenDir == "" {
		fault("--kv-peer-selector and --kv-peer need --token-dir: siblings sign what they tell each other")
	}
	for _, d := range []struct {
		flag             string
		got, least, most int
	}{
		{"--kv-bootstrap-timeout-ms", o.KVBootstrapTimeoutMS, 1, int(bootstrap.MaxTimeout / time.Millisecond)},
		{"--kv-bootstrap-fetch-timeout-cap-ms", o.KVBootstrapFetchTimeoutCapMS, int(bootstrap.MinFetchCap / time.Millisecond), int(bootstrap.MaxFetchCap / time.Millisecond)},
	} {
		if d.got < d.least || d.got > d.most {
			fault("%s %d is outside %d to %d", d.flag, d.got, d.least, d.most)
		}
	}
	return errors.Join(faults...)
}

// peerNamespace is the replica's own: peers come from nowhere else.
func (o *Options) peerNamespace() string {
	if o.PodNamespace != "" {
		return o.PodNamespace
	}
	return o.ServiceDiscoveryNamespace
}

// self is how this replica recognizes itself among its siblings.
func (o *Options) self() peers.Self {
	return peers.Self{
		UID: o.PodUID, Name: strings.TrimSpace(o.PodName), Namespace: o.peerNamespace(), IP: o.PodIP, Host: o.AdminHost, Port: o.AdminPort,
	}
}
