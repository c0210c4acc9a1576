// Package host checks what a local cluster needs from the machine it runs on,
// and installs what is missing where it may.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Free disk space a first and a later run need, in bytes. Measured: the module
// cache takes 0.8 GB, the build cache 4.1 GB, the programs 0.3 GB, a running
// cluster 0.2 GB a node; the rest is room for images and for tests.
const (
	DiskCold  = 8 << 30 // nothing compiled yet
	DiskWarm  = 3 << 30 // the caches are filled
	DiskBuilt = 1 << 30 // the programs are there
)

// searchPath holds the folders of programs that a user's PATH may lack.
var searchPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// cniDirs are where CNI plugins are: Debian's place, then the one of everybody
// else.
var cniDirs = []string{"/usr/lib/cni", "/opt/cni/bin"}

// requirement is a program and the Debian package that brings it.
type requirement struct{ program, pkg string }

var requirements = []requirement{
	{"containerd", "containerd"},
	{"containerd-shim-runc-v2", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"iptables", "iptables"},
	{"ipset", "ipset"},
	{"ip", "iproute2"},
}

// cniPlugins are the CNI programs a node's network is made of.
var cniPlugins = []string{"bridge", "host-local", "portmap", "loopback"}

const cniPackage = "containernetworking-plugins"

// AddToPath puts the system's folders on PATH, where iptables and containerd are
// and which a user's shell often leaves out.
func AddToPath() error {
	path := filepath.SplitList(os.Getenv("PATH"))
	for _, dir := range searchPath {
		if !slices.Contains(path, dir) {
			path = append(path, dir)
		}
	}
	return os.Setenv("PATH", strings.Join(path, string(os.PathListSeparator)))
}

// MissingPackages names the Debian packages without which the cluster cannot
// run, sorted. exists tells whether a program's path, or its name on PATH, is
// there.
func MissingPackages(exists func(string) bool) []string {
	var missing []string
	for _, r := range requirements {
		if !exists(r.program) {
			missing = append(missing, r.pkg)
		}
	}
	if _, ok := cniDir(exists); !ok {
		missing = append(missing, cniPackage)
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// Exists looks on this machine.
func Exists(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// CNIDir is the folder with the CNI plugins.
func CNIDir() (string, error) {
	dir, ok := cniDir(Exists)
	if !ok {
		return "", fmt.Errorf("no folder of %v has the CNI plugins %v: install the package %s", cniDirs, cniPlugins, cniPackage)
	}
	return dir, nil
}

func cniDir(exists func(string) bool) (string, bool) {
	for _, dir := range cniDirs {
		if !slices.ContainsFunc(cniPlugins, func(p string) bool { return !exists(filepath.Join(dir, p)) }) {
			return dir, true
		}
	}
	return "", false
}

// InstallPackages installs what is missing with apt-get, or says what to
// install.
func InstallPackages(ctx context.Context, out io.Writer) error {
	missing := MissingPackages(Exists)
	if len(missing) == 0 {
		return nil
	}
	if !Exists("apt-get") {
		return fmt.Errorf("programs are missing and this machine has no apt-get: install what Debian calls %s", strings.Join(missing, " "))
	}
	fmt.Fprintf(out, "          installing %s\n", strings.Join(missing, " "))
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, missing...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if b, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, b)
		}
	}
	if still := MissingPackages(Exists); len(still) > 0 {
		return fmt.Errorf("apt-get installed %s, and programs of %s are still not there", strings.Join(missing, " "), strings.Join(still, " "))
	}
	return nil
}

// CheckDisk fails if the file system of any of the folders, or of the nearest
// parent that exists, has less than need bytes free.
func CheckDisk(need uint64, dirs ...string) error {
	for _, dir := range dirs {
		free, err := freeBytes(dir)
		if err != nil {
			return err
		}
		if free < need {
			return fmt.Errorf("%s has %.1f GB free and this needs %.0f GB: free some, or move the Go caches (GOCACHE, GOMODCACHE) to a larger disk",
				dir, gigabytes(free), gigabytes(need))
		}
	}
	return nil
}

func gigabytes(n uint64) float64 { return float64(n) / (1 << 30) }

func freeBytes(dir string) (uint64, error) {
	for {
		var s unix.Statfs_t
		err := unix.Statfs(dir, &s)
		if err == nil {
			return s.Bavail * uint64(s.Bsize), nil
		}
		if !errors.Is(err, unix.ENOENT) || dir == filepath.Dir(dir) {
			return 0, fmt.Errorf("read the free space of %s: %w", dir, err)
		}
		dir = filepath.Dir(dir)
	}
}

// Snapshotter is the containerd snapshotter that works in the folder: overlayfs,
// but not on top of another overlay, where the kernel refuses it.
func Snapshotter(dir string) (string, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return "", fmt.Errorf("read the file system type of %s: %w", dir, err)
	}
	if int64(s.Type) == unix.OVERLAYFS_SUPER_MAGIC { //nolint:unconvert // narrower on other architectures
		return "native", nil
	}
	return "overlayfs", nil
}
