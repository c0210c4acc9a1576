// Package leftover finds and ends the processes of a cluster.
//
// There are no pid files: a process is the cluster's if it carries the cluster's
// mark in its environment, or sits in the cluster's cgroup (a container does not
// inherit the environment). That stays true when the program that started it was
// killed, and a reused pid never matches.
package leftover

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
)

const (
	// killWait bounds how long killed processes may take to go. The longest is
	// process 1 of a node, which the kernel ends after all others of the node.
	killWait = 30 * time.Second
	killPoll = 10 * time.Millisecond
)

// Process is one process of a cluster.
type Process struct {
	PID     int
	Role    string // of RoleVar; empty for containers
	Node    string // of NodeVar; empty for containers and on the host
	Program string // base name of its first argument
	Stopped bool   // by SIGSTOP
}

// Table reads processes of a cluster from a proc file system.
type Table struct {
	Proc   string // "/proc" but in tests
	Mark   string // layout.Cluster.Mark
	Cgroup string // layout.Cluster.Cgroup
}

// New returns the table of a cluster on this host.
func New(c layout.Cluster) Table {
	return Table{Proc: "/proc", Mark: c.Mark(), Cgroup: c.Cgroup()}
}

// Find returns the cluster's processes, in order of their pids. Zombies are
// left out: they hold nothing but a pid.
func (t Table) Find() ([]Process, error) {
	entries, err := os.ReadDir(t.Proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []Process
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := t.Read(pid); ok {
				found = append(found, p)
			}
		}
	}
	return found, nil
}

// Read returns a process if it exists and is the cluster's.
func (t Table) Read(pid int) (Process, bool) {
	dir := filepath.Join(t.Proc, strconv.Itoa(pid))
	environ := readEntries(filepath.Join(dir, "environ"))
	if !hasEntry(environ, t.Mark) && !t.inCgroup(dir) {
		return Process{}, false
	}
	state := processState(dir)
	if state == 'Z' || state == 'X' || state == 0 {
		return Process{}, false
	}
	p := Process{
		PID:     pid,
		Role:    value(environ, layout.RoleVar),
		Node:    value(environ, layout.NodeVar),
		Stopped: state == 'T',
	}
	if args := readEntries(filepath.Join(dir, "cmdline")); len(args) > 0 {
		p.Program = filepath.Base(args[0])
	}
	return p, true
}

// inCgroup tells whether any line of /proc/PID/cgroup (cgroups(7)) names the
// cluster's group or one below it.
func (t Table) inCgroup(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && (parts[2] == t.Cgroup || strings.HasPrefix(parts[2], t.Cgroup+"/")) {
			return true
		}
	}
	return false
}

// processState is the third field of /proc/PID/stat; the second is in
// parentheses and may hold anything, parentheses included.
func processState(dir string) byte {
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0
	}
	i := bytes.LastIndexByte(b, ')')
	if i < 0 || i+2 >= len(b) {
		return 0
	}
	return b[i+2]
}

func parentOf(proc string, pid int) int {
	b, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}

// OthersExist tells whether processes of any other cluster run on this host.
func (t Table) OthersExist() bool {
	entries, err := os.ReadDir(t.Proc)
	if err != nil {
		return true // unknown: keep what others may need
	}
	for _, e := range entries {
		mark := value(readEntries(filepath.Join(t.Proc, e.Name(), "environ")), layout.StateVar)
		if mark != "" && layout.StateVar+"="+mark != t.Mark {
			return true
		}
	}
	return false
}

// KillAll ends every process of the cluster except this one and those it was
// started by (a shell inside a node may run `down`), waits until they are gone,
// and returns how many it killed.
func (t Table) KillAll() (int, error) {
	spared := t.ancestors(os.Getpid())
	killed := map[int]bool{}
	deadline := time.Now().Add(killWait)
	for {
		all, err := t.Find()
		if err != nil {
			return len(killed), err
		}
		var left []Process
		for _, p := range all {
			if !spared[p.PID] {
				left = append(left, p)
			}
		}
		if len(left) == 0 {
			return len(killed), nil
		}
		if time.Now().After(deadline) {
			return len(killed), fmt.Errorf("processes still there %s after SIGKILL: %v", killWait, left)
		}
		for _, p := range left {
			if err := t.Signal(p.PID, unix.SIGKILL); err != nil {
				return len(killed), err
			}
			killed[p.PID] = true
		}
		time.Sleep(killPoll)
	}
}

func (t Table) ancestors(pid int) map[int]bool {
	line := map[int]bool{}
	for ; pid > 1 && !line[pid]; pid = parentOf(t.Proc, pid) {
		line[pid] = true
	}
	return line
}

// Signal sends a signal to a process of the cluster. A process that is gone, or
// whose pid belongs to somebody else by now, is no error and gets no signal: the
// pidfd is opened first and the owner checked after.
func (t Table) Signal(pid int, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }() // closing a pidfd cannot fail
	if _, ours := t.Read(pid); !ours {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("send %s to process %d: %w", unix.SignalName(sig), pid, err)
	}
	return nil
}

// readEntries reads a file of NUL-terminated entries. A process that went away,
// or that may not be read, has none.
func readEntries(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

func hasEntry(entries []string, want string) bool {
	for _, e := range entries {
		if e == want {
			return true
		}
	}
	return false
}

func value(entries []string, name string) string {
	for _, e := range entries {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}
