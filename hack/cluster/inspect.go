package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/leftover"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/render"
)

// followPoll is how often a followed log is read again.
const followPoll = 200 * time.Millisecond

// load imports image tars into every node that runs, all nodes at once.
func (a *app) load(ctx context.Context, files []string) error {
	r, err := a.readRecord()
	if err != nil {
		return err
	}
	paths, err := absolute(files)
	if err != nil {
		return err
	}
	if r.Kind {
		return a.kindLoad(ctx, paths)
	}
	errs := make([]error, r.Nodes)
	var wg sync.WaitGroup
	for i := range r.Nodes {
		wg.Go(func() { errs[i] = a.loadNode(i+1, paths) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (a *app) loadNode(node int, tars []string) error {
	pid, err := a.nodePID(node)
	if err != nil {
		return err
	}
	for _, tar := range tars {
		if err := runInside(pid, allSpaces, importCommand(tar)); err != nil {
			return fmt.Errorf("load into node %d: %w", node, err)
		}
	}
	return nil
}

func absolute(files []string) ([]string, error) {
	paths := make([]string, len(files))
	for i, f := range files {
		if _, err := os.Stat(f); err != nil {
			return nil, fmt.Errorf("load %s (images are built by `go run ./hack/image`): %w", f, err)
		}
		abs, err := filepath.Abs(f)
		if err != nil {
			return nil, err
		}
		paths[i] = abs
	}
	return paths, nil
}

func (a *app) kubeconfig(context.Context, []string) error {
	if _, err := a.readRecord(); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "export KUBECONFIG=%s\n", a.Kubeconfig())
	return nil
}

// exec runs a command in a node's network, with the host's files and terminal.
// KUBECONFIG names the API server by its address there, and kubectl is the
// cluster's.
func (a *app) exec(ctx context.Context, node int, command []string) error {
	pid, err := a.nodePID(node)
	if err != nil {
		return err
	}
	if err := os.Setenv("PATH", filepath.Join(a.Bin(), "kube")+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+a.PKI("admin.kubeconfig"),
		a.Mark(), layout.RoleVar+"="+layout.RoleExec, layout.NodeVar+"="+layout.NodeName(node))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := inside(pid, []space{networkSpace}, cmd.Start); err != nil {
		return err
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return commandExit(max(exit.ExitCode(), 1)) // a signal has no code
	}
	return err
}

// status shows what runs. It fails when no cluster is there or the API server
// does not answer.
func (a *app) status(ctx context.Context, _ []string) error {
	r, err := a.readRecord()
	if err != nil {
		return err
	}
	if r.Kind {
		fmt.Fprintf(a.out, "kind cluster %s, kubeconfig %s\n", a.kindName(), a.Kubeconfig())
		return nil
	}
	all, err := leftover.New(a.Cluster).Find()
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "state       %s\nkubeconfig  %s\ncgroup      %s\n\n", a.State, a.Kubeconfig(), a.Cgroup())
	if err := printProcesses(a.out, r.Nodes, all); err != nil {
		return err
	}
	client, err := a.hostClient()
	if err != nil {
		return err
	}
	nodes, err := client.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("the API server does not answer (look at `cluster logs kube-apiserver`; the proxy starts again with `cluster start proxy`): %w", err)
	}
	fmt.Fprintln(a.out)
	for _, n := range nodes {
		fmt.Fprintf(a.out, "%s  ready=%v  %s\n", n.Name, n.Ready, n.Why)
	}
	return nil
}

// printProcesses shows what should run and whether it does.
func printProcesses(w io.Writer, nodes int, all []leftover.Process) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(where, name string, match func(leftover.Process) bool) {
		state, pid := "missing", "-"
		for _, p := range all {
			if match(p) {
				state, pid = "running", fmt.Sprint(p.PID)
				if p.Stopped {
					state = "paused"
				}
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", where, name, state, pid)
	}
	for _, role := range []string{layout.RoleSwitch, layout.RoleProxy} {
		row("host", role, func(p leftover.Process) bool { return p.Role == role })
	}
	for i := 1; i <= nodes; i++ {
		node := layout.NodeName(i)
		row(node, "init", func(p leftover.Process) bool { return p.Role == layout.RoleInit && p.Node == node })
		for _, name := range componentsOf(i) {
			row(node, name, func(p leftover.Process) bool { return p.Program == name && p.Node == node })
		}
	}
	return table.Flush()
}

func componentsOf(node int) []string {
	if node == 1 {
		return append(append([]string{}, render.ControlPlaneNames...), render.NodeNames...)
	}
	return render.NodeNames
}

func (a *app) listLogs() error {
	logs, err := filepath.Glob(a.Path("log", "*.log"))
	if err != nil {
		return err
	}
	if len(logs) == 0 {
		return fmt.Errorf("no logs in %s: start a cluster with `cluster up`", a.Path("log"))
	}
	fmt.Fprintln(a.out, strings.Join(logs, "\n"))
	return nil
}

// logs prints a component's log, or that of a role.
func (a *app) logs(ctx context.Context, component string, node int, follow bool) error {
	path, err := a.logPath(component, node)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w (list the logs with `cluster logs`)", err)
	}
	defer func() { _ = f.Close() }() // only read
	for {
		if _, err := io.Copy(a.out, f); err != nil || !follow {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followPoll):
		}
	}
}

func (a *app) logPath(component string, node int) (string, error) {
	switch component {
	case layout.RoleSwitch, "host-proxy":
		return a.Log(0, strings.TrimPrefix(component, "host-")), nil
	case layout.RoleInit:
		return a.Log(node, component), nil
	}
	name, err := render.ResolveName(component)
	return a.Log(node, name), err
}
