package zmtp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestGreetingIsThatOfTheSpecification(t *testing.T) {
	g := greeting(1)
	want := append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 1, 'N', 'U', 'L', 'L'}, make([]byte, 48)...)
	if !bytes.Equal(g[:], want) {
		t.Errorf("greeting\n got % x\nwant % x", g, want)
	}
}

func TestReadyIsThatOfTheSpecification(t *testing.T) {
	got := appendCommand(nil, cmdReady, readyData(SUB, nil))
	want := []byte("\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB")
	if !bytes.Equal(got, want) {
		t.Errorf("READY\n got %q\nwant %q", got, want)
	}
}

func TestHandshakeRefusesWhatItCannotSpeak(t *testing.T) {
	ok := greeting(1)
	old := greeting(1)
	old[10] = 2
	curve := greeting(1)
	copy(curve[12:], "CURVE")
	for name, c := range map[string]struct {
		bytes []byte
		want  string
	}{
		"an HTTP server":    {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), "does not speak ZMTP"},
		"ZMTP 2":            {old[:], "speaks ZMTP 2"},
		"CURVE":             {curve[:], `mechanism "CURVE"`},
		"a ROUTER":          {appendCommand(ok[:], cmdReady, readyData(ROUTER, nil)), "is this the right port"},
		"an ERROR":          {appendCommand(ok[:], cmdError, []byte("\x04busy")), `refuses the connection: "busy"`},
		"a message first":   {appendFrame(ok[:], 0, []byte("x")), "before READY"},
		"another command":   {appendCommand(ok[:], cmdPing, pingData(1)), `"PING" before READY`},
		"a truncated READY": {appendCommand(ok[:], cmdReady, []byte("\x0bSocket-Type\x00\x00\xff\xffSUB")), "truncated"},
		"nothing":           {nil, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			opt := quiet
			opt.Dial = func(context.Context, string, string) (net.Conn, error) { return ours, nil }
			go func() {
				go io.Copy(io.Discard, theirs)
				theirs.Write(c.bytes)
				theirs.Close()
			}()
			_, err := Dial(t.Context(), "engine:5557", SUB, opt)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "engine:5557") {
				t.Errorf("got %v, want one that names the address and says %q", err, c.want)
			}
		})
	}
}

func TestASilentPeerCostsTheHandshakeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		opt := quiet
		opt.Dial = func(context.Context, string, string) (net.Conn, error) { return ours, nil }
		began := time.Now()
		_, err := Dial(t.Context(), "engine:5557", SUB, opt)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != DefaultHandshakeTimeout {
			t.Errorf("gave up after %s with %v, want %s and a deadline", took, err, DefaultHandshakeTimeout)
		}
	})
}

func TestMessagesKeepTheirFrames(t *testing.T) {
	c, p := dialScripted(t, SUB, PUB, quiet)
	long := bytes.Repeat([]byte("x"), 70_000)
	want := [][]byte{{}, {0, 0, 0, 0, 0, 0, 0, 7}, long}
	go p.send(appendMessage(nil, want))
	got, err := c.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || len(got[0]) != 0 || !bytes.Equal(got[1], want[1]) || !bytes.Equal(got[2], long) {
		t.Errorf("got %d frames of %d bytes", len(got), len(bytes.Join(got, nil)))
	}
}

func TestLimitsAreCheckedBeforeTheBytesAreRead(t *testing.T) {
	opt := quiet
	opt.MaxFrameBytes, opt.MaxMessageBytes, opt.MaxParts = 100, 150, 3
	frame := func(flags byte, n int) []byte { return appendFrame(nil, flags, make([]byte, n)) }
	for name, c := range map[string]struct {
		bytes []byte
		what  string // of the LimitError; empty means accepted
	}{
		"a frame at the limit":           {frame(0, 100), ""},
		"a frame past it":                {frame(0, 101)[:2], "a frame (bytes)"},
		"an endless frame":               {[]byte{flagLong, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "a frame (bytes)"},
		"a message at the limit":         {append(frame(flagMore, 100), frame(0, 50)...), ""},
		"a message past it":              {append(frame(flagMore, 100), frame(0, 51)[:2]...), "a message (bytes)"},
		"three frames":                   {bytes.Join([][]byte{frame(flagMore, 1), frame(flagMore, 1), frame(0, 1)}, nil), ""},
		"four frames":                    {bytes.Join([][]byte{frame(flagMore, 1), frame(flagMore, 1), frame(flagMore, 1), {0, 1}}, nil), "a message (frames)"},
		"an endless command":             {[]byte{flagCommand | flagLong, 0, 0, 0, 0, 1, 0, 0, 0}, "a command (bytes)"},
		"a PING with too long a context": {appendCommand(nil, cmdPing, make([]byte, 2+maxPingContext+1)), "a PING context (bytes)"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, p := dialScripted(t, SUB, PUB, opt)
			go p.send(c.bytes)
			_, err := conn.Recv()
			var limit *LimitError
			if errors.As(err, &limit) != (c.what != "") || limit != nil && limit.What != c.what {
				t.Errorf("got %v, want a limit on %q", err, c.what)
			}
		})
	}
}

func TestBrokenStreamsEndTheConnectionWithAReason(t *testing.T) {
	for name, c := range map[string]struct {
		bytes []byte
		want  string
	}{
		"reserved flags":             {[]byte{0x80, 0}, "flags 0x80"},
		"a command with MORE":        {[]byte{flagCommand | flagMore, 0}, "flags 0x05"},
		"a command inside a message": {append(appendFrame(nil, flagMore, []byte("a")), appendCommand(nil, cmdPing, pingData(1))...), "between the frames"},
		"an empty command":           {[]byte{flagCommand, 0}, "truncated"},
		"a short PING":               {appendCommand(nil, cmdPing, []byte{1}), "truncated"},
		"an ERROR":                   {appendCommand(nil, cmdError, []byte("\x03bye")), `"bye"`},
	} {
		t.Run(name, func(t *testing.T) {
			conn, p := dialScripted(t, SUB, PUB, quiet)
			go p.send(c.bytes)
			if _, err := conn.Recv(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want one that says %q", err, c.want)
			}
		})
	}
}

func TestAnEndInsideAMessageIsUnexpected(t *testing.T) {
	whole := appendMessage(nil, [][]byte{[]byte("topic"), []byte("body")})
	for cut := 1; cut < len(whole); cut++ {
		conn, p := dialScripted(t, SUB, PUB, quiet)
		go func() { p.send(whole[:cut]); p.nc.Close() }()
		if _, err := conn.Recv(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: got %v, want %v", cut, err, io.ErrUnexpectedEOF)
		}
	}
	conn, p := dialScripted(t, SUB, PUB, quiet)
	p.nc.Close()
	if _, err := conn.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("cut between messages: got %v, want %v", err, io.EOF)
	}
}

func TestPingIsAnsweredWithItsContext(t *testing.T) {
	c, p := dialScripted(t, SUB, PUB, quiet)
	go func() {
		p.send(appendCommand(nil, cmdPing, []byte("\x00\x0acontext")))
		if name, data := p.command(); name != cmdPong || string(data) != "context" {
			t.Errorf("answered %s %q, want PONG context", name, data)
		}
		p.send(appendMessage(nil, [][]byte{[]byte("after")}))
	}()
	if m, err := c.Recv(); err != nil || string(m[0]) != "after" {
		t.Errorf("got %q, %v", m, err)
	}
}

func TestAPeerThatAnswersPingsIsKeptForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dialScripted(t, SUB, PUB, Options{})
		began := time.Now()
		go func() {
			for range 20 {
				name, data := p.command()
				if name != cmdPing || len(data) != 2 || data[0] != 1 || data[1] != 0x2c {
					t.Errorf("got %s % x, want PING with a time to live of 300 tenths", name, data)
				}
				p.send(appendCommand(nil, cmdPong, nil))
			}
			p.send(appendMessage(nil, [][]byte{[]byte("x")}))
		}()
		if _, err := c.Recv(); err != nil {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if quietFor := time.Since(began); quietFor != 20*DefaultHeartbeatInterval {
			t.Errorf("20 heartbeats took %s", quietFor)
		}
	})
}

func TestAPeerThatFallsSilentIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dialScripted(t, SUB, PUB, Options{})
		go io.Copy(io.Discard, p.r) // takes our PINGs and never answers
		began := time.Now()
		_, err := c.Recv()
		var timeout net.Error
		if took := time.Since(began); !errors.As(err, &timeout) || !timeout.Timeout() || took != DefaultHeartbeatTimeout {
			t.Errorf("given up after %s with %v, want a timeout after %s", took, err, DefaultHeartbeatTimeout)
		}
	})
}

func TestSubscribeSpeaksThePeersVersion(t *testing.T) {
	c, p := dialScripted(t, SUB, PUB, quiet)
	go c.Subscribe("kv")
	if name, data := p.command(); name != cmdSubscribe || string(data) != "kv" {
		t.Errorf("to a 3.1 peer: %s %q", name, data)
	}
	old := quiet
	old.Minor = -1
	c, p = dialScripted(t, SUB, PUB, old)
	go c.Subscribe("kv")
	h, err := readHeader(p.r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := readBody(p.r, nil, h.size)
	if err != nil || h.flags != 0 || string(body) != "\x01kv" {
		t.Errorf("as a 3.0 peer: flags %#x body %q, %v", h.flags, body, err)
	}
}

func TestReceivingAllocatesNothingInSteadyState(t *testing.T) {
	c, p := dialScripted(t, SUB, PUB, quiet)
	message := appendMessage(nil, [][]byte{nil, []byte("12345678"), make([]byte, 1024)})
	go func() {
		for {
			if _, err := p.nc.Write(message); err != nil {
				return
			}
		}
	}()
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := c.Recv(); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations a message, want 0", n)
	}
}
