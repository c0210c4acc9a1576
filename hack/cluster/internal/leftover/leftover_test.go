package leftover

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
)

type fake struct {
	pid                   int
	environ, cmdline      []string
	cgroup, stat, comment string
}

func fakeProc(t *testing.T, processes ...fake) Table {
	t.Helper()
	c := layout.Cluster{State: "/repo/.cluster"}
	table := Table{Proc: t.TempDir(), Mark: c.Mark(), Cgroup: "/routerfleet-1"}
	for _, p := range processes {
		dir := filepath.Join(table.Proc, fmt.Sprint(p.pid))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if p.stat == "" {
			p.stat = fmt.Sprintf("%d (x) S 1 1 1", p.pid)
		}
		for name, content := range map[string]string{
			"environ": entries(p.environ), "cmdline": entries(p.cmdline), "cgroup": p.cgroup, "stat": p.stat,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return table
}

func entries(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return strings.Join(list, "\x00") + "\x00"
}

func TestOnlyTheClustersOwnProcessesAreFound(t *testing.T) {
	mark := layout.StateVar + "=/repo/.cluster"
	table := fakeProc(t,
		fake{pid: 10, environ: []string{"A=1", mark, layout.RoleVar + "=switch"}, cmdline: []string{"/repo/bin/cluster", "role", "switch"}, comment: "a role"},
		fake{pid: 11, environ: []string{mark, layout.NodeVar + "=node1"}, cmdline: []string{"kubelet", "--x"}, stat: "11 (a) b) T 1 1"},
		fake{pid: 12, cgroup: "3:cpu:/other\n0::/routerfleet-1/node1/kubepods/pod2\n", cmdline: []string{"/pause"}},
		fake{pid: 20, environ: []string{mark + "2"}, comment: "a state folder with a longer name"},
		fake{pid: 21, environ: []string{"X" + mark}},
		fake{pid: 22, cgroup: "0::/routerfleet-12/node1\n", comment: "a cgroup with a longer name"},
		fake{pid: 23, environ: []string{mark}, stat: "23 (gone) Z 1 1"},
		fake{pid: 24, cgroup: "0::/user.slice/routerfleet-1\n"},
	)
	got, err := table.Find()
	if err != nil {
		t.Fatal(err)
	}
	want := []Process{
		{PID: 10, Role: "switch", Program: "cluster"},
		{PID: 11, Node: "node1", Program: "kubelet", Stopped: true},
		{PID: 12, Program: "pause"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestAnotherClustersProcessesAreSeenAsOthers(t *testing.T) {
	own := fake{pid: 10, environ: []string{layout.StateVar + "=/repo/.cluster"}}
	if fakeProc(t, own).OthersExist() {
		t.Error("the cluster takes itself for another one")
	}
	if !fakeProc(t, own, fake{pid: 11, environ: []string{layout.StateVar + "=/second/.cluster"}}).OthersExist() {
		t.Error("the second cluster was not seen")
	}
}

func TestAncestorsAreSpared(t *testing.T) {
	table := fakeProc(t,
		fake{pid: 5, stat: "5 (sh) S 1 5"},
		fake{pid: 6, stat: "6 (make (x)) S 5 5"},
		fake{pid: 7, stat: "7 (cluster) S 6 5"},
		fake{pid: 8, stat: "8 (sibling) S 6 5"},
	)
	got := table.ancestors(7)
	for pid, want := range map[int]bool{5: true, 6: true, 7: true, 8: false, 1: false} {
		if got[pid] != want {
			t.Errorf("process %d spared: %v, want %v", pid, got[pid], want)
		}
	}
}

// start runs a process that sleeps until the test ends, with the given mark.
func start(t *testing.T, mark string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.Env = append(os.Environ(), mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have been killed by the test
		_ = cmd.Wait()
	})
	return cmd
}

func TestKillAllEndsMarkedProcessesAndNoOthers(t *testing.T) {
	c := layout.Cluster{State: t.TempDir()}
	marked, stopped := start(t, c.Mark()), start(t, c.Mark())
	other := start(t, layout.Cluster{State: c.State + "-other"}.Mark())
	if err := New(c).Signal(stopped.Process.Pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	n, err := New(c).KillAll()
	if err != nil || n != 2 {
		t.Fatalf("killed %d, %v; want 2", n, err)
	}
	for _, cmd := range []*exec.Cmd{marked, stopped} {
		if _, alive := New(c).Read(cmd.Process.Pid); alive {
			t.Errorf("process %d is still there", cmd.Process.Pid)
		}
	}
	if err := unix.Kill(other.Process.Pid, 0); err != nil || processState(fmt.Sprintf("/proc/%d", other.Process.Pid)) == 'Z' {
		t.Errorf("the other cluster's process was killed: %v", err)
	}
}

func TestAForeignProcessGetsNoSignal(t *testing.T) {
	c := layout.Cluster{State: t.TempDir()}
	other := start(t, layout.Cluster{State: c.State + "-other"}.Mark())
	if err := New(c).Signal(other.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if state := processState(fmt.Sprintf("/proc/%d", other.Process.Pid)); state == 'Z' || state == 0 {
		t.Error("the foreign process was killed")
	}
	if err := New(c).Signal(1<<22-1, unix.SIGKILL); err != nil {
		t.Errorf("a process that does not exist: %v", err)
	}
}
