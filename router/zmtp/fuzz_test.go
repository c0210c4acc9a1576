package zmtp

import (
	"bufio"
	"bytes"
	"runtime"
	"testing"
)

// FuzzReceive feeds arbitrary bytes to a connection that has its handshake behind it. Whatever comes, it ends with an
// error, answers PINGs only, and takes no more memory than bytes came.
func FuzzReceive(f *testing.F) {
	f.Add(appendMessage(nil, [][]byte{nil, []byte("12345678"), []byte("payload")}))
	f.Add(appendCommand(nil, cmdPing, []byte("\x00\x0actx")))
	f.Add(appendCommand(appendFrame(nil, flagMore, []byte("a")), cmdSubscribe, []byte("t")))
	f.Add([]byte{flagLong, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff})
	f.Add([]byte{flagCommand | flagLong, 0, 0, 0, 0, 0, 0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, in []byte) {
		c := &Conn{nc: discardConn{}, opt: quiet.withDefaults(), r: bufio.NewReader(bytes.NewReader(in))}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for {
			e, err := c.next()
			if err != nil {
				break
			}
			if n := len(bytes.Join(e.parts, nil)) + len(e.data); n > len(in) {
				t.Fatalf("%d bytes in, %d bytes out", len(in), n)
			}
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(64*len(in))+16*readStep {
			t.Fatalf("%d bytes in, %d bytes allocated", len(in), got)
		}
	})
}

// FuzzHandshake feeds arbitrary bytes as a peer's greeting and READY.
func FuzzHandshake(f *testing.F) {
	g := greeting(1)
	f.Add(appendCommand(g[:], cmdReady, readyData(PUB, []byte("me"))))
	f.Add(appendCommand(g[:], cmdError, []byte("\x04busy")))
	f.Add(g[:20])
	f.Fuzz(func(t *testing.T, in []byte) {
		c := &Conn{nc: discardConn{}, opt: quiet.withDefaults(), r: bufio.NewReader(bytes.NewReader(in))}
		if err := c.meet(SUB); err == nil && c.peer.socketType != PUB && c.peer.socketType != XPUB {
			t.Fatalf("a SUB accepted a %q", c.peer.socketType)
		}
	})
}
