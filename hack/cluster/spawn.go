package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/leftover"
)

// environ is the environment of the cluster's processes: the mark by which they
// are found later, and nothing a user's shell might steer Kubernetes with.
func (a *app) environ(role string, node int) []string {
	env := []string{
		"PATH=" + filepath.Join(a.Bin(), "kube") + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME=/root",
		"LANG=C.UTF-8",
		a.Mark(),
		layout.RoleVar + "=" + role,
	}
	if node > 0 {
		env = append(env, layout.NodeVar+"="+layout.NodeName(node))
	}
	return env
}

// spawn starts this program again in a role, detached from the terminal, with
// its output in a log. The files become descriptors 3 and up.
func (a *app) spawn(role string, node int, namespaces uintptr, args []string, files ...*os.File) (int, error) {
	log, err := os.OpenFile(a.Log(node, role), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }() // only the child writes to it
	cmd := exec.Command("/proc/self/exe", append([]string{"role", role}, args...)...)
	cmd.Args[0] = "cluster"
	cmd.Dir = a.Root
	cmd.Env = a.environ(role, node)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the %s: %w", role, err)
	}
	go func() { _ = cmd.Wait() }() // reaps it if it ends before we do; its log says why
	return cmd.Process.Pid, nil
}

// find returns the process of a role, on a node or, with node 0, on the host.
func (a *app) find(role string, node int) (leftover.Process, bool, error) {
	all, err := leftover.New(a.Cluster).Find()
	if err != nil {
		return leftover.Process{}, false, err
	}
	for _, p := range all {
		if p.Role == role && (node == 0 || p.Node == layout.NodeName(node)) {
			return p, true, nil
		}
	}
	return leftover.Process{}, false, nil
}

// switchPID is the process that holds the switch.
func (a *app) switchPID() (int, error) {
	p, ok, err := a.find(layout.RoleSwitch, 0)
	if err == nil && !ok {
		err = fmt.Errorf("the switch of %s is not running: start the cluster anew with `cluster up`", a.State)
	}
	return p.PID, err
}

// nodePID is process 1 of a node.
func (a *app) nodePID(node int) (int, error) {
	p, ok, err := a.find(layout.RoleInit, node)
	if err == nil && !ok {
		err = fmt.Errorf("node %d is not running: power it on with `cluster start %d`, or start a cluster with `cluster up`", node, node)
	}
	return p.PID, err
}

// role runs what this program is inside the cluster.
func (a *app) roleArgs(args []string) (role string, number int, err error) {
	if len(args) < 2 {
		return args[0], 0, nil
	}
	number, err = strconv.Atoi(args[1])
	return args[0], number, err
}
