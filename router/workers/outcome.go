package workers

import (
	"net/http"
	"sync/atomic"
)

// Outcome is how one attempt on one worker ended.
type Outcome int

// The closed list of outcomes, also the values of the metric label outcome.
const (
	// Success: the engine answered below 400 and the answer was complete.
	Success Outcome = iota
	// ClientError: the engine refused the request itself (4xx other than 408 and 429). It says that the engine
	// lives, not that it can generate.
	ClientError
	// Backpressure: 429 or 503. The engine lives and is full.
	Backpressure
	// Failure: no connection, no answer in time, 408 or another 5xx, or an answer cut in the middle.
	Failure
	// Cancelled: the client went away first. It says nothing about the engine.
	Cancelled

	outcomeEnd
)

var outcomeNames = [outcomeEnd]string{"success", "client_error", "backpressure", "error", "cancelled"}

// String returns the outcome's label value, "unknown" outside the list.
func (o Outcome) String() string {
	if o < 0 || o >= outcomeEnd {
		return "unknown"
	}
	return outcomeNames[o]
}

// OutcomeOfStatus judges a complete answer by its status code.
func OutcomeOfStatus(code int) Outcome {
	switch {
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		return Backpressure
	case code == http.StatusRequestTimeout || code >= 500:
		return Failure
	case code >= 400:
		return ClientError
	default:
		return Success
	}
}

// outcomeCounts counts ended leases by outcome. An outcome outside the list is a bug of the caller and counts as
// Failure, so that it is seen.
type outcomeCounts [outcomeEnd]atomic.Uint64

func (c *outcomeCounts) add(o Outcome) {
	if o < 0 || o >= outcomeEnd {
		o = Failure
	}
	c[o].Add(1)
}
