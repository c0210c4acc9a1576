package page

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

// MeasureEach runs this program once for each row, with the row as JSON in the given flag and further arguments, and
// reads its figures as JSON from standard output: a row in a process of its own has its memory to itself.
func MeasureEach[Row, Figures any](flag string, rows []Row, args ...string) ([]Figures, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	all := make([]Figures, len(rows))
	for i, row := range rows {
		text, err := json.Marshal(row)
		if err != nil {
			return nil, err
		}
		c := exec.Command(self, append([]string{flag, string(text)}, args...)...)
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", text, err)
		}
		if err := json.Unmarshal(out, &all[i]); err != nil {
			return nil, fmt.Errorf("figures of %s: %w", text, err)
		}
		fmt.Fprintf(os.Stderr, "measured %s\n", text)
	}
	return all, nil
}

// Publish prints what command measured and, unless path is empty, replaces the command's part of that page.
func Publish(path, command, text string) error {
	if _, err := os.Stdout.WriteString(text); err != nil {
		return err
	}
	if path == "" {
		return nil
	}
	return Replace(path, command, text)
}
