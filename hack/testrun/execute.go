package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var errInterrupted = errors.New("interrupted")

// execute runs the stages lane by lane and returns a result for each, in the
// order of the table. It returns when both lanes are done; an interrupt ends the
// running stages and leaves the others "not run".
func execute(ctx context.Context, chosen []stage, env *environment, progress *progress) []result {
	results := make([]result, len(chosen))
	done := map[string]chan struct{}{}
	position := map[string]int{}
	for i, s := range chosen {
		done[s.name] = make(chan struct{})
		position[s.name] = i
	}
	// failedNeed waits for the stage's needs and names the first that did not pass.
	failedNeed := func(s stage) string {
		for _, need := range s.needs {
			<-done[need]
			if results[position[need]].outcome != passed {
				return need
			}
		}
		return ""
	}
	runLane := func(l lane) {
		for i, s := range chosen {
			if s.lane != l {
				continue
			}
			if need := failedNeed(s); need != "" {
				results[i] = result{stage: s, outcome: skipped, err: fmt.Errorf("needs %s", need)}
			} else {
				results[i] = runStage(ctx, s, env, progress)
			}
			progress.ended(results[i])
			close(done[s.name])
		}
	}
	var lanes sync.WaitGroup
	for _, l := range []lane{builds, tests} {
		lanes.Go(func() { runLane(l) })
	}
	lanes.Wait()
	return results
}

func runStage(ctx context.Context, s stage, env *environment, progress *progress) result {
	if ctx.Err() != nil {
		return result{stage: s, outcome: skipped, err: errInterrupted}
	}
	progress.started(s)
	begin := time.Now()
	log, err := env.openLog(s.name)
	if err != nil {
		return result{stage: s, outcome: failed, err: err}
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	counts, err := s.run(ctx, env, log)
	r := result{stage: s, counts: counts, took: time.Since(begin), err: err}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		r.outcome, r.err = failed, fmt.Errorf("killed after %s: %w", s.timeout, err)
	case err != nil || counts.failed > 0:
		r.outcome = failed
	case counts.suite && counts.passed == 0:
		r.outcome, r.err = failed, fmt.Errorf("no test passed and %d were skipped: a suite that runs nothing proves nothing", counts.skipped)
	}
	if r.err != nil {
		fmt.Fprintln(log, "testrun:", r.err)
	}
	return r
}
