package page

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// writeFlag names the page; only the process that has all rows' figures writes it.
const writeFlag = "write"

// Program is a benchmark that measures rows, each in a process of its own, and reports them in its part of a page.
// Row and Figures go through JSON.
type Program[Row, Figures any] struct {
	Name     string       // of the program, in its errors
	Command  string       // how the page says to measure again
	Flag     string       // gives the row of one process
	Prepare  func() error // if set, runs once before the first row's process
	Rows     func() []Row
	Measure  func(Row) (Figures, error)
	Markdown func([]Figures) string
}

// RoundTime is the flag for the length of one measurement; a program declares its flags before Main.
func RoundTime() *time.Duration {
	return flag.Duration("round-time", time.Second, "length of one measurement")
}

// Main parses the flags and runs the program, or its one row; it ends the process when that fails.
func (p Program[Row, Figures]) Main() {
	write := flag.String(writeFlag, "", "page whose measured part is replaced")
	one := flag.String(p.Flag, "", "measure one "+p.Flag+", given as JSON, and print its figures as JSON")
	flag.Parse()
	var err error
	if *one != "" {
		err = p.measureOne(*one)
	} else {
		err = p.measureAll(*write)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench %s: %v\n", p.Name, err)
		os.Exit(1)
	}
}

func (p Program[Row, Figures]) measureOne(text string) error {
	var r Row
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return fmt.Errorf("--%s: %w", p.Flag, err)
	}
	f, err := p.Measure(r)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

func (p Program[Row, Figures]) measureAll(write string) error {
	if p.Prepare != nil {
		if err := p.Prepare(); err != nil {
			return err
		}
	}
	all, err := p.measureEach(p.Rows())
	if err != nil {
		return err
	}
	return Publish(write, p.Command, p.Markdown(all))
}

// measureEach runs this program once for each row, with the row as JSON and the flags of this run, and reads its figures
// as JSON from standard output: a row in a process of its own has its memory to itself.
func (p Program[Row, Figures]) measureEach(rows []Row) ([]Figures, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := passedOn(flag.CommandLine, p.Flag)
	all := make([]Figures, len(rows))
	for i, row := range rows {
		text, err := json.Marshal(row)
		if err != nil {
			return nil, err
		}
		c := exec.Command(self, append([]string{"--" + p.Flag, string(text)}, args...)...)
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

// passedOn gives the flags that were set as arguments, but for the page and the row.
func passedOn(flags *flag.FlagSet, rowFlag string) (args []string) {
	flags.Visit(func(f *flag.Flag) {
		if f.Name != writeFlag && f.Name != rowFlag {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args
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
