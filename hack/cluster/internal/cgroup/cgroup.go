// Package cgroup makes and removes the cluster's cgroups in every hierarchy of
// the host.
//
// The same code serves cgroup v1 (one hierarchy for each controller), v2 (one
// for all) and the hybrid of both: whatever /proc/self/mountinfo shows is a
// hierarchy. On a hybrid host runc makes groups in the v2 tree too, although no
// controller lives there.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// removeWait bounds how long a group may stay busy after its last process
	// was killed; the kernel needs milliseconds.
	removeWait = 10 * time.Second
	removePoll = 10 * time.Millisecond
)

// inherited are the v1 files that start empty in a new group, which then accepts
// no process until they are filled from the parent's. They do not exist at the
// root of a v2 hierarchy.
var inherited = []string{"cpuset.cpus", "cpuset.mems"}

// Mounts returns the mount points of all cgroup hierarchies in the text of
// /proc/PID/mountinfo (proc_pid_mountinfo(5)), each once.
func Mounts(mountinfo string) []string {
	var points []string
	seen := map[string]bool{}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		fsType, _, _ := strings.Cut(after, " ")
		if !ok || len(fields) < 5 || fsType != "cgroup" && fsType != "cgroup2" {
			continue
		}
		device := fields[2] // the same hierarchy may be mounted twice
		if !seen[device] {
			seen[device] = true
			points = append(points, fields[4])
		}
	}
	return points
}

// Create makes the group with all its parents in each hierarchy.
func Create(mounts []string, group string) error {
	for _, mount := range mounts {
		dir := mount
		for elem := range strings.SplitSeq(strings.Trim(group, "/"), "/") {
			parent := dir
			dir = filepath.Join(dir, elem)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("make cgroup %s: %w", dir, err)
			}
			if err := inherit(parent, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func inherit(parent, dir string) error {
	for _, name := range inherited {
		value, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil {
			continue // this hierarchy has no cpuset
		}
		if own, err := os.ReadFile(filepath.Join(dir, name)); err != nil || strings.TrimSpace(string(own)) != "" {
			continue // filled already; a value for a group with children may be refused
		}
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o644); err != nil {
			return fmt.Errorf("copy %s of %s to %s: %w", name, parent, dir, err)
		}
	}
	return nil
}

// Remove removes the group and everything below it, in each hierarchy, and
// returns how many directories went. Its processes must have been killed.
func Remove(mounts []string, group string) (int, error) {
	removed := 0
	var errs []error
	for _, mount := range mounts {
		n, err := removeTree(filepath.Join(mount, group))
		removed += n
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// removeTree removes leaves first. A cgroup's files vanish with its directory,
// so this is rmdir alone: os.RemoveAll would try the files and fail.
func removeTree(dir string) (int, error) {
	dirs, err := tree(dir)
	if err != nil {
		return 0, err
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := removeDir(dirs[i]); err != nil {
			return len(dirs) - 1 - i, err
		}
	}
	return len(dirs), nil
}

func tree(dir string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	return dirs, err
}

func removeDir(dir string) error {
	deadline := time.Now().Add(removeWait)
	for {
		err := syscall.Rmdir(dir)
		switch {
		case err == nil || errors.Is(err, syscall.ENOENT):
			return nil
		case !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline):
			return fmt.Errorf("remove cgroup %s (is a process left in its cgroup.procs?): %w", dir, err)
		}
		time.Sleep(removePoll)
	}
}
