package zmtp

import (
	"context"
	"net"
)

// Request is one message to a Router, with the way back to whoever sent it.
type Request struct {
	// Identity is what the peer named itself in its handshake; empty for most.
	Identity []byte
	// Parts are the frames after the identity, valid during the call.
	Parts [][]byte
	// Reply sends one message back to the peer. It may be called any number of times, until the handler returns.
	Reply func(parts ...[]byte) error
}

// Router answers requests of DEALER and REQ peers. A real ROUTER socket prefixes an identity frame on each message
// and strips it on the way out; here the Request itself knows the way.
type Router struct {
	opt    Options
	handle func(context.Context, Request)
}

// NewRouter gives a server that calls handle for each request. Requests of one peer come one after another, those of
// different peers at the same time.
func NewRouter(opt Options, handle func(context.Context, Request)) *Router {
	return &Router{opt: opt.withDefaults(), handle: handle}
}

// Serve accepts peers on l until ctx ends, whose cause it returns.
func (r *Router) Serve(ctx context.Context, l net.Listener) error {
	return serve(ctx, l, ROUTER, r.opt, func(c *Conn) {
		for {
			parts, err := c.Recv()
			if err != nil {
				return
			}
			r.handle(ctx, Request{Identity: c.peer.identity, Parts: parts, Reply: c.Send})
		}
	})
}
