package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// space is one kind of namespace as /proc/PID/ns names it.
type space string

const (
	mountSpace   space = "mnt"
	pidSpace     space = "pid"
	networkSpace space = "net"
	hostSpace    space = "uts"
	ipcSpace     space = "ipc"
)

// allSpaces are those a node has of its own. The mount namespace comes last: the
// others' files are opened before, but the order is easier to trust.
var allSpaces = []space{networkSpace, pidSpace, hostSpace, ipcSpace, mountSpace}

// inside runs a function on a thread that has joined namespaces of a process.
// The thread ends afterwards and never runs anything else. Programs the function
// starts inherit the namespaces.
func inside(pid int, spaces []space, do func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		if err := join(pid, spaces); err != nil {
			result <- err
			return
		}
		result <- do()
	}()
	return <-result
}

func join(pid int, spaces []space) error {
	files := make([]*os.File, 0, len(spaces))
	defer func() {
		for _, f := range files {
			_ = f.Close() // a namespace file holds no data
		}
	}()
	for _, s := range spaces {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, s))
		if err != nil {
			return fmt.Errorf("open a namespace: %w", err)
		}
		files = append(files, f)
	}
	// A thread that shares its root and working directory with others may not
	// change its mount namespace (setns(2)).
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("separate a thread's working directory: %w", err)
	}
	for i, f := range files {
		if err := unix.Setns(int(f.Fd()), 0); err != nil {
			return fmt.Errorf("join the %s namespace of process %d: %w", spaces[i], pid, err)
		}
	}
	return nil
}

// runInside runs a command in namespaces of a process, with its output in the
// error if it fails.
func runInside(pid int, spaces []space, cmd *exec.Cmd) error {
	_, err := outputInside(pid, spaces, cmd)
	return err
}

func outputInside(pid int, spaces []space, cmd *exec.Cmd) ([]byte, error) {
	var out []byte
	err := inside(pid, spaces, func() error {
		var err error
		if out, err = cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", cmd.Args, err, out)
		}
		return nil
	})
	return out, err
}
