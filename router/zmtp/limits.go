package zmtp

import (
	"fmt"
	"time"
)

// Limits and times used where Options leaves a field zero.
const (
	// DefaultMaxFrameBytes bounds one frame. The largest batch engines publish (65,536 hashes of 32 bytes with a
	// token list of 1 M ids) stays below 8 MiB.
	DefaultMaxFrameBytes = 16 << 20

	// DefaultMaxMessageBytes bounds the frames of one message together.
	DefaultMaxMessageBytes = 32 << 20

	// DefaultMaxParts bounds the frames of one message. KV events have 3, replay answers at most 5 with identity.
	DefaultMaxParts = 16

	// DefaultHandshakeTimeout bounds dialling, greeting and READY together.
	DefaultHandshakeTimeout = 5 * time.Second

	// DefaultHeartbeatInterval is the time between two PINGs.
	DefaultHeartbeatInterval = 10 * time.Second

	// DefaultHeartbeatTimeout is how long a peer may say nothing, not even PONG. Three lost heartbeats.
	DefaultHeartbeatTimeout = 30 * time.Second

	// maxCommandBytes bounds a command's body. READY with every property of the specification stays below 1 KiB.
	maxCommandBytes = 64 << 10

	// maxIdentityBytes is the longest routing id, from the specification.
	maxIdentityBytes = 255

	// maxPingContext is the longest context a PING may carry, from the specification.
	maxPingContext = 16

	// maxSubscriptions bounds what one subscriber may ask of a Pub.
	maxSubscriptions = 1024
)

// LimitError says which limit a peer's bytes would have broken.
type LimitError struct {
	What     string
	Got, Max uint64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("zmtp: peer announces %s of %d, the limit is %d", e.What, e.Got, e.Max)
}
