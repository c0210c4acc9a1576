package zmtp

import (
	"bytes"
	"fmt"
	"io"
)

const (
	greetingBytes  = 64
	versionMajor   = 3
	versionMinor   = 1
	mechanismField = 20
	mechanismName  = "NULL"
)

// greeting is what each side sends before anything else.
func greeting(minor byte) [greetingBytes]byte {
	var g [greetingBytes]byte
	g[0], g[9] = 0xff, 0x7f
	g[10], g[11] = versionMajor, minor
	copy(g[12:], mechanismName)
	return g
}

// readGreeting gives the peer's minor version. A peer of a later major version must fall back by the specification, so
// only earlier ones are refused.
func readGreeting(r io.Reader) (minor byte, err error) {
	var g [greetingBytes]byte
	if _, err := io.ReadFull(r, g[:11]); err != nil {
		return 0, fmt.Errorf("zmtp: read greeting: %w", err)
	}
	if g[0] != 0xff || g[9]&0x01 == 0 {
		return 0, fmt.Errorf("zmtp: peer does not speak ZMTP: greeting begins % x; is this the port of a ZeroMQ socket?", g[:10])
	}
	if g[10] < versionMajor {
		return 0, fmt.Errorf("zmtp: peer speaks ZMTP %d, at least %d is needed (ZeroMQ 4.0 or newer)", g[10], versionMajor)
	}
	if _, err := io.ReadFull(r, g[11:]); err != nil {
		return 0, fmt.Errorf("zmtp: read greeting: %w", err)
	}
	mechanism := string(bytes.TrimRight(g[12:12+mechanismField], "\x00"))
	if mechanism != mechanismName {
		return 0, fmt.Errorf("zmtp: peer asks for security mechanism %q, only %s is spoken: publish without encryption inside the cluster", mechanism, mechanismName)
	}
	return g[11], nil
}
