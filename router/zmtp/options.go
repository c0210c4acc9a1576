package zmtp

import (
	"context"
	"net"
	"time"
)

// SocketType is the type a socket names in its READY command.
type SocketType string

// The socket types that are spoken.
const (
	SUB    SocketType = "SUB"
	XSUB   SocketType = "XSUB"
	PUB    SocketType = "PUB"
	XPUB   SocketType = "XPUB"
	DEALER SocketType = "DEALER"
	ROUTER SocketType = "ROUTER"
	REP    SocketType = "REP"
	REQ    SocketType = "REQ"
)

// talksTo are the peers a socket type may have, from the specification.
var talksTo = map[SocketType][]SocketType{
	SUB:    {PUB, XPUB},
	PUB:    {SUB, XSUB},
	DEALER: {ROUTER, DEALER, REP},
	ROUTER: {DEALER, ROUTER, REQ},
}

// Options bound what a peer may cost. Zero fields take the documented defaults of limits.go.
type Options struct {
	MaxFrameBytes   uint64 // one frame
	MaxMessageBytes uint64 // the frames of one message together
	MaxParts        int    // frames of one message

	HandshakeTimeout  time.Duration // dial, greeting and READY together
	HeartbeatInterval time.Duration // between two PINGs; negative sends none and expects nothing
	HeartbeatTimeout  time.Duration // silence after which the peer is given up

	// Identity is sent in READY; a ROUTER addresses us by it. At most 255 bytes.
	Identity []byte

	// Minor is the ZMTP minor version to announce; negative announces 3.0, zero the newest (3.1).
	Minor int

	// Dial opens the connection. The default is a net.Dialer with keepalive probes every 15 s.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (o Options) withDefaults() Options {
	setDefault(&o.MaxFrameBytes, DefaultMaxFrameBytes)
	setDefault(&o.MaxMessageBytes, DefaultMaxMessageBytes)
	setDefault(&o.MaxParts, DefaultMaxParts)
	setDefault(&o.HandshakeTimeout, DefaultHandshakeTimeout)
	setDefault(&o.HeartbeatInterval, DefaultHeartbeatInterval)
	setDefault(&o.HeartbeatTimeout, DefaultHeartbeatTimeout)
	if o.Dial == nil {
		o.Dial = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true}}).DialContext
	}
	return o
}

func (o Options) minor() byte {
	if o.Minor < 0 {
		return 0
	}
	return versionMinor
}

func (o Options) heartbeats() bool { return o.HeartbeatInterval > 0 }

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
