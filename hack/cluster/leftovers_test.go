//go:build cluster

package main

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/kubebin"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/leftover"
)

// Every test here ends with `down` and the check that nothing is left.

func TestUpAndDownLeaveNothing(t *testing.T) {
	for range 2 {
		r := newRig(t)
		r.run("up")
		if n := len(r.namespaces().names); n == 0 {
			t.Error("the check looks at no namespace")
		}
	}
}

func TestDownWithoutAClusterSucceeds(t *testing.T) {
	r := newRig(t)
	r.run("down")
	r.run("down")
}

// A killed `up` has no chance to clean up, whatever it was about to do.
func TestNothingIsLeftWhenUpIsKilled(t *testing.T) {
	for _, moment := range []string{"no earlier cluster", "certificates", "cgroups", "proxy", "API server", "nodes ready"} {
		t.Run(moment, func(t *testing.T) {
			r := newRig(t)
			cmd := r.startUp(moment, "--nodes", "2")
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("`up` ended well before it was killed")
			}
		})
	}
}

func TestUpAfterAKilledUpStartsAfresh(t *testing.T) {
	r := newRig(t)
	cmd := r.startUp("API server")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	r.run("up")
	r.run("status")
}

func TestAnInterruptedUpCleansUpItself(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			r := newRig(t)
			before := r.hostView()
			cmd := r.startUp("API server", "--nodes", "2")
			spaces := r.namespaces()
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("`up` ended with %v, want exit code 1", err)
			}
			r.checkNothingLeft(before, spaces)
		})
	}
}

func TestNothingIsLeftWhenItsProcessesAreKilled(t *testing.T) {
	for name, roles := range map[string][]string{
		"proxy":       {layout.RoleProxy},
		"switch":      {layout.RoleSwitch},
		"process 1":   {layout.RoleInit},
		"node":        {layout.RoleNode},
		"all of them": {layout.RoleProxy, layout.RoleSwitch, layout.RoleInit, layout.RoleNode},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.run("up")
			r.killRoles(roles)
		})
	}
}

func TestNothingIsLeftWhenTheStateFolderIsLost(t *testing.T) {
	r := newRig(t)
	r.run("up")
	if err := os.RemoveAll(r.State); err == nil {
		t.Log("removed while the cluster runs")
	}
}

func (r *rig) killRoles(roles []string) {
	r.t.Helper()
	all, err := leftover.New(r.Cluster).Find()
	if err != nil {
		r.t.Fatal(err)
	}
	killed := 0
	for _, p := range all {
		if slices.Contains(roles, p.Role) && p.Program == "cluster" {
			killed++
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				r.t.Fatal(err)
			}
		}
	}
	if killed < len(roles) {
		r.t.Errorf("found %d processes of %v", killed, roles)
	}
}

func TestAFrozenComponentDoesNotKeepDownFromWorking(t *testing.T) {
	r := newRig(t)
	r.run("up")
	for _, c := range []string{"kubelet", "containerd", "apiserver"} {
		r.run("pause", c)
	}
}

func TestTwoClustersDoNotTouchEachOther(t *testing.T) {
	first, second := newRig(t), newRig(t)
	first.run("up")
	second.run("up")
	first.run("down")
	if out := second.run("status"); strings.Contains(out, "missing") {
		t.Errorf("the second cluster lost something:\n%s", out)
	}
	second.mustKubectl("create", "namespace", "still-works")
}

func TestTheBinaryHasTheProgramsItsLinksName(t *testing.T) {
	a, err := newApp("", os.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(a.Kube("hyper")).CombinedOutput()
	if err == nil {
		t.Error("hyper without a program's name succeeded")
	}
	want := slices.Sorted(slices.Values(kubebin.Programs))
	if _, names, _ := strings.Cut(strings.TrimSpace(string(out)), "argument: "); names != strings.Join(want, " ") {
		t.Errorf("hyper runs %q, the links are %q", names, want)
	}
}
