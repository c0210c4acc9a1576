//go:build cluster

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/leftover"
)

// program is the cluster command under test, and probeTar an image to run.
var program, probeTar string

// soon bounds what a test waits for; it is for cores that others use too.
const soon = 2 * time.Minute

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	if os.Geteuid() != 0 {
		fmt.Println("these tests start clusters: run them as root")
		return 1
	}
	dir, err := os.MkdirTemp("", "cluster-test-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	if err := buildRig(dir); err != nil {
		fmt.Println(err)
		return 1
	}
	return m.Run()
}

func buildRig(dir string) error {
	program = filepath.Join(dir, "cluster")
	for out, pkg := range map[string]string{program: ".", filepath.Join(dir, "probe"): "./testdata/probe"} {
		cmd := exec.Command("go", "build", "-o", out, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if b, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", pkg, err, b)
		}
	}
	probeTar = filepath.Join(dir, "probe.tar")
	return writeProbeImage(filepath.Join(dir, "probe"), probeTar)
}

// rig is one cluster under test with a state folder of its own.
type rig struct {
	*app
	t *testing.T
}

// newRig makes a rig whose cluster is gone when the test ends, and checks so.
func newRig(t *testing.T) *rig {
	t.Helper()
	a, err := newApp(filepath.Join(t.TempDir(), "state"), os.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{a, t}
	before := r.hostView()
	t.Cleanup(func() {
		if t.Failed() {
			r.showLogs()
		}
		spaces := r.namespaces()
		r.run("down")
		r.checkNothingLeft(before, spaces)
	})
	return r
}

func (r *rig) showLogs() {
	logs, err := filepath.Glob(r.Path("log", "*.log"))
	if err != nil {
		r.t.Log(err)
	}
	for _, l := range logs {
		if tail, err := tailFile(l, tailLines); err == nil {
			r.t.Logf("---- %s\n%s", l, tail)
		}
	}
}

func (r *rig) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, program, append([]string{"--state", r.State}, args...)...)
}

// run runs a verb that must succeed, and returns what it printed.
func (r *rig) run(args ...string) string {
	r.t.Helper()
	out, err := r.command(context.Background(), args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("cluster %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// startUp starts `up` and returns when it has printed a line with the text. The
// rest of its output is read to the end, as a terminal would.
func (r *rig) startUp(until string, args ...string) *exec.Cmd {
	r.t.Helper()
	cmd := r.command(context.Background(), append([]string{"up"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), until) {
			go func() {
				for lines.Scan() {
				}
			}()
			return cmd
		}
	}
	r.t.Fatalf("`up` ended before it said %q", until)
	return nil
}

// eventually asks until the answer is no error.
func (r *rig) eventually(what string, ask func() error) {
	r.t.Helper()
	deadline := time.Now().Add(soon)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: not within %s: %v", what, soon, err)
		}
		<-time.After(stepPoll)
	}
}

func (r *rig) kubectl(args ...string) (string, error) {
	cmd := exec.Command(r.Kube("kubectl"), append([]string{"--kubeconfig", r.Kubeconfig()}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %v: %w: %s", args, err, out)
	}
	return strings.TrimSpace(string(out)), err
}

func (r *rig) mustKubectl(args ...string) string {
	r.t.Helper()
	out, err := r.kubectl(args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// hostView is what a cluster must not change on the host: mounts and links.
func (r *rig) hostView() []string {
	r.t.Helper()
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		r.t.Fatal(err)
	}
	links, err := exec.Command("ip", "-o", "link").Output()
	if err != nil {
		r.t.Fatal(err)
	}
	view := strings.Split(string(mountinfo), "\n")
	for line := range strings.Lines(string(links)) {
		_, link, _ := strings.Cut(line, ": ")
		name, _, _ := strings.Cut(link, ":")
		view = append(view, "link "+name)
	}
	return view
}

// held are namespaces of a cluster at a moment.
type held struct {
	names map[string]bool
	at    uint64 // of that moment, in ticks since the machine started
}

// namespaces are those of the cluster's processes that the host does not share.
func (r *rig) namespaces() held {
	r.t.Helper()
	cmd := exec.Command("true") // started now
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	now, err := startTime(strconv.Itoa(cmd.Process.Pid))
	if err := errors.Join(err, cmd.Wait()); err != nil {
		r.t.Fatal(err)
	}
	all, err := leftover.New(r.Cluster).Find()
	if err != nil {
		r.t.Fatal(err)
	}
	spaces := map[string]bool{}
	for _, p := range all {
		for _, s := range allSpaces {
			own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", p.PID, s))
			host, hostErr := os.Readlink("/proc/self/ns/" + string(s))
			if err == nil && hostErr == nil && own != host {
				spaces[own] = true
			}
		}
	}
	return held{spaces, now}
}

// stillHeld fails if a process keeps one of the namespaces. The kernel uses the
// number of a namespace that is gone for the next one, so a process that started
// later is somebody else's.
func (h held) stillHeld() error {
	links, err := filepath.Glob("/proc/[0-9]*/ns/*")
	if err != nil {
		return err
	}
	for _, l := range links {
		if target, err := os.Readlink(l); err != nil || !h.names[target] {
			continue
		}
		if started, err := startTime(strings.Split(l, "/")[2]); err == nil && started <= h.at {
			return fmt.Errorf("%s still holds a namespace of the cluster", l)
		}
	}
	return nil
}

// startTime is field 22 of /proc/PID/stat, in ticks since the machine started.
func startTime(pid string) (uint64, error) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%s/stat has %d fields after the name", pid, len(fields))
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func (r *rig) checkNothingLeft(before []string, spaces held) {
	r.t.Helper()
	if all, err := leftover.New(r.Cluster).Find(); err != nil || len(all) > 0 {
		r.t.Errorf("processes left: %v (%v)", all, err)
	}
	// A killed process keeps its pid namespace until the host's init reaps it.
	r.eventually("namespaces are free", spaces.stillHeld)
	mounts, err := cgroupMounts()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range mounts {
		if _, err := os.Stat(filepath.Join(m, r.Cgroup())); !os.IsNotExist(err) {
			r.t.Errorf("the cgroup %s is left in %s (%v)", r.Cgroup(), m, err)
		}
	}
	if after := r.hostView(); !slices.Equal(before, after) {
		r.t.Errorf("the host's mounts or links changed:\nbefore %q\nafter  %q", before, after)
	}
	if _, err := os.Stat(r.State); !os.IsNotExist(err) {
		r.t.Errorf("the state folder is left (%v)", err)
	}
}
