package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// killGrace is enough for a test binary to take its namespaces down.
const killGrace = 20 * time.Second

// environment is what every stage shares: where the repository is and which
// variables its commands see.
type environment struct {
	root string
	vars []string
	logs string // folder of the stages' logs
	// killGrace is how long a command may clean up after SIGTERM before SIGKILL.
	killGrace time.Duration
}

// newEnvironment fixes the Go settings for all commands. One set of flags
// everywhere is what lets stages share the build cache: -trimpath and CGO_ENABLED
// are part of its key, and client-go alone takes minutes to compile twice.
func newEnvironment(root string) (*environment, error) {
	logs := filepath.Join(root, "bin", "test-logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, fmt.Errorf("make room for logs: %w", err)
	}
	return &environment{
		root: root,
		logs: logs, killGrace: killGrace,
		vars: append(os.Environ(), "GOFLAGS=-buildvcs=false -trimpath", "CGO_ENABLED=0"),
	}, nil
}

// openLog makes a stage's log anew. It is a plain file so that commands write to
// it themselves: with a pipe in between, waiting for a command would mean waiting
// for every orphan it left behind.
func (e *environment) openLog(stage string) (*os.File, error) {
	f, err := os.Create(e.logPath(stage))
	if err != nil {
		return nil, fmt.Errorf("open the log of stage %s: %w", stage, err)
	}
	return f, nil
}

func (e *environment) logPath(stage string) string {
	return filepath.Join(e.logs, stage+".log")
}

// call is one command of a stage.
type call struct {
	argv []string
	dir  string    // relative to the root
	env  []string  // added to the environment's
	out  io.Writer // standard output; the log when nil
}

// command prepares a call in a process group of its own with no standard input,
// so that an interrupt or a timeout reaches the children of children as well.
func (e *environment) command(ctx context.Context, log io.Writer, c call) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Dir = filepath.Join(e.root, c.dir)
	cmd.Env = append(append([]string{}, e.vars...), c.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if c.out != nil {
		cmd.Stdout = c.out
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = e.killGrace
	return cmd
}

// do runs a command and waits for it.
func (e *environment) do(ctx context.Context, log io.Writer, c call) error {
	fmt.Fprintf(log, "$ %s\n", strings.Join(c.argv, " "))
	cmd := e.command(ctx, log, c)
	err := cmd.Run()
	if cmd.Process != nil && ctx.Err() != nil {
		// The group may outlive its leader; nothing of a cancelled stage may go on.
		if killErr := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
			err = errors.Join(err, killErr)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(c.argv, " "), err)
	}
	return nil
}

// output runs a command and returns what it printed.
func (e *environment) output(ctx context.Context, log io.Writer, c call) (string, error) {
	var text strings.Builder
	c.out = &text
	err := e.do(ctx, log, c)
	return text.String(), err
}
