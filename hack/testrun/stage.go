package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// lane is a sequence of stages; lanes run beside each other.
type lane int

const (
	builds lane = iota // compiling what tests need
	tests              // everything that can fail for a reason
)

// stage is one row of the table at the end.
type stage struct {
	name    string
	about   string // one line for --list
	lane    lane
	needs   []string      // stages that must have passed
	timeout time.Duration // the stage is killed after this long
	run     func(ctx context.Context, env *environment, log *os.File) (counts, error)
}

// counts are the tests of a stage. A stage that is no test suite (a build, a
// linter) leaves them zero and counts as one.
type counts struct {
	passed, failed, skipped int
	suite                   bool // the stage runs tests, so none at all is a failure
}

func (c counts) plus(d counts) counts {
	return counts{c.passed + d.passed, c.failed + d.failed, c.skipped + d.skipped, c.suite || d.suite}
}

type outcome int

const (
	passed outcome = iota
	failed
	skipped // never ran: a need failed, or the run was interrupted
)

func (o outcome) String() string {
	switch o {
	case passed:
		return "passed"
	case failed:
		return "FAILED"
	case skipped:
		return "not run"
	default:
		return fmt.Sprintf("outcome(%d)", int(o))
	}
}

type result struct {
	stage   stage
	outcome outcome
	counts  counts
	took    time.Duration
	err     error
}

// choose returns the named stages and everything they need, in table order; all
// stages when no name is given.
func choose(all []stage, names []string) ([]stage, error) {
	if len(names) == 0 {
		return all, nil
	}
	byName := map[string]stage{}
	for _, s := range all {
		byName[s.name] = s
	}
	wanted := map[string]bool{}
	var want func(name string) error
	want = func(name string) error {
		s, ok := byName[name]
		if !ok {
			return fmt.Errorf("no stage %q; there are %s", name, strings.Join(stageNames(all), ", "))
		}
		wanted[name] = true
		for _, need := range s.needs {
			if err := want(need); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range names {
		if err := want(name); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(s stage) bool { return !wanted[s.name] }), nil
}

func stageNames(all []stage) []string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.name
	}
	return names
}
