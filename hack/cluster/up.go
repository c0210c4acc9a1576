package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/cgroup"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/host"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/kubebin"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/leftover"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/pki"
)

// cleanupWait bounds the cleaning up of a failed or interrupted start.
const cleanupWait = time.Minute

// errNotRoot says what works without root.
var errNotRoot = errors.New(`a cluster needs root: it makes namespaces, mounts and cgroups. Without root there is
  - envtest, an API server alone: cluster build, then KUBEBUILDER_ASSETS=$PWD/bin/kube go test -tags envtest ./controllers/...
  - kind, if Docker and kind are there: CLUSTER=kind cluster up
  - any other cluster: E2E_KUBECONFIG=/path/to/kubeconfig`)

// startup is one `up` under way.
type startup struct {
	*app
	nodes     int
	record    record
	began     time.Time
	listening *net.TCPListener // the proxy's, until the proxy has it
}

// step is one part of a start. On failure the ends of the named logs are shown.
type step struct {
	name string
	do   func(ctx context.Context) error
	logs []string
}

// build makes the programs, and nothing else.
func (a *app) build(ctx context.Context, _ []string) error {
	s := &startup{app: a, began: time.Now()}
	return s.run(ctx, []step{
		{name: "disk space", do: s.checkDisk},
		{name: "programs in bin/kube and bin/coredns", do: s.buildPrograms},
	})
}

// up starts a cluster. When it fails, the logs stay; when it is interrupted,
// nothing does.
func (a *app) up(ctx context.Context, nodes int) error {
	isRoot := os.Geteuid() == 0
	kind, err := useKind(ctx, isRoot)
	switch {
	case err != nil:
		return err
	case kind:
		return a.kindUp(ctx, nodes)
	case !isRoot:
		return errNotRoot
	}
	unlock, err := a.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s := &startup{app: a, nodes: nodes, began: time.Now()}
	if err := s.run(ctx, s.preparation()); err != nil {
		return err // nothing has been started
	}
	if err := s.run(ctx, s.steps()); err != nil {
		return errors.Join(err, s.cleanUp(ctx.Err() != nil))
	}
	fmt.Fprintf(a.out, "export KUBECONFIG=%s\n", a.Kubeconfig())
	return nil
}

func (s *startup) preparation() []step {
	return []step{
		{name: "disk space", do: s.checkDisk},
		{name: "Debian packages", do: func(ctx context.Context) error { return host.InstallPackages(ctx, s.out) }},
		{name: "kernel modules", do: func(ctx context.Context) error {
			return host.LoadBridgeFilter(ctx, host.BridgeSysctls, host.Modprobe)
		}},
		{name: "programs in bin/kube and bin/coredns", do: s.buildPrograms},
		{name: "no earlier cluster", do: s.removeEarlier},
	}
}

// removeEarlier says so when there was something to remove: whoever had another cluster in mind should know.
func (s *startup) removeEarlier(ctx context.Context) error {
	_, notThere := s.readRecord()
	if err := s.remove(ctx, io.Discard); err != nil {
		return err
	}
	if notThere == nil {
		fmt.Fprintln(s.out, "          earlier cluster removed")
	}
	return nil
}

func (s *startup) steps() []step {
	node := layout.NodeName(1)
	return []step{
		{name: "certificates", do: s.makeState},
		{name: "cgroups", do: s.makeCgroups},
		{name: "switch, nodes and proxy", do: s.startProcesses, logs: []string{"switch", "proxy", node + "-init"}},
		{name: "API server", do: s.waitForAPI, logs: []string{node + "-init", node + "-etcd", node + "-kube-apiserver"}},
		{name: "roles and DNS applied", do: s.applyManifests, logs: []string{node + "-kube-apiserver"}},
		{name: "nodes ready", do: s.waitForNodes, logs: s.nodeLogs("init", "containerd", "kubelet")},
		{name: "default service account", do: s.waitForServiceAccount, logs: []string{node + "-kube-controller-manager"}},
		{name: "DNS answers on every node", do: s.waitForDNS, logs: s.nodeLogs("kubelet", "kube-proxy")},
	}
}

func (s *startup) nodeLogs(names ...string) []string {
	var logs []string
	for i := 1; i <= s.nodes; i++ {
		for _, n := range names {
			logs = append(logs, layout.NodeName(i)+"-"+n)
		}
	}
	return logs
}

func (s *startup) run(ctx context.Context, steps []step) error {
	for _, st := range steps {
		err := st.do(ctx)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			if ctx.Err() == nil {
				s.showLogs(st.logs)
			}
			return fmt.Errorf("%s: %w", st.name, err)
		}
		fmt.Fprintf(s.out, "%7.1fs  %s\n", time.Since(s.began).Seconds(), st.name)
	}
	return nil
}

// cleanUp removes what was started, even when the context has ended.
func (s *startup) cleanUp(interrupted bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupWait)
	defer cancel()
	if s.listening != nil {
		_ = s.listening.Close() // nobody has connected to it
	}
	if interrupted {
		return s.remove(ctx, s.out)
	}
	fmt.Fprintf(s.out, "          the logs stay in %s until `cluster down`\n", s.Path("log"))
	err := os.Remove(s.Kubeconfig()) // or tests would take the cluster for a running one
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, s.removeRunning(ctx, s.out))
}

// checkDisk asks for more the less has been built.
func (s *startup) checkDisk(ctx context.Context) error {
	all, err := kubebin.All(ctx, s.Root)
	if err != nil {
		return err
	}
	built := true
	for _, a := range all {
		built = built && a.Present(s.Root, s.Bin())
	}
	if built {
		return host.CheckDisk(host.DiskBuilt, s.State)
	}
	caches, err := kubebin.Caches(ctx, s.Root)
	if err != nil {
		return err
	}
	need := uint64(host.DiskCold)
	if caches.Warm {
		need = host.DiskWarm
	}
	return host.CheckDisk(need, s.State, s.Bin(), caches.Build, caches.Modules)
}

func (s *startup) buildPrograms(ctx context.Context) error {
	all, err := kubebin.All(ctx, s.Root)
	if err != nil {
		return err
	}
	for _, artifact := range all {
		if _, err := artifact.Ensure(ctx, s.Root, s.Bin(), s.out); err != nil {
			return err
		}
	}
	return nil
}

// makeState makes the state folder with the certificates, which name the
// proxy's port.
func (s *startup) makeState(context.Context) error {
	if err := os.MkdirAll(s.Path("log"), 0o755); err != nil {
		return err
	}
	folders, err := makeHostFolders(hostFolders)
	if err != nil {
		return err
	}
	if s.listening, err = listenLoopback(0); err != nil {
		return err
	}
	s.record = record{Nodes: s.nodes, Port: s.listening.Addr().(*net.TCPAddr).Port, HostFolders: folders}
	if err := s.writeRecord(s.record); err != nil {
		return err
	}
	return pki.Write(s.Cluster, s.nodes, s.hostServer(), time.Now())
}

func (s *startup) hostServer() string { return fmt.Sprintf("https://127.0.0.1:%d", s.record.Port) }

func (s *startup) makeCgroups(context.Context) error {
	mounts, err := cgroupMounts()
	if err != nil {
		return err
	}
	if len(mounts) == 0 {
		return errors.New("no cgroup hierarchy is mounted on this machine: mount one at /sys/fs/cgroup")
	}
	for i := 1; i <= s.nodes; i++ {
		if err := cgroup.Create(mounts, s.NodeCgroup(i)); err != nil {
			return err
		}
	}
	return nil
}

func cgroupMounts() ([]string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return cgroup.Mounts(string(b)), nil
}

func (s *startup) startProcesses(context.Context) error {
	pid, err := s.spawn(layout.RoleSwitch, 0, unixNewNet, nil)
	if err != nil {
		return err
	}
	if err := setUpSwitch(pid); err != nil {
		return err
	}
	for i := 1; i <= s.nodes; i++ {
		if err := s.startNode(i); err != nil {
			return err
		}
	}
	l := s.listening
	s.listening = nil
	return s.startProxy(l)
}

// showLogs prints the ends of logs.
func (s *startup) showLogs(names []string) {
	for _, name := range names {
		if tail, err := tailFile(filepath.Join(s.Path("log"), name+".log"), tailLines); err == nil && tail != "" {
			fmt.Fprintf(s.out, "---- end of %s.log\n%s", name, tail)
		}
	}
}

// alive fails as soon as a process that everything depends on has ended.
func (s *startup) alive() error {
	all, err := leftover.New(s.Cluster).Find()
	if err != nil {
		return err
	}
	running := map[string]bool{}
	for _, p := range all {
		running[p.Role+p.Node] = true
	}
	for i := 1; i <= s.nodes; i++ {
		if !running[layout.RoleInit+layout.NodeName(i)] {
			return fmt.Errorf("%s has ended", layout.NodeName(i))
		}
	}
	for _, role := range []string{layout.RoleSwitch, layout.RoleProxy} {
		if !running[role] {
			return fmt.Errorf("the %s has ended", role)
		}
	}
	return nil
}
