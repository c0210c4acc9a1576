package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/api"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/host"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/kubebin"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/render"
)

// nodeNamespaces are the namespaces a node is made of.
const nodeNamespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// pluggedFD is the descriptor on which a node hears that its link is there: one
// byte. End of file instead means that whoever was plugging it in has died.
const pluggedFD = 3

// readyPoll is how often a node looks whether something it waits for is there.
const readyPoll = 50 * time.Millisecond

// startNode powers a node on and plugs it in.
func (a *app) startNode(i int) error {
	switchPID, err := a.switchPID()
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = write.Close() }() // its only byte has been written
	pid, err := a.spawn(layout.RoleInit, i, nodeNamespaces, []string{fmt.Sprint(i)}, read)
	_ = read.Close() // the node has its own
	if err != nil {
		return err
	}
	if err := plugIn(switchPID, pid, i); err != nil {
		return fmt.Errorf("plug in node %d: %w", i, err)
	}
	_, err = write.Write([]byte{1})
	return err
}

// runInit is process 1 of a node. It starts the node proper, and reaps whatever
// loses its parent. When it ends, the kernel ends everything else of the node.
func (a *app) runInit(i int) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate the node's mounts from the host's: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount the node's /proc: %w", err)
	}
	cmd := exec.Command("/proc/self/exe", "role", layout.RoleNode, fmt.Sprint(i))
	cmd.Args[0] = "cluster"
	cmd.Env = a.environ(layout.RoleNode, i)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(pluggedFD, "plugged")}
	if err := cmd.Start(); err != nil {
		return err
	}
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if err == unix.ECHILD || err == nil && pid == cmd.Process.Pid {
			return fmt.Errorf("the node's process ended, and the node with it")
		}
	}
}

// runNode sets the node up and keeps its programs running until the power goes.
func (a *app) runNode(ctx context.Context, i int) error {
	r, err := a.readRecord()
	if err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(layout.NodeName(i))); err != nil {
		return err
	}
	if err := a.setUpMounts(i); err != nil {
		return err
	}
	if n, err := os.NewFile(pluggedFD, "plugged").Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("nobody plugged the node in: %w", err)
	}
	if err := ipCommands(nodeCommands(i, r.Nodes)); err != nil {
		return err
	}
	if err := writeSysctls(nodeSysctls); err != nil {
		return err
	}
	if err := a.writeConfigs(i); err != nil {
		return err
	}
	keeper := &keeper{app: a, node: i}
	if i == 1 {
		go a.startControlPlane(ctx, keeper)
	}
	if err := a.startNodePrograms(ctx, keeper); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// startControlPlane starts etcd and the API server, and its clients when it
// answers: they would give up and be started again, which takes longer.
func (a *app) startControlPlane(ctx context.Context, k *keeper) {
	k.keep(ctx, render.EtcdComponent(a.Cluster))
	k.keep(ctx, render.APIServerComponent(a.Cluster))
	client, err := api.New(a.Cluster, layout.APIServer(), "admin")
	if err != nil {
		fmt.Println("control plane:", err)
		return
	}
	if waitUntil(ctx, func() error { return client.Get(ctx, "/readyz", nil) }) != nil {
		return // the node ends
	}
	k.keep(ctx, render.ControllerManagerComponent(a.Cluster))
	k.keep(ctx, render.SchedulerComponent(a.Cluster))
}

// startNodePrograms starts what every node runs. The cluster's own images are
// loaded before the kubelet could ask for them.
func (a *app) startNodePrograms(ctx context.Context, k *keeper) error {
	k.keep(ctx, render.ContainerdComponent(a.Cluster, k.node))
	if err := waitUntil(ctx, func() error { return exec.CommandContext(ctx, "ctr", "version").Run() }); err != nil {
		return err
	}
	for _, tar := range []string{filepath.Join("kube", kubebin.PauseTar), filepath.Join("coredns", kubebin.DNSTar)} {
		if out, err := importCommand(filepath.Join(a.Bin(), tar)).CombinedOutput(); err != nil {
			return fmt.Errorf("import %s: %w: %s", tar, err, out)
		}
	}
	k.keep(ctx, render.KubeletComponent(a.Cluster, k.node))
	k.keep(ctx, render.KubeProxyComponent(a.Cluster, k.node))
	go a.startPolicyAgent(ctx, k)
	return nil
}

// startPolicyAgent waits for the kubelet to register the node, without which the
// agent gives up.
func (a *app) startPolicyAgent(ctx context.Context, k *keeper) {
	client, err := api.New(a.Cluster, layout.APIServer(), "netpol")
	if err != nil {
		fmt.Println("policy agent:", err)
		return
	}
	node := "/api/v1/nodes/" + layout.NodeName(k.node)
	if waitUntil(ctx, func() error { return client.Get(ctx, node, nil) }) == nil {
		k.keep(ctx, render.NetpolComponent(a.Cluster, k.node))
	}
}

// waitUntil asks again and again until the answer is no error or the node ends.
func waitUntil(ctx context.Context, ask func() error) error {
	for ask() != nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(readyPoll):
		}
	}
	return nil
}

// importCommand loads an image tar where it runs, inside a node.
func importCommand(tar string) *exec.Cmd {
	return exec.Command("ctr", "--address", render.ContainerdSocket, "--namespace", "k8s.io", "images", "import", tar)
}

func (a *app) writeConfigs(i int) error {
	cniBin, err := host.CNIDir()
	if err != nil {
		return err
	}
	snapshotter, err := host.Snapshotter(a.State)
	if err != nil {
		return err
	}
	for path, content := range map[string]string{
		a.NodePath(i, "containerd.toml"):             render.ContainerdConfig(a.Cluster, i, cniBin, snapshotter),
		a.NodePath(i, "cni.d", "10-bridge.conflist"): render.CNIConfig(i),
		a.NodePath(i, "kubelet.yaml"):                render.KubeletConfig(a.Cluster, i),
		a.NodePath(i, "kube-proxy.yaml"):             render.KubeProxyConfig(a.Cluster, i),
	} {
		if err := writeFile(path, content); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file and makes its folder.
func writeFile(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

// runSwitch holds the switch's namespace until it is killed.
func runSwitch(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// role runs what this program is inside a cluster.
func (a *app) role(_ context.Context, args []string) error {
	role, number, err := a.roleArgs(args)
	if err != nil {
		return err
	}
	state := os.Getenv(layout.StateVar)
	if state == "" {
		return fmt.Errorf("the verb role is for the cluster's own processes")
	}
	a.State = state
	ctx := context.Background() // a role ends when it is killed, not by signals to a terminal
	switch role {
	case layout.RoleSwitch:
		ctx, stop := context.WithTimeout(ctx, forever)
		defer stop()
		return runSwitch(ctx)
	case layout.RoleInit:
		return a.runInit(number)
	case layout.RoleNode:
		ctx, stop := context.WithTimeout(ctx, forever)
		defer stop()
		return a.runNode(ctx, number)
	case layout.RoleProxy:
		return a.runProxy(ctx)
	}
	return fmt.Errorf("there is no role %q", role)
}

// forever is longer than a machine runs. Waiting for a timer, unlike waiting for
// nothing at all, is no deadlock to the Go runtime.
const forever = 100 * 365 * 24 * time.Hour
