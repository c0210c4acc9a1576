package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/leftover"
)

func TestFlagsMayFollowArguments(t *testing.T) {
	for _, tc := range []struct {
		args        []string
		stopAtFirst bool
		node        int
		rest        []string
	}{
		{[]string{"kubelet", "--node", "2"}, false, 2, []string{"kubelet"}},
		{[]string{"--node=2", "a", "b"}, false, 2, []string{"a", "b"}},
		{[]string{"--node", "2", "ls", "--node", "3"}, true, 2, []string{"ls", "--node", "3"}},
		{[]string{"--", "ls", "-l"}, true, 1, []string{"ls", "-l"}},
		{nil, false, 1, nil},
	} {
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		node := fs.Int("node", 1, "")
		rest, err := parseMixed(fs, tc.args, tc.stopAtFirst)
		if err != nil || *node != tc.node || !slices.Equal(rest, tc.rest) {
			t.Errorf("%v: node %d, rest %v, %v; want %d, %v", tc.args, *node, rest, err, tc.node, tc.rest)
		}
	}
}

func TestEveryVerbSaysWhatItDoes(t *testing.T) {
	var out strings.Builder
	usage(&out)
	for _, v := range verbs() {
		if !v.hidden && (v.help == "" || !strings.Contains(out.String(), v.help)) {
			t.Errorf("the usage does not explain %s", v.name)
		}
	}
}

func TestWrongArgumentsAreRefusedBeforeAnythingRuns(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	for _, args := range [][]string{
		{}, {"nothing"}, {"load"}, {"link", "1"}, {"cut", "pod"}, {"exec"}, {"up", "extra"}, {"kill"}, {"logs", "a", "b"}, {"down", "now"},
	} {
		if err := run(t.Context(), append([]string{"--state", state}, args...), io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%v: got %v, want wrong arguments", args, err)
		}
	}
	for _, nodes := range []string{"0", "10"} {
		if err := run(t.Context(), []string{"--state", state, "up", "--nodes", nodes}, io.Discard); err == nil {
			t.Errorf("%s nodes were accepted", nodes)
		}
	}
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the state folder was made (%v)", err)
	}
}

func newTestApp(t *testing.T) *app {
	t.Helper()
	return &app{Cluster: layout.Cluster{Root: "/repo", State: t.TempDir()}, out: io.Discard}
}

func TestWithoutAClusterVerbsSayHowToStartOne(t *testing.T) {
	a := &app{Cluster: layout.Cluster{Root: "/repo", State: filepath.Join(t.TempDir(), "none")}, out: io.Discard}
	for name, do := range map[string]func() error{
		"status":     func() error { return a.status(t.Context(), nil) },
		"kubeconfig": func() error { return a.kubeconfig(t.Context(), nil) },
		"load":       func() error { return a.load(t.Context(), []string{"main_test.go"}) },
		"kill":       func() error { _, err := a.parseNode("1"); return err },
		"exec":       func() error { return a.exec(t.Context(), 1, []string{"true"}) },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "cluster up") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyNodesOfTheClusterHaveNumbers(t *testing.T) {
	a := newTestApp(t)
	if err := a.writeRecord(record{Nodes: 2, Port: 1234}); err != nil {
		t.Fatal(err)
	}
	for s, want := range map[string]int{"1": 1, "2": 2, "0": 0, "3": 0, "-1": 0, "node1": 0, "": 0} {
		if got, err := a.parseNode(s); got != want || (err == nil) != (want > 0) {
			t.Errorf("node %q: %d, %v", s, got, err)
		}
	}
}

func TestTwoRunsOnOneClusterWaitForEachOther(t *testing.T) {
	a := newTestApp(t)
	unlock, err := a.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lockPoll/2)
	defer cancel()
	if _, err := a.lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second run got %v, want to wait", err)
	}
	other := newTestApp(t)
	unlockOther, err := other.lock(t.Context())
	if err != nil {
		t.Fatalf("another cluster: %v", err)
	}
	unlockOther()
	unlock()
	unlock, err = a.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestEveryNodeHasARouteToEachOther(t *testing.T) {
	commands := strings.Join(nodeCommands(2, 3), "\n")
	for _, want := range []string{"addr add 10.89.0.12/24 dev eth0", "route add 10.244.1.0/24 via 10.89.0.11", "route add 10.244.3.0/24 via 10.89.0.13", "route add default via 10.89.0.1", "rule add iif cni0 to 10.96.0.0/16 unreachable"} {
		if !strings.Contains(commands, want) {
			t.Errorf("%q is missing in\n%s", want, commands)
		}
	}
	if strings.Contains(commands, "route add 10.244.2.0/24") {
		t.Errorf("node 2 sends its own pods' packets away:\n%s", commands)
	}
}

func TestHealRemovesTheRulesOfACutAndNoOthers(t *testing.T) {
	listing := `-P FORWARD ACCEPT
-A FORWARD -s 10.244.2.5/32 -p tcp -m tcp --sport 8000 -m comment --comment "routerfleet-cut default/a 8000" -j DROP
-A FORWARD -d 10.244.2.5/32 -p tcp -m tcp --dport 80 -m comment --comment "routerfleet-cut default/a 80" -j DROP
-A FORWARD -m comment --comment "somebody else's" -j DROP
-A FORWARD -j KUBE-SOMETHING
`
	one := cutsToDelete(listing, cutComment+"default/a 80", true)
	if len(one) != 1 || strings.Join(one[0], " ") != "FORWARD -d 10.244.2.5/32 -p tcp -m tcp --dport 80 -m comment --comment routerfleet-cut default/a 80 -j DROP" {
		t.Errorf("one cut: %q", one)
	}
	if all := cutsToDelete(listing, cutComment, false); len(all) != 2 {
		t.Errorf("all cuts: %q", all)
	}
}

func TestACutDropsBothDirectionsOfThePort(t *testing.T) {
	rules := cutRules("default/a 80", "10.244.2.5", 80)
	var text []string
	for _, r := range rules {
		text = append(text, strings.Join(r[:7], " "))
	}
	want := []string{"FORWARD -d 10.244.2.5/32 -p tcp --dport 80", "FORWARD -s 10.244.2.5/32 -p tcp --sport 80"}
	if !slices.Equal(text, want) {
		t.Errorf("got %q, want %q", text, want)
	}
}

func TestCutNamesAPodAndAPort(t *testing.T) {
	namespace, name, port, err := cutName("team/router-0", "9400")
	if namespace != "team" || name != "router-0" || port != 9400 || err != nil {
		t.Error(namespace, name, port, err)
	}
	if namespace, _, _, _ := cutName("router-0", "80"); namespace != "default" {
		t.Errorf("without a namespace it is %q", namespace)
	}
	for _, bad := range []string{"0", "65536", "http", ""} {
		if _, _, _, err := cutName("a", bad); err == nil {
			t.Errorf("port %q was accepted", bad)
		}
	}
}

func TestMountsBelowTheStateFolderAreFoundDeepestFirst(t *testing.T) {
	mountinfo := `40 1 0:1 / /repo/.cluster/node1/x rw - tmpfs tmpfs rw
41 40 0:1 / /repo/.cluster/node1/x/y\040z rw - tmpfs tmpfs rw
42 1 0:1 / /repo/.cluster2/node1 rw - tmpfs tmpfs rw
43 1 0:1 / /repo/.cluster rw - tmpfs tmpfs rw
`
	got := mountsBelow(mountinfo, "/repo/.cluster")
	if want := []string{"/repo/.cluster/node1/x/y z", "/repo/.cluster/node1/x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheTailOfALogIsItsLastLines(t *testing.T) {
	for in, want := range map[string]string{"": "", "a\n": "a\n", "a\nb\nc\n": "b\nc\n", "a\nb\nc": "b\nc", "\n\n\n": "\n\n"} {
		if got := lastLines([]byte(in), 2); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte(strings.Repeat("x", tailBytes)+"\nlast\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := tailFile(path, 1); got != "last\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestStatusTellsRunningFromPausedFromMissing(t *testing.T) {
	var out strings.Builder
	err := printProcesses(&out, 1, []leftover.Process{
		{PID: 7, Role: layout.RoleSwitch, Program: "cluster"},
		{PID: 8, Role: layout.RoleNode, Node: "node1", Program: "kubelet", Stopped: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for line := range strings.Lines(out.String()) {
		f := strings.Fields(line)
		lines[f[1]] = f[2] + " " + f[3]
	}
	for name, want := range map[string]string{"switch": "running 7", "kubelet": "paused 8", "proxy": "missing -", "etcd": "missing -"} {
		if lines[name] != want {
			t.Errorf("%s is %q, want %q", name, lines[name], want)
		}
	}
}

func TestAFailedStepShowsItsLogsAndStopsTheStart(t *testing.T) {
	a := newTestApp(t)
	var out strings.Builder
	a.out = &out
	if err := writeFile(a.Log(1, "kubelet"), "it went wrong\n"); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	s := &startup{app: a, began: time.Now()}
	err := s.run(t.Context(), []step{
		{name: "first", do: func(context.Context) error { return nil }},
		{name: "second", do: func(context.Context) error { return broken }, logs: []string{"node1-kubelet", "absent"}},
		{name: "third", do: func(context.Context) error { t.Error("the third step ran"); return nil }},
	})
	if !errors.Is(err, broken) || !strings.HasPrefix(fmt.Sprint(err), "second: ") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), "first\n") || !strings.Contains(out.String(), "it went wrong\n") {
		t.Errorf("printed %q", out.String())
	}
}

func TestAKindClusterHasAsManyNodesAsAskedFor(t *testing.T) {
	if got := strings.Count(kindConfig(3), "- role:"); got != 3 {
		t.Errorf("%d nodes, want 3", got)
	}
}

// A failing step often wraps the failure of a program it ran.
func TestEveryFailureButThatOfACommandIsReported(t *testing.T) {
	failed := exec.Command("false").Run()
	for _, tc := range []struct {
		err  error
		code int
		says string
	}{
		{nil, 0, ""},
		{errUsage, exitUsage, ""},
		{commandExit(7), 7, ""},
		{fmt.Errorf("switch: ip link: %w", failed), 1, "cluster: switch: ip link: exit status 1\n"},
	} {
		var out strings.Builder
		if code := report(tc.err, &out); code != tc.code || out.String() != tc.says {
			t.Errorf("%v: exit code %d, %q; want %d, %q", tc.err, code, out.String(), tc.code, tc.says)
		}
	}
}

func TestMountPointsThatAClusterMadeAreKnownWithoutItsRecord(t *testing.T) {
	root := t.TempDir()
	theirs, ours := filepath.Join(root, "theirs"), filepath.Join(root, "ours")
	if err := os.Mkdir(theirs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(theirs, hostFolderMark, []byte("1"), 0); err != nil {
		t.Skipf("folders cannot be marked here: %v", err)
	}
	if err := unix.Removexattr(theirs, hostFolderMark); err != nil {
		t.Fatal(err)
	}
	made, err := makeHostFolders([]string{theirs, ours})
	if err != nil || !slices.Equal(made, []string{ours}) {
		t.Fatalf("made %v, %v", made, err)
	}
	if got := markedFolders([]string{theirs, ours, filepath.Join(root, "absent")}); !slices.Equal(got, []string{ours}) {
		t.Errorf("taken for a cluster's: %v, want %v", got, []string{ours})
	}
}
