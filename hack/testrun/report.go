package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"text/tabwriter"
	"time"
)

// tailLines is how much of a failed stage's log is printed.
const tailLines = 60

// tailBytes bounds what is read back of a log to find those lines.
const tailBytes = 64 << 10

// progress prints one line when a stage starts and one when it ends.
type progress struct {
	mu    sync.Mutex // serialises lines of the two lanes
	out   io.Writer
	now   func() time.Time
	begin time.Time
}

func newProgress(out io.Writer, now func() time.Time) *progress {
	return &progress{out: out, now: now, begin: now()}
}

func (p *progress) started(s stage) { p.line("%s: started (%s)", s.name, s.about) }

func (p *progress) ended(r result) {
	text := fmt.Sprintf("%s: %s after %.1f s%s", r.stage.name, r.outcome, r.took.Seconds(), r.counts)
	if r.err != nil {
		text += ": " + firstLine(r.err)
	}
	p.line("%s", text)
}

func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "[%6.1f s] %s\n", p.now().Sub(p.begin).Seconds(), fmt.Sprintf(format, args...))
}

// String is empty for a stage that is no suite.
func (c counts) String() string {
	if !c.suite {
		return ""
	}
	return fmt.Sprintf(", %d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

// report prints failed logs, the table and the verdict, and returns the exit code.
func report(out io.Writer, env *environment, results []result) int {
	for _, r := range results {
		if r.outcome == failed {
			fmt.Fprintf(out, "\n--- end of %s\n", env.logPath(r.stage.name))
			out.Write(tail(env.logPath(r.stage.name))) //nolint:errcheck // standard output: there is nobody left to tell
		}
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "seconds\tpassed\tfailed\tskipped\tresult\t stage\t")
	sum := counts{}
	for _, r := range results {
		n := tally(r)
		sum = sum.plus(n)
		fmt.Fprintf(table, "%.1f\t%d\t%d\t%d\t%s\t %s\t\n", r.took.Seconds(), n.passed, n.failed, n.skipped, r.outcome, r.stage.name)
	}
	if err := table.Flush(); err != nil {
		return 2
	}
	fmt.Fprintf(out, "\n%d passed, %d failed\n", sum.passed, sum.failed)
	if sum.failed > 0 {
		return 1
	}
	return 0
}

// tally turns a result into counts that add up: a stage that is no suite is one
// test, and a stage that failed has at least one failure.
func tally(r result) counts {
	n := r.counts
	switch {
	case r.outcome != passed && n.failed == 0:
		n.failed = 1
	case r.outcome == passed && !n.suite:
		n.passed = 1
	}
	return n
}

func tail(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return []byte(err.Error() + "\n")
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return []byte(err.Error() + "\n")
		}
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return []byte(err.Error() + "\n")
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-tailLines-1):], nil)
}

func firstLine(err error) string {
	line, _, _ := bytes.Cut([]byte(err.Error()), []byte("\n"))
	return string(line)
}

func printStages(out io.Writer, all []stage) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range all {
		fmt.Fprintf(table, "%s\t%s\n", s.name, s.about)
	}
	table.Flush()
}
