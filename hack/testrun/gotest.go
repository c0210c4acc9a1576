package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxEventBytes bounds one line of "go test -json"; a test may print a long one.
const maxEventBytes = 16 << 20

// event is the part of a "go test -json" line that we read (cmd/test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // instead of Package, on build-output and build-fail
	Test       string
	Output     string
}

// goTest runs "go test -json" with the given arguments, writes the plain output
// to the log and counts tests and subtests.
func (e *environment) goTest(ctx context.Context, log *os.File, c call) (counts, error) {
	c.argv = append([]string{"go", "test", "-json"}, c.argv...)
	read, write, err := os.Pipe()
	if err != nil {
		return counts{suite: true}, fmt.Errorf("read the output of go test: %w", err)
	}
	c.out = write
	type tally struct {
		counts counts
		err    error
	}
	tallied := make(chan tally, 1)
	go func() {
		n, err := countTests(read, log)
		// Keep the writer from blocking for ever on a pipe that nobody reads.
		_, drainErr := io.Copy(io.Discard, read)
		tallied <- tally{n, errors.Join(err, drainErr)}
	}()
	runErr := e.do(ctx, log, c)
	closeErr := write.Close()
	t := <-tallied
	return t.counts, errors.Join(runErr, closeErr, t.err, read.Close())
}

// countTests reads test events and copies their text to log. A package that
// failed without a failing test (it did not build, or died) is one failure. What
// failed tests said is repeated at the end, where the report looks for it.
func countTests(events io.Reader, log io.Writer) (counts, error) {
	total := counts{suite: true}
	failed := map[string]int{} // tests by package
	said := sayings{}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, maxEventBytes)
	for lines.Scan() {
		var ev event
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			// Not an event: go itself complains in plain text.
			fmt.Fprintf(log, "%s\n", lines.Bytes())
			continue
		}
		if _, err := io.WriteString(log, ev.Output); err != nil {
			return total, fmt.Errorf("write the log: %w", err)
		}
		said.add(ev)
		switch {
		case ev.Action == "pass" && ev.Test != "":
			total.passed++
		case ev.Action == "skip" && ev.Test != "":
			total.skipped++
		case ev.Action == "fail" && ev.Test != "":
			total.failed++
			failed[ev.Package]++
		case ev.Action == "fail" && failed[ev.Package] == 0:
			total.failed++
		}
	}
	if err := lines.Err(); err != nil {
		return total, fmt.Errorf("read the output of go test: %w", err)
	}
	return total, said.writeFailures(log)
}
