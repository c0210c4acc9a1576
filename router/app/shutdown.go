package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// stopBudget bounds the stop of each part that has nothing to wait for; hurriedBudget does after a second signal.
const (
	stopBudget    = 5 * time.Second
	hurriedBudget = 500 * time.Millisecond
	// teachBudget is how long snapshots that are being served may run on after the last request.
	teachBudget = 60 * time.Second
)

// errHurry is why waiting ended early.
var errHurry = errors.New("a second signal asked to stop now")

// shutdown stops the router in the order of doc.go. Every wait is bounded, and a second signal ends them all.
func (a *App) shutdown(signals <-chan os.Signal, parts []part) error {
	now, hurry := context.WithCancelCause(context.Background())
	defer hurry(nil)
	go func() {
		select {
		case s := <-signals:
			a.log.Warn("stopping now", "signal", s.String(), "inflight", a.proxy.InFlight())
			hurry(errHurry)
		case <-now.Done():
		}
	}()

	a.draining.Store(true)
	wait(now, seconds(a.opts.ShutdownLingerSecs))

	drain := seconds(a.opts.ShutdownDrainSecs)
	a.log.Info("draining", "inflight", a.proxy.InFlight(), "deadline", drain.String())
	// Requests that were cut at the deadline are in the log; they are no failure of the shutdown.
	began := time.Now()
	_ = a.within(now, drain, part{name: "data listener", stop: a.data.stop})
	if a.sharing != nil { // it teaches through its drain window: the admin listener closes last
		ctx, cancel := context.WithTimeout(now, min(teachBudget, max(0, drain-time.Since(began))))
		a.sharing.idle(ctx)
		cancel()
	}

	var faults []error
	for i := len(parts) - 1; i >= 0; i-- {
		// The data listener has stopped; stopping it again is nothing. The admin listener, started first, closes last:
		// until then the replica can be looked at.
		budget := stopBudget
		if now.Err() != nil {
			budget = hurriedBudget
		}
		if err := a.within(context.Background(), budget, parts[i]); err != nil {
			faults = append(faults, err)
		}
	}
	a.log.Info("router stopped")
	return errors.Join(faults...)
}

// within stops a part inside a budget, and logs when it did not end in time.
func (a *App) within(now context.Context, budget time.Duration, p part) error {
	ctx, cancel := context.WithTimeout(now, budget)
	defer cancel()
	err := p.stop(ctx)
	if err != nil {
		err = fmt.Errorf("stop %s: %w", p.name, err)
		a.log.Warn("part did not stop in time", "part", p.name, "error", err)
	}
	return err
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
