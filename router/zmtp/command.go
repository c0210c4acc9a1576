package zmtp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Names of commands that are understood. Others are ignored, as the specification asks.
const (
	cmdReady     = "READY"
	cmdError     = "ERROR"
	cmdPing      = "PING"
	cmdPong      = "PONG"
	cmdSubscribe = "SUBSCRIBE"
	cmdCancel    = "CANCEL"
)

// Property names of READY. Their case does not matter on the wire.
const (
	propSocketType = "Socket-Type"
	propIdentity   = "Identity"
)

var errShortCommand = errors.New("zmtp: peer sends a truncated command")

// splitCommand gives name and data of a command frame's body.
func splitCommand(body []byte) (name string, data []byte, err error) {
	if len(body) == 0 || len(body) < 1+int(body[0]) {
		return "", nil, errShortCommand
	}
	n := int(body[0])
	return string(body[1 : 1+n]), body[1+n:], nil
}

func appendCommand(dst []byte, name string, data []byte) []byte {
	body := make([]byte, 0, 1+len(name)+len(data))
	body = append(body, byte(len(name)))
	body = append(body, name...)
	body = append(body, data...)
	return appendFrame(dst, flagCommand, body)
}

func readyData(t SocketType, identity []byte) []byte {
	data := appendProperty(nil, propSocketType, []byte(t))
	if len(identity) > 0 {
		data = appendProperty(data, propIdentity, identity)
	}
	return data
}

func appendProperty(dst []byte, name string, value []byte) []byte {
	dst = append(dst, byte(len(name)))
	dst = append(dst, name...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

// ready is what a peer says of itself.
type ready struct {
	socketType SocketType
	identity   []byte
}

// parseReady reads the properties of READY; unknown ones are skipped.
func parseReady(data []byte) (ready, error) {
	var out ready
	for len(data) > 0 {
		n := int(data[0])
		if len(data) < 1+n+4 {
			return out, errShortCommand
		}
		name := string(data[1 : 1+n])
		size := uint64(binary.BigEndian.Uint32(data[1+n:]))
		data = data[1+n+4:]
		if size > uint64(len(data)) {
			return out, errShortCommand
		}
		value := data[:size]
		data = data[size:]
		switch {
		case equalFold(name, propSocketType):
			out.socketType = SocketType(value)
		case equalFold(name, propIdentity):
			if size > maxIdentityBytes {
				return out, &LimitError{"an identity (bytes)", size, maxIdentityBytes}
			}
			out.identity = append([]byte(nil), value...)
		}
	}
	return out, nil
}

// equalFold compares ASCII names without regard to case.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i]|0x20 != b[i]|0x20 {
			return false
		}
	}
	return true
}

// peerError is the ERROR command's reason.
func peerError(data []byte) error {
	if len(data) == 0 || len(data) < 1+int(data[0]) {
		return errShortCommand
	}
	return fmt.Errorf("zmtp: peer refuses the connection: %q", data[1:1+int(data[0])])
}

// pingData is a PING's time to live, in tenths of a second, and its context.
func pingData(ttlTenths uint16) []byte {
	return binary.BigEndian.AppendUint16(nil, ttlTenths)
}

// pongFor gives the PONG data that answers a PING.
func pongFor(ping []byte) ([]byte, error) {
	if len(ping) < 2 {
		return nil, errShortCommand
	}
	context := ping[2:]
	if len(context) > maxPingContext {
		return nil, &LimitError{"a PING context (bytes)", uint64(len(context)), maxPingContext}
	}
	return context, nil
}
