package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// serve accepts connections on l until ctx ends, and gives each, after its handshake, to peer in a goroutine of its
// own. It closes l and returns when the last of them has ended.
func serve(ctx context.Context, l net.Listener, t SocketType, opt Options, peer func(*Conn)) error {
	ctx, cancel := context.WithCancel(ctx)
	var peers sync.WaitGroup
	defer peers.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		nc, err := l.Accept()
		if err != nil {
			l.Close()
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return context.Cause(ctx)
			}
			return fmt.Errorf("zmtp: accept on %s: %w", l.Addr(), err)
		}
		peers.Go(func() { attend(ctx, nc, t, opt, peer) })
	}
}

func attend(ctx context.Context, nc net.Conn, t SocketType, opt Options, peer func(*Conn)) {
	shake, cancel := context.WithTimeout(ctx, opt.HandshakeTimeout)
	c, err := handshake(shake, nc, t, opt)
	cancel()
	if err != nil {
		return // the peer sees its connection closed; a server of the engine double has nobody to tell
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.nc.Close() })
	defer stop()
	peer(c)
}
