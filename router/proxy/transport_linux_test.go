package proxy

import (
	"context"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestConnectionsToEnginesGiveUpOnAHostThatVanished(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := NewTransport().DialContext(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := func(level, name int) (value int) {
		if err := raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, name) }); err != nil {
			t.Fatal(err)
		}
		return value
	}
	if got := time.Duration(option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)) * time.Millisecond; got != unacknowledgedTimeout {
		t.Errorf("unacknowledged bytes are sent again for %s, want %s", got, unacknowledgedTimeout)
	}
	if idle := time.Duration(option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)) * time.Second; option(unix.SOL_SOCKET, unix.SO_KEEPALIVE) != 1 || idle != keepAliveIdle {
		t.Errorf("an idle host is probed after %s, want %s", idle, keepAliveIdle)
	}
}
