package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/leftover"
)

// dialTimeout bounds a connection attempt inside node 1. Established ones have
// no bound: watches are long.
const dialTimeout = 2 * time.Second

// listenerFD is the descriptor of the proxy's listening socket.
const listenerFD = 3

// listenLoopback opens the proxy's port; 0 takes a free one.
func listenLoopback(port int) (*net.TCPListener, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return nil, fmt.Errorf("open a loopback port for the API server: %w", err)
	}
	return l, nil
}

// startProxy hands the listening socket over to a process that outlives us.
func (a *app) startProxy(l *net.TCPListener) error {
	f, err := l.File()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	_, err = a.spawn(layout.RoleProxy, 0, 0, nil, f)
	return errors.Join(err, f.Close(), l.Close())
}

// runProxy passes connections from the host's loopback to the API server inside
// node 1. The node is looked up for each connection, so that it may lose its
// power and come back.
func (a *app) runProxy(ctx context.Context) error {
	l, err := net.FileListener(os.NewFile(listenerFD, "listener"))
	if err != nil {
		return fmt.Errorf("take over the listening socket: %w", err)
	}
	node := &nodeFinder{table: leftover.New(a.Cluster)}
	for {
		conn, err := l.Accept()
		if err != nil {
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		}
		go func() {
			if err := forward(ctx, conn, node); err != nil {
				fmt.Println(time.Now().Format(time.TimeOnly), err)
			}
		}()
	}
}

func forward(ctx context.Context, client net.Conn, node *nodeFinder) error {
	server, err := node.dial(ctx)
	if err != nil {
		return errors.Join(err, client.Close())
	}
	var wg sync.WaitGroup
	wg.Go(func() { pump(server, client) })
	wg.Go(func() { pump(client, server) })
	wg.Wait()
	return errors.Join(client.Close(), server.Close())
}

// pump copies one direction and passes its end on. A broken connection ends the
// copy, and the other end hears of it; there is nobody else to tell.
func pump(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// nodeFinder knows process 1 of node 1 as long as it lives.
type nodeFinder struct {
	table leftover.Table
	pid   atomic.Int64
}

func (n *nodeFinder) find() (int, error) {
	isNode := func(p leftover.Process) bool { return p.Role == layout.RoleInit && p.Node == layout.NodeName(1) }
	if p, ok := n.table.Read(int(n.pid.Load())); ok && isNode(p) {
		return p.PID, nil
	}
	all, err := n.table.Find()
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		if isNode(p) {
			n.pid.Store(int64(p.PID))
			return p.PID, nil
		}
	}
	return 0, fmt.Errorf("%s is not running", layout.NodeName(1))
}

// dial connects on a thread inside the node's network; the connection stays
// there when the thread has gone.
func (n *nodeFinder) dial(ctx context.Context) (net.Conn, error) {
	pid, err := n.find()
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(layout.NodeIP(1), strconv.Itoa(layout.APIPort))
	return dialInside(ctx, pid, "tcp", address)
}

func dialInside(ctx context.Context, pid int, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := inside(pid, []space{networkSpace}, func() error {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		var err error
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}
