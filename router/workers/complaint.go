package workers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

const (
	// maxReasonBytes bounds what an error may put into a reason: parts of it come from engines.
	maxReasonBytes = 256
	// maxTold bounds the complaints about one worker that are logged until it is in rotation without one. An engine
	// that fails differently each time must not fill the log; the snapshot has its latest reason.
	maxTold = 8
)

// complained reports a new complaint about a worker whose state stays.
type complained struct {
	name  string
	state State
	why   string
}

func (complained) effect() {}

// complaint is what a worker that should answer did wrong when it was asked; empty while there is nothing.
func (e *entry) complaint() string {
	switch {
	case !e.present || e.ep.condition == conditionNotReady || (e.ep.probed && e.health == healthUnknown):
		return ""
	case e.ep.probed && e.health == unhealthy:
		return "its health probe fails: " + sentence(e.probeErr)
	case e.askErr != nil:
		return "it does not say what it serves: " + sentence(e.askErr)
	case e.asked && len(e.facts.models) == 0:
		return "it lists no models"
	default:
		return ""
	}
}

// complain tells each complaint once, until the worker is in rotation without one. told says that the transition of
// this step has told it already.
func (e *entry) complain(told bool) (complained, bool) {
	why := e.complaint()
	if why == "" {
		if e.state == StateInRotation {
			e.told = nil
		}
		return complained{}, false
	}
	if len(e.told) == maxTold || slices.Contains(e.told, why) {
		return complained{}, false
	}
	e.told = append(e.told, why)
	return complained{name: e.ep.name, state: e.state, why: why}, !told
}

// sentence is an error in one line of bounded length.
func sentence(err error) string {
	if err == nil {
		return "no answer"
	}
	return cut(strings.ReplaceAll(err.Error(), "\n", "; "), maxReasonBytes)
}

// cut shortens a text to so many bytes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-3], "") + "..."
}

// steady is err without what differs at each attempt, our own port, or "the same trouble as before" would never hold;
// a deadline that ran out while the engine was silent is named by the budget of the context.
func steady(ctx context.Context, err error) error {
	var op *net.OpError
	switch {
	case errors.As(err, &op):
		same := *op
		same.Source = nil
		return &same
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return context.Cause(ctx)
	default:
		return err
	}
}

// noAnswer is the cause of a context whose budget has run out.
type noAnswer struct{ within time.Duration }

func (e noAnswer) Error() string { return fmt.Sprintf("no answer within %v", e.within) }

func (noAnswer) Unwrap() error { return context.DeadlineExceeded }

func withBudget(ctx context.Context, budget time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, budget, noAnswer{budget})
}
