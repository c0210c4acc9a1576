package proxy

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// giveUpUnacknowledged bounds how long the kernel sends again what an engine's host does not acknowledge.
func giveUpUnacknowledged(_, _ string, c syscall.RawConn) error {
	var fault error
	err := c.Control(func(fd uintptr) {
		fault = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledgedTimeout.Milliseconds()))
	})
	return errors.Join(err, fault)
}
