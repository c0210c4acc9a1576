package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/cgroup"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/leftover"
)

// downVerb removes the cluster, whatever state it is in.
func (a *app) downVerb(ctx context.Context, _ []string) error {
	if r, err := a.readRecord(); err == nil && r.Kind {
		return a.kindDown(ctx)
	}
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	unlock, err := a.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return a.remove(ctx, a.out)
}

// remove ends what runs and removes the state folder.
func (a *app) remove(ctx context.Context, out io.Writer) error {
	r, recordErr := a.readRecord()
	if err := a.removeRunning(ctx, out); err != nil {
		return err
	}
	made := markedFolders(hostFolders)
	if recordErr == nil { // where folders cannot be marked only the record knows who made them
		made = append(made, r.HostFolders...)
	}
	if err := a.removeHostFolders(made); err != nil {
		return err
	}
	if err := os.RemoveAll(a.State); err != nil {
		return fmt.Errorf("remove the state folder: %w", err)
	}
	return nil
}

// removeRunning ends all processes, and removes the cgroups and mounts that
// depend on them. Links, network namespaces and a node's mounts go with the
// processes.
func (a *app) removeRunning(_ context.Context, out io.Writer) error {
	start := time.Now()
	table := leftover.New(a.Cluster)
	killed, err := table.KillAll()
	if err != nil {
		return fmt.Errorf("end the cluster's processes: %w", err)
	}
	mounts, err := cgroupMounts()
	if err != nil {
		return err
	}
	groups, err := cgroup.Remove(mounts, a.Cgroup())
	if err != nil {
		return err
	}
	if err := a.unmountState(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%7.1fs  removed: %d processes and what they held, %d cgroups\n", time.Since(start).Seconds(), killed, groups)
	return nil
}

// unmountState detaches mounts below the state folder. There are none, unless
// the host's root is shared in a way that lets a node's mounts out.
func (a *app) unmountState() error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	for _, point := range mountsBelow(string(b), a.State) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

// mountsBelow lists mount points below a folder, the deepest first.
func mountsBelow(mountinfo, dir string) []string {
	var points []string
	for line := range strings.Lines(mountinfo) {
		if fields := strings.Fields(line); len(fields) > 4 {
			point := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(fields[4]) // proc_pid_mountinfo(5)
			if strings.HasPrefix(point, dir+"/") {
				points = append(points, point)
			}
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(points)))
	return points
}

// removeHostFolders removes mount points that clusters made, if they are empty.
// While another cluster runs they stay, and that one removes them: removing a
// folder takes away what another mount namespace has mounted on it.
func (a *app) removeHostFolders(folders []string) error {
	if len(folders) == 0 || leftover.New(a.Cluster).OthersExist() {
		return nil
	}
	for _, dir := range folders {
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("remove the mount point %s: %w", dir, err)
		}
	}
	return nil
}
