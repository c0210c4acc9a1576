package zmtp

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet are options without heartbeats, for tests that are about something else.
var quiet = Options{HeartbeatInterval: -1}

// scripted is a peer whose bytes a test writes by hand.
type scripted struct {
	t  *testing.T
	nc net.Conn
	r  *bufio.Reader
}

// dialScripted connects a real client of type ct to a hand-written peer of type pt that announces minor version 1.
func dialScripted(t *testing.T, ct, pt SocketType, opt Options) (*Conn, *scripted) {
	t.Helper()
	ours, theirs := net.Pipe()
	opt.Dial = func(context.Context, string, string) (net.Conn, error) { return ours, nil }
	p := &scripted{t, theirs, bufio.NewReader(theirs)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.greet(1, pt)
	}()
	c, err := Dial(t.Context(), "peer:1", ct, opt)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	<-done
	t.Cleanup(func() { c.Close(); theirs.Close() })
	return c, p
}

func (p *scripted) greet(minor byte, pt SocketType) {
	g := greeting(minor)
	written := make(chan struct{})
	go func() {
		defer close(written)
		p.nc.Write(appendCommand(g[:], cmdReady, readyData(pt, nil)))
	}()
	if _, err := readGreeting(p.r); err != nil {
		p.t.Errorf("peer reads greeting: %v", err)
	}
	p.command()
	<-written
}

// command reads one command frame.
func (p *scripted) command() (string, []byte) {
	p.t.Helper()
	h, err := readHeader(p.r)
	if err != nil {
		p.t.Errorf("peer reads a frame: %v", err)
		return "", nil
	}
	body, err := readBody(p.r, nil, h.size)
	if err != nil || !h.command() {
		p.t.Errorf("peer reads a command: flags %#x, %v", h.flags, err)
		return "", nil
	}
	name, data, err := splitCommand(body)
	if err != nil {
		p.t.Error(err)
	}
	return name, data
}

func (p *scripted) send(b []byte) {
	p.t.Helper()
	if _, err := p.nc.Write(b); err != nil {
		p.t.Errorf("peer writes: %v", err)
	}
}

// network is an in-memory network: listeners by address, connections are pipes.
type network struct {
	mu        sync.Mutex // guards listeners
	listeners map[string]*memListener
}

func newNetwork() *network { return &network{listeners: map[string]*memListener{}} }

type memListener struct {
	conns  chan net.Conn
	closed chan struct{}
	addr   string
}

func (n *network) listen(addr string) *memListener {
	l := &memListener{make(chan net.Conn), make(chan struct{}), addr}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[addr] = l
	return l
}

func (n *network) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Err: io.ErrClosedPipe}
	}
	a, b := net.Pipe()
	select {
	case l.conns <- b:
		return a, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}
func (l *memListener) Addr() net.Addr { return memAddr(l.addr) }

type memAddr string

func (memAddr) Network() string  { return "mem" }
func (a memAddr) String() string { return string(a) }

// recorded is one call of a Handler.
type recorded struct {
	what  string
	epoch uint64
	text  string
	at    time.Time
}

// recorder keeps what a subscription told its handler.
type recorder struct {
	calls   []recorded
	entered chan struct{} // if set, Message announces itself and then waits for resume
	resume  chan struct{}
}

func (r *recorder) add(what string, epoch uint64, text string) {
	r.calls = append(r.calls, recorded{what, epoch, text, time.Now()})
}
func (r *recorder) Connected(e uint64)               { r.add("connected", e, "") }
func (r *recorder) Disconnected(e uint64, err error) { r.add("disconnected", e, err.Error()) }
func (r *recorder) Unreachable(err error)            { r.add("unreachable", 0, err.Error()) }
func (r *recorder) Message(e uint64, parts [][]byte) {
	if r.entered != nil {
		r.entered <- struct{}{}
		<-r.resume
	}
	r.add("message", e, string(parts[len(parts)-1]))
}

func (r *recorder) texts(what string) (out []string) {
	for _, c := range r.calls {
		if c.what == what {
			out = append(out, c.text)
		}
	}
	return out
}

// discardConn takes every write and has nothing to read.
type discardConn struct{ net.Conn }

func (discardConn) Write(p []byte) (int, error)      { return len(p), nil }
func (discardConn) SetWriteDeadline(time.Time) error { return nil }
func (discardConn) Close() error                     { return nil }
