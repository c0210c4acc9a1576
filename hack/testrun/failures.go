package main

import (
	"fmt"
	"io"
)

const (
	// maxSayingBytes is how much of a failed test's output is repeated.
	maxSayingBytes = 4 << 10
	// maxFailuresShown bounds how many are: the first ones matter.
	maxFailuresShown = 10
)

// sayings keeps what each unfinished test has said, so that failures can be shown
// together after thousands of lines of passing tests.
type sayings struct {
	unfinished map[saying]string
	failures   []string
	more       int // failures beyond maxFailuresShown
}

type saying struct{ pkg, test string }

func (s *sayings) add(ev event) {
	if s.unfinished == nil {
		s.unfinished = map[saying]string{}
	}
	key := saying{ev.Package + ev.ImportPath, ev.Test}
	switch ev.Action {
	case "output", "build-output":
		text := s.unfinished[key] + ev.Output
		s.unfinished[key] = text[max(0, len(text)-maxSayingBytes):]
	case "pass", "skip":
		delete(s.unfinished, key)
	case "fail", "build-fail":
		s.fail(s.unfinished[key])
		delete(s.unfinished, key)
	}
}

func (s *sayings) fail(text string) {
	switch {
	case text == "":
	case len(s.failures) == maxFailuresShown:
		s.more++
	default:
		s.failures = append(s.failures, text)
	}
}

func (s *sayings) writeFailures(log io.Writer) error {
	if len(s.failures) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(log, "\n=== what failed"); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	for _, text := range s.failures {
		if _, err := io.WriteString(log, text); err != nil {
			return fmt.Errorf("write the log: %w", err)
		}
	}
	if s.more > 0 {
		fmt.Fprintf(log, "... and %d more\n", s.more)
	}
	return nil
}
