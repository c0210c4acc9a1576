package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/render"
)

// hostFolders are fixed paths of the kubelet and of the CNI plugins. Each node
// has its own folder there, mounted over the host's, which stays empty.
var hostFolders = []string{"/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers"}

// machineSysctls are settings that the kubelet changes and that have no
// namespace. It writes to copies.
var machineSysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// setUpMounts gives the node its own view of the machine. The order matters:
// mounts become shared, which the kubelet needs, only after the cgroups have been
// moved; otherwise unmounting the aside takes the moved ones with it, and the
// kubelet dies with "failed to find cgroup mounts".
func (a *app) setUpMounts(i int) error {
	if err := a.mountSys(i); err != nil {
		return err
	}
	if err := mount("", "/", "", unix.MS_REC|unix.MS_SHARED); err != nil {
		return err
	}
	if err := mount("tmpfs", "/run", "tmpfs", 0); err != nil {
		return err
	}
	if err := os.MkdirAll("/run/lock", 0o755); err != nil {
		return err
	}
	for _, target := range hostFolders {
		source := a.NodePath(i, filepath.Base(target))
		if err := os.MkdirAll(source, 0o755); err != nil {
			return err
		}
		if err := mount(source, target, "", unix.MS_BIND); err != nil {
			return err
		}
	}
	if err := coverSysctls(); err != nil {
		return err
	}
	if err := writeFile(render.ResolvConf, "nameserver 10.96.0.10\n"); err != nil {
		return err
	}
	return coverFile("/etc/hosts", render.Hosts(i))
}

// mountSys mounts a fresh sysfs, which shows the node's network, and brings the
// cgroups over from the old one.
func (a *app) mountSys(i int) error {
	aside := a.NodePath(i, "cgroup")
	if err := os.MkdirAll(aside, 0o755); err != nil {
		return err
	}
	if err := mount("/sys/fs/cgroup", aside, "", unix.MS_BIND|unix.MS_REC); err != nil {
		return err
	}
	if err := mount("sysfs", "/sys", "sysfs", 0); err != nil {
		return err
	}
	if err := mount(aside, "/sys/fs/cgroup", "", unix.MS_BIND|unix.MS_REC); err != nil {
		return err
	}
	if err := unix.Unmount(aside, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", aside, err)
	}
	return nil
}

func coverSysctls() error {
	for _, name := range machineSysctls {
		path := "/proc/sys/" + name
		value, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the kernel has no such setting
		}
		if err != nil {
			return err
		}
		if err := coverFile(path, string(value)); err != nil {
			return err
		}
	}
	return nil
}

// coverFile mounts a file with the content over a path, for this node alone.
func coverFile(path, content string) error {
	source := filepath.Join("/run/cover", path)
	if err := writeFile(source, content); err != nil {
		return err
	}
	return mount(source, path, "", unix.MS_BIND)
}

func mount(source, target, fsType string, flags uintptr) error {
	if err := unix.Mount(source, target, fsType, flags, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	return nil
}

// hostFolderMark is an attribute of the mount points that a cluster made: another cluster may be the last to use
// them, and the record of the one that made them may be lost.
const hostFolderMark = "trusted.routerfleet.cluster"

// makeHostFolders makes the mount points that the host lacks, and returns them.
func makeHostFolders(dirs []string) ([]string, error) {
	var made []string
	for _, dir := range dirs {
		switch err := os.Mkdir(dir, 0o755); {
		case err == nil:
			made = append(made, dir)
			if err := unix.Setxattr(dir, hostFolderMark, []byte("1"), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
				return made, fmt.Errorf("mark the mount point %s: %w", dir, err)
			}
		case errors.Is(err, fs.ErrExist):
		default:
			return made, fmt.Errorf("make a mount point for the nodes: %w", err)
		}
	}
	return made, nil
}

// markedFolders are those of the folders that some cluster made.
func markedFolders(dirs []string) []string {
	return slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool {
		_, err := unix.Getxattr(dir, hostFolderMark, nil)
		return err != nil
	})
}
