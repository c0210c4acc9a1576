package zmtp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Conn is one connection after its handshake. One goroutine may receive; any may send.
type Conn struct {
	nc   net.Conn
	r    *bufio.Reader
	opt  Options
	peer ready
	// minor is the lower of both sides' minor versions: what is spoken.
	minor byte

	// Reused by next: the bytes of one message, where its parts end, and the parts themselves.
	buf   []byte
	ends  []int
	parts [][]byte

	wmu  sync.Mutex // guards wbuf and the order of writes
	wbuf []byte

	closing   chan struct{}
	closeOnce sync.Once
	beats     sync.WaitGroup
}

// readBufferBytes holds a few hundred small messages, so that a burst costs few system calls.
const readBufferBytes = 128 << 10

// Dial connects to a host:port as a socket of type t and completes the handshake.
func Dial(ctx context.Context, address string, t SocketType, opt Options) (*Conn, error) {
	opt = opt.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, opt.HandshakeTimeout)
	defer cancel()
	nc, err := opt.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("zmtp: dial %s: %w", address, err)
	}
	c, err := handshake(ctx, nc, t, opt)
	if err != nil {
		return nil, fmt.Errorf("handshake with %s: %w", address, err)
	}
	return c, nil
}

// handshake exchanges greeting and READY. It owns nc: on error nc is closed.
func handshake(ctx context.Context, nc net.Conn, t SocketType, opt Options) (*Conn, error) {
	c := &Conn{nc: nc, opt: opt, closing: make(chan struct{})}
	c.r = bufio.NewReaderSize(&idleReader{nc, opt}, readBufferBytes)
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	err := c.introduce(t)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		nc.Close()
		return nil, errors.Join(err, context.Cause(ctx))
	}
	if opt.heartbeats() {
		c.beats.Go(c.heartbeat)
	}
	return c, nil
}

func (c *Conn) introduce(t SocketType) error {
	g := greeting(c.opt.minor())
	hello := appendCommand(g[:], cmdReady, readyData(t, c.opt.Identity))
	// Both sides speak at once; a peer that reads only after it has written must not block us.
	sent := make(chan error, 1)
	go func() { sent <- c.write(hello) }()
	err := c.meet(t)
	if err != nil {
		c.nc.Close() // ends the write, if it still waits
	}
	if werr := <-sent; err == nil {
		err = werr
	}
	return err
}

// meet reads the peer's half of the handshake.
func (c *Conn) meet(t SocketType) error {
	minor, err := readGreeting(c.r)
	if err != nil {
		return err
	}
	c.minor = min(minor, c.opt.minor())
	h, err := readHeader(c.r)
	if err != nil {
		return fmt.Errorf("zmtp: read READY: %w", noEOF(err))
	}
	if !h.command() {
		return errors.New("zmtp: peer sends a message before READY")
	}
	name, data, err := c.readCommand(h)
	if err != nil {
		return err
	}
	switch name {
	case cmdReady:
	case cmdError:
		return peerError(data)
	default:
		return fmt.Errorf("zmtp: peer sends %q before READY", name)
	}
	if c.peer, err = parseReady(data); err != nil {
		return err
	}
	if !slices.Contains(talksTo[t], c.peer.socketType) {
		return fmt.Errorf("zmtp: peer is a %q socket, a %s needs one of %v: is this the right port?", c.peer.socketType, t, talksTo[t])
	}
	return nil
}

// event is what next found: a message's parts, or a command. Both alias the connection's buffer until the next call.
type event struct {
	parts   [][]byte
	command string
	data    []byte
}

// Recv gives the next message. Its parts are valid until the next call. PING is answered on the way.
func (c *Conn) Recv() ([][]byte, error) {
	for {
		e, err := c.next()
		if err != nil {
			return nil, err
		}
		if e.command == "" {
			return e.parts, nil
		}
	}
}

// next gives the next message, or the next command other than PING and PONG.
func (c *Conn) next() (event, error) {
	for {
		h, err := readHeader(c.r)
		if err != nil {
			return event{}, err
		}
		if !h.command() {
			parts, err := c.readMessage(h)
			return event{parts: parts}, err
		}
		name, data, err := c.readCommand(h)
		if err != nil {
			return event{}, err
		}
		switch name {
		case cmdPong:
		case cmdPing:
			if err := c.pong(data); err != nil {
				return event{}, err
			}
		case cmdError:
			return event{}, peerError(data)
		default:
			return event{command: name, data: data}, nil
		}
	}
}

func (c *Conn) readCommand(h frameHeader) (string, []byte, error) {
	if h.size > maxCommandBytes {
		return "", nil, &LimitError{"a command (bytes)", h.size, maxCommandBytes}
	}
	body, err := readBody(c.r, c.buf[:0], h.size)
	if err != nil {
		return "", nil, err
	}
	c.buf = body
	return splitCommand(body)
}

// readMessage reads the frames of a message whose first header is h.
func (c *Conn) readMessage(h frameHeader) ([][]byte, error) {
	c.buf, c.ends = c.buf[:0], c.ends[:0]
	for {
		if err := c.checkFrame(h); err != nil {
			return nil, err
		}
		body, err := readBody(c.r, c.buf, h.size)
		c.buf = body
		if err != nil {
			return nil, err
		}
		c.ends = append(c.ends, len(c.buf))
		if !h.more() {
			return c.split(), nil
		}
		if h, err = readHeader(c.r); err != nil {
			return nil, noEOF(err)
		}
		if h.command() {
			return nil, errors.New("zmtp: peer sends a command between the frames of a message")
		}
	}
}

func (c *Conn) checkFrame(h frameHeader) error {
	switch {
	case h.size > c.opt.MaxFrameBytes:
		return &LimitError{"a frame (bytes)", h.size, c.opt.MaxFrameBytes}
	case uint64(len(c.buf))+h.size > c.opt.MaxMessageBytes:
		return &LimitError{"a message (bytes)", uint64(len(c.buf)) + h.size, c.opt.MaxMessageBytes}
	case len(c.ends) >= c.opt.MaxParts:
		return &LimitError{"a message (frames)", uint64(len(c.ends) + 1), uint64(c.opt.MaxParts)}
	}
	return nil
}

func (c *Conn) split() [][]byte {
	c.parts = c.parts[:0]
	start := 0
	for _, end := range c.ends {
		c.parts = append(c.parts, c.buf[start:end:end])
		start = end
	}
	return c.parts
}

// Send writes one message of at least one part. It returns when the kernel has taken it, or after HeartbeatTimeout.
func (c *Conn) Send(parts ...[]byte) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.wbuf = appendMessage(c.wbuf[:0], parts)
	return c.writeLocked(c.wbuf)
}

// Subscribe asks a publisher for messages whose first frame begins with topic.
func (c *Conn) Subscribe(topic string) error {
	if c.minor >= 1 {
		return c.command(cmdSubscribe, []byte(topic))
	}
	return c.Send(append([]byte{1}, topic...))
}

func (c *Conn) command(name string, data []byte) error {
	return c.write(appendCommand(nil, name, data))
}

func (c *Conn) pong(ping []byte) error {
	context, err := pongFor(ping)
	if err != nil {
		return err
	}
	return c.command(cmdPong, context)
}

func (c *Conn) write(b []byte) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	return c.writeLocked(b)
}

func (c *Conn) writeLocked(b []byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.opt.HeartbeatTimeout)); err != nil {
		return fmt.Errorf("zmtp: write: %w", err)
	}
	if _, err := c.nc.Write(b); err != nil {
		c.nc.Close() // half a frame may be out: nothing may follow it
		return fmt.Errorf("zmtp: write: %w", err)
	}
	return nil
}

// heartbeat sends PING until the connection closes. Any answer resets the reader's patience (idleReader).
func (c *Conn) heartbeat() {
	tick := time.NewTicker(c.opt.HeartbeatInterval)
	defer tick.Stop()
	ping := pingData(uint16(min(c.opt.HeartbeatTimeout/(100*time.Millisecond), 1<<16-1)))
	for {
		select {
		case <-c.closing:
			return
		case <-tick.C:
			if c.command(cmdPing, ping) != nil {
				return // the reader sees the closed connection
			}
		}
	}
}

// Close ends the connection and waits for its heartbeat. Recv returns an error.
func (c *Conn) Close() error {
	err := net.ErrClosed
	c.closeOnce.Do(func() {
		close(c.closing)
		err = c.nc.Close()
	})
	c.beats.Wait()
	return err
}

// idleReader gives up a peer that says nothing for HeartbeatTimeout. Only time spent waiting for the peer counts: a
// reader that is itself busy starts the clock anew when it asks again.
type idleReader struct {
	nc  net.Conn
	opt Options
}

func (r *idleReader) Read(p []byte) (int, error) {
	if r.opt.heartbeats() {
		if err := r.nc.SetReadDeadline(time.Now().Add(r.opt.HeartbeatTimeout)); err != nil {
			return 0, err
		}
	}
	return r.nc.Read(p)
}
