package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// tailLines is how much of a failed program's output is shown.
	tailLines = 30
	// maxLine bounds a line of output that is kept, in bytes.
	maxLine = 4096
	// stopGrace is what a program gets to clean up after an interrupt.
	stopGrace = 20 * time.Second
)

// run runs a program in the repository and shows the last line of its output as status. If it fails, the
// error carries the end of what it wrote. An interrupt reaches all
// that the program started: it leads a process group of its own.
func (d *demo) run(ctx context.Context, what string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = d.root
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false -trimpath", "CGO_ENABLED=0")
	output := &tail{update: func(line string) { d.screen.update("      %s: %s", what, line) }}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	err := cmd.Run()
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, output)
	}
	return nil
}

// tail keeps the last lines written to it.
type tail struct {
	mu      sync.Mutex // guards all below
	lines   []string
	partial []byte
	update  func(line string)
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, p...)
	for {
		end := bytes.IndexByte(t.partial, '\n')
		if end < 0 {
			break
		}
		t.addLocked(string(t.partial[:end]))
		t.partial = t.partial[end+1:]
	}
	if len(t.partial) > maxLine {
		t.addLocked(string(t.partial))
		t.partial = nil
	}
	return len(p), nil
}

func (t *tail) addLocked(line string) {
	line = strings.TrimSpace(line)
	if line == "" {
		return
	}
	t.lines = append(t.lines, line)
	if len(t.lines) > tailLines {
		t.lines = t.lines[1:]
	}
	t.update(line)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return "  " + strings.Join(append(t.lines[:len(t.lines):len(t.lines)], string(t.partial)), "\n  ")
}
