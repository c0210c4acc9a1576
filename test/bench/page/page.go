// Package page runs the rows of benchmark programs and writes what they measured into the part of a document that is theirs.
package page

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// endMeasured closes every measured part.
const endMeasured = "<!-- end of the measured part -->\n"

// begin opens the part that command fills; the reader sees how to measure again.
func begin(command string) string { return "<!-- measured by: " + command + " -->\n" }

// Replace puts text in the place of the part of the page that command measured before.
func Replace(path, command, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(page, []byte(begin(command)))
	_, after, ended := bytes.Cut(rest, []byte(endMeasured))
	if !found || !ended {
		return fmt.Errorf("%s lacks the lines that enclose the measured part: %q and %q", path, begin(command), endMeasured)
	}
	page = append(append(append(append(bytes.Clone(before), begin(command)+"\n"...), text...), "\n"+endMeasured...), after...)
	return os.WriteFile(path, page, 0o644)
}

// Machine describes where a run took place, as far as it matters.
func Machine() string {
	model := "unknown processor"
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d processors, %s/%s, %s", model, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}
