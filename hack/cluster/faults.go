package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/api"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/leftover"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/render"
)

// killNode cuts a node's power: its disk stays, everything that ran is gone.
func (a *app) killNode(_ context.Context, node int) error {
	pid, err := a.nodePID(node)
	if err != nil {
		return err
	}
	return leftover.New(a.Cluster).Signal(pid, unix.SIGKILL)
}

// start powers a node on, or starts the proxy on its old port.
func (a *app) start(_ context.Context, args []string) error {
	if args[0] == layout.RoleProxy {
		return a.restartProxy()
	}
	node, err := a.parseNode(args[0])
	if err != nil {
		return err
	}
	if _, running, err := a.find(layout.RoleInit, node); err != nil || running {
		return errors.Join(err, fmt.Errorf("node %d is running", node))
	}
	return a.startNode(node)
}

func (a *app) restartProxy() error {
	r, err := a.readRecord()
	if err != nil {
		return err
	}
	if _, running, err := a.find(layout.RoleProxy, 0); err != nil || running {
		return errors.Join(err, errors.New("the proxy is running"))
	}
	l, err := listenLoopback(r.Port)
	if err != nil {
		return err
	}
	return a.startProxy(l)
}

func (a *app) pause(component string, node int) error {
	return a.signalComponent(component, node, unix.SIGSTOP)
}

func (a *app) resume(component string, node int) error {
	return a.signalComponent(component, node, unix.SIGCONT)
}

// signalComponent signals every process of that name on the node.
func (a *app) signalComponent(component string, node int, sig unix.Signal) error {
	name, err := render.ResolveName(component)
	if err != nil {
		return err
	}
	table := leftover.New(a.Cluster)
	all, err := table.Find()
	if err != nil {
		return err
	}
	found := false
	for _, p := range all {
		if p.Program == name && p.Node == layout.NodeName(node) {
			found = true
			if err := table.Signal(p.PID, sig); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("%s does not run on node %d", name, node)
	}
	return nil
}

// link plugs a node's network cable in or pulls it out, at the switch.
func (a *app) link(_ context.Context, args []string) error {
	node, err := a.parseNode(args[0])
	if err != nil {
		return err
	}
	if args[1] != "up" && args[1] != "down" {
		return errUsage
	}
	pid, err := a.switchPID()
	if err != nil {
		return err
	}
	return runInside(pid, []space{networkSpace}, exec.Command("ip", "link", "set", layout.NodePort(node), args[1]))
}

// cutComment marks the rules of cuts; what follows names the cut.
const cutComment = "routerfleet-cut "

// cutRules are the iptables rules that drop both directions of a pod's port. The
// FORWARD chain sees packets after the service proxy has translated them, and
// only those that pass through the node: the kubelet's own probes still arrive.
func cutRules(cut, ip string, port int) [][]string {
	comment := []string{"-m", "comment", "--comment", cutComment + cut, "-j", "DROP"}
	p := strconv.Itoa(port)
	return [][]string{
		append([]string{"FORWARD", "-d", ip + "/32", "-p", "tcp", "--dport", p}, comment...),
		append([]string{"FORWARD", "-s", ip + "/32", "-p", "tcp", "--sport", p}, comment...),
	}
}

// cutName reads [NAMESPACE/]POD and PORT.
func cutName(pod, port string) (namespace, name string, number int, err error) {
	namespace, name, ok := strings.Cut(pod, "/")
	if !ok {
		namespace, name = "default", pod
	}
	number, err = strconv.Atoi(port)
	if err != nil || number < 1 || number > 65535 {
		return "", "", 0, fmt.Errorf("port %q: it must be a number from 1 to 65535", port)
	}
	return namespace, name, number, nil
}

// cut drops the packets on the pod's node, where all of them pass.
func (a *app) cut(ctx context.Context, args []string) error {
	namespace, name, port, err := cutName(args[0], args[1])
	if err != nil {
		return err
	}
	client, err := a.hostClient()
	if err != nil {
		return err
	}
	pod, err := client.Pod(ctx, namespace, name)
	if err != nil {
		return err
	}
	if net.ParseIP(pod.Status.PodIP) == nil {
		return fmt.Errorf("pod %s/%s has no address yet", namespace, name)
	}
	node, err := a.parseNode(strings.TrimPrefix(pod.Spec.NodeName, "node"))
	if err != nil {
		return err
	}
	for _, rule := range cutRules(fmt.Sprintf("%s/%s %d", namespace, name, port), pod.Status.PodIP, port) {
		if _, err := a.iptables(node, append([]string{"-I"}, rule...)...); err != nil {
			return err
		}
	}
	return nil
}

// heal removes the rules of one cut, or of all. It does not ask for the pod,
// which may be gone.
func (a *app) heal(_ context.Context, args []string) error {
	comment := cutComment
	if len(args) == 1 {
		return errUsage
	}
	if len(args) == 2 {
		namespace, name, port, err := cutName(args[0], args[1])
		if err != nil {
			return err
		}
		comment = fmt.Sprintf("%s%s/%s %d", cutComment, namespace, name, port)
	}
	r, err := a.readRecord()
	if err != nil {
		return err
	}
	healed := 0
	for node := 1; node <= r.Nodes; node++ {
		if _, running, err := a.find(layout.RoleInit, node); err != nil || !running {
			continue // a node without power has no rules
		}
		n, err := a.healNode(node, comment, len(args) == 2)
		if err != nil {
			return err
		}
		healed += n
	}
	if healed == 0 && len(args) == 2 {
		return fmt.Errorf("%s port %s is not cut", args[0], args[1])
	}
	return nil
}

func (a *app) healNode(node int, comment string, exact bool) (int, error) {
	out, err := a.iptables(node, "-S", "FORWARD")
	if err != nil {
		return 0, err
	}
	rules := cutsToDelete(string(out), comment, exact)
	for _, rule := range rules {
		if _, err := a.iptables(node, append([]string{"-D"}, rule...)...); err != nil {
			return 0, err
		}
	}
	return len(rules), nil
}

// cutsToDelete picks rules by their comment out of the listing of iptables -S
// ("-A FORWARD ... --comment \"routerfleet-cut default/pod 80\" -j DROP").
func cutsToDelete(listing, comment string, exact bool) [][]string {
	var rules [][]string
	for line := range strings.Lines(listing) {
		before, rest, ok := strings.Cut(line, `--comment "`)
		text, after, ok2 := strings.Cut(rest, `"`)
		if !ok || !ok2 || text != comment && (exact || !strings.HasPrefix(text, comment)) {
			continue
		}
		rule := strings.Fields(strings.TrimPrefix(before, "-A "))
		rule = append(rule, "--comment", text)
		rules = append(rules, append(rule, strings.Fields(after)...))
	}
	return rules
}

// iptables works on the mangle table of a node, which nothing else of the
// cluster uses. It waits for the lock that kube-proxy takes.
func (a *app) iptables(node int, args ...string) ([]byte, error) {
	pid, err := a.nodePID(node)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("iptables", append([]string{"-w", "-t", "mangle"}, args...)...)
	return outputInside(pid, []space{networkSpace, mountSpace}, cmd)
}

// hostClient is an administrator's client through the proxy.
func (a *app) hostClient() (*api.Client, error) {
	r, err := a.readRecord()
	if err != nil {
		return nil, err
	}
	s := &startup{app: a, record: r}
	return s.admin()
}
