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
	"slices"
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

// delegated are the controllers that a v2 group must have before the kubelet
// takes it for its root; it names the same list in pkg/kubelet/cm. A group has a
// controller once its parent lists it in cgroup.subtree_control.
var delegated = []string{"cpu", "cpuset", "memory", "hugetlb", "pids"}

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
			if err := delegate(parent); err != nil {
				return err
			}
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

// delegate gives children of a v2 group the controllers pods need. On a hybrid
// host the v2 tree has no memory controller and no part in this. What it switches
// on at the root stays on: systemd does the same for its own units.
func delegate(parent string) error {
	available, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a v1 hierarchy
	}
	if err != nil {
		return err
	}
	names := strings.Fields(string(available))
	if !slices.Contains(names, "memory") {
		return nil
	}
	for _, name := range delegated {
		if !slices.Contains(names, name) {
			continue
		}
		if err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+name), 0o644); err != nil {
			return fmt.Errorf("give children of cgroup %s the controller %s (a group that holds processes cannot): %w", parent, name, err)
		}
	}
	return nil
}

func inherit(parent, dir string) error {
	for _, name := range inherited {
		value, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil || strings.TrimSpace(string(value)) == "" {
			continue // this hierarchy has no cpuset, or an empty one means the parent's
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
