package kvevents

import (
	"context"

	"github.com/routerfleet/routerfleet/router/index"
)

// Kind is what a delivery tells.
type Kind uint8

// The kinds.
const (
	// Opened begins a connection epoch.
	Opened Kind = iota + 1
	// Arrived brings a batch.
	Arrived
	// Reset tells that the publisher announced its end (END_SEQ).
	Reset
	// Closed ends a connection epoch.
	Closed
)

// String names the kind.
func (k Kind) String() string {
	switch k {
	case Opened:
		return "opened"
	case Arrived:
		return "arrived"
	case Reset:
		return "reset"
	case Closed:
		return "closed"
	default:
		return "unknown"
	}
}

// Delivery is one thing that happened on a rank's subscription.
type Delivery struct {
	Rank  index.Rank
	Epoch uint64 // the connection it happened on; grows with every redial
	Kind  Kind
	Batch *Batch // with Arrived; whoever takes the delivery releases it
	Err   error  // with Closed: why
}

// Sink takes what a subscription delivers, in order. Deliver waits while there is no room, which is back-pressure: the
// socket is not read meanwhile. On an error (ctx has ended, or the sink has) the batch is still the caller's.
type Sink interface {
	Deliver(ctx context.Context, d Delivery) error
}
