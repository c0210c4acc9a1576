package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
)

// switchCommands make the bridge of the switch's namespace. Its address is every
// node's default gateway: without a default route a connection to a Service fails
// before the service proxy's rules see it. Nothing is forwarded from there.
var switchCommands = []string{
	"link add br0 type bridge",
	"addr add " + layout.SwitchIP + "/24 dev br0",
	"link set br0 up",
}

// nodeCommands configure the network of a node that has been plugged in.
func nodeCommands(i, nodes int) []string {
	commands := []string{
		"link set lo up",
		fmt.Sprintf("addr add %s/%d dev eth0", layout.NodeIP(i), layout.NodeBits),
		"link set eth0 up",
		"route add default via " + layout.SwitchIP,
		// A pod that dials a Service before kube-proxy wrote its rules is refused at
		// once and tries again. Otherwise its first packet would leave by the default
		// route and be remembered as not translated, and client-go waits 30 s.
		fmt.Sprintf("rule add iif cni0 to %s unreachable", layout.ServiceCIDR),
	}
	for j := 1; j <= nodes; j++ {
		if j != i {
			commands = append(commands, fmt.Sprintf("route add %s via %s", layout.NodePodCIDR(j), layout.NodeIP(j)))
		}
	}
	return commands
}

// Sysctls of the network namespaces. Bridged packets must pass iptables in a
// node, where Services and policies are iptables rules, and must not in the
// switch.
var (
	nodeSysctls   = map[string]string{"net/ipv4/ip_forward": "1", "net/bridge/bridge-nf-call-iptables": "1"}
	switchSysctls = map[string]string{"net/ipv4/ip_forward": "0", "net/bridge/bridge-nf-call-iptables": "0"}
)

func ipCommands(commands []string) error {
	for _, c := range commands {
		if err := ipCommand(c); err != nil {
			return err
		}
	}
	return nil
}

func ipCommand(command string) error {
	if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", command, err, out)
	}
	return nil
}

func writeSysctls(values map[string]string) error {
	for name, value := range values {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
			return fmt.Errorf("set %s (is the kernel built with br_netfilter?): %w", name, err)
		}
	}
	return nil
}

// setUpSwitch runs in the switch's network namespace; /proc/sys/net shows the
// network of the thread that reads it.
func setUpSwitch(pid int) error {
	return inside(pid, []space{networkSpace}, func() error {
		if err := ipCommands(switchCommands); err != nil {
			return err
		}
		return writeThreadSysctls(switchSysctls)
	})
}

// writeThreadSysctls writes through a child process: /proc/self would be the
// main thread, whose network is the host's.
func writeThreadSysctls(values map[string]string) error {
	for name, value := range values {
		out, err := exec.Command("sh", "-c", `printf %s "$1" > "/proc/sys/$2"`, "sh", value, name).CombinedOutput()
		if err != nil {
			return fmt.Errorf("set %s in the switch: %w: %s", name, err, out)
		}
	}
	return nil
}

// plugIn links a node to the switch. A port of a node that lost its power may
// still be there.
func plugIn(switchPID, nodePID, node int) error {
	return inside(switchPID, []space{networkSpace}, func() error {
		port := layout.NodePort(node)
		_ = ipCommand("link del " + port) // there is none, but after a power cut
		return ipCommands([]string{
			fmt.Sprintf("link add %s type veth peer name eth0 netns %d", port, nodePID),
			fmt.Sprintf("link set %s master br0 up", port),
		})
	})
}
