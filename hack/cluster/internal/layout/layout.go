// Package layout names everything a local cluster consists of: its files, its
// addresses, its cgroup and the mark its processes carry.
//
// All of it follows from two paths, the repository and the state folder, so that
// any later run of the program finds what an earlier one left, and two clusters
// with different state folders never touch each other.
package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Environment variables of the cluster's own processes. Every process the
// cluster starts inherits StateVar, which is how leftovers are found when the
// process that started them is long dead.
const (
	StateVar = "ROUTERFLEET_CLUSTER_STATE" // absolute path of the state folder
	RoleVar  = "ROUTERFLEET_CLUSTER_ROLE"  // one of the roles below
	NodeVar  = "ROUTERFLEET_CLUSTER_NODE"  // name of the node the process runs on
)

// Roles of the processes that run this program itself.
const (
	RoleSwitch = "switch" // holds the network namespace with the bridge
	RoleInit   = "init"   // process 1 of a node
	RoleNode   = "node"   // sets up a node and keeps its programs running
	RoleProxy  = "proxy"  // carries the host's loopback port to the API server
	RoleExec   = "exec"   // a command a user runs inside a node
)

// Addresses exist only inside the cluster's network namespaces, so they collide
// with nothing on the host and not with a second cluster.
const (
	SwitchIP    = "10.89.0.1"
	NodeBits    = 24
	PodCIDR     = "10.244.0.0/16"
	ServiceCIDR = "10.96.0.0/16"
	ServiceIP   = "10.96.0.1" // of the Service "kubernetes", the first of ServiceCIDR
	DNSIP       = "10.96.0.10"
	DNSDomain   = "cluster.local"
	APIPort     = 6443
)

// Images the cluster itself runs. The registry does not exist; they are loaded
// into every node before its kubelet starts.
const (
	PauseImage = "routerfleet.io/pause:dev"
	DNSImage   = "routerfleet.io/coredns:dev"
)

// MaxNodes bounds the addresses, and three nodes already fill two cores.
const MaxNodes = 9

// moduleLine is the first line of the go.mod of the repository's root.
const moduleLine = "module github.com/routerfleet/routerfleet\n"

// Cluster is the layout of one cluster. The zero value is not useful; use New.
type Cluster struct {
	Root  string // absolute path of the repository
	State string // absolute path of the state folder, which need not exist
}

// New returns the layout for a state folder. The path is made absolute and its
// parent's symbolic links are resolved, so that one folder has one name.
func New(root, state string) (Cluster, error) {
	abs, err := filepath.Abs(state)
	if err != nil {
		return Cluster{}, fmt.Errorf("find the state folder %q: %w", state, err)
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return Cluster{}, fmt.Errorf("find the folder that holds the state %q: %w", state, err)
	}
	abs = filepath.Join(parent, filepath.Base(abs))
	if err := checkState(abs, root); err != nil {
		return Cluster{}, err
	}
	return Cluster{Root: root, State: abs}, nil
}

// checkState refuses a folder whose removal would take more than a cluster with
// it, and one that a node would hide behind its own /run.
func checkState(abs, root string) error {
	switch {
	case strings.HasPrefix(root+"/", abs+"/"):
		return fmt.Errorf("state folder %s holds the repository; it is removed by down, name a folder of its own", abs)
	case strings.HasPrefix(abs+"/", "/run/"):
		return fmt.Errorf("state folder %s is below /run, which every node replaces by its own; name another", abs)
	case strings.ContainsAny(abs, ",:\n\""):
		return fmt.Errorf("state folder %q has a comma, colon, quote or line break in its name, which mount options cannot carry; name another", abs)
	}
	return nil
}

// FindRoot returns the repository that holds dir.
func FindRoot(dir string) (string, error) {
	for d := dir; ; d = filepath.Dir(d) {
		if b, err := os.ReadFile(filepath.Join(d, "go.mod")); err == nil && strings.HasPrefix(string(b), moduleLine) {
			return filepath.EvalSymlinks(d)
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no RouterFleet checkout at or above %s: run this inside one", dir)
		}
	}
}

// ID is eight hex digits that stand for the state folder.
func (c Cluster) ID() string {
	sum := sha256.Sum256([]byte(c.State))
	return hex.EncodeToString(sum[:4])
}

// Cgroup is the path of the cluster's cgroup below the root of each hierarchy.
func (c Cluster) Cgroup() string { return "/routerfleet-" + c.ID() }

// NodeCgroup is the cgroup below which the kubelet of a node puts its pods.
func (c Cluster) NodeCgroup(i int) string { return c.Cgroup() + "/" + NodeName(i) }

// Mark is the environment entry that every process of the cluster carries.
func (c Cluster) Mark() string { return StateVar + "=" + c.State }

// Path joins the elements to the state folder.
func (c Cluster) Path(elem ...string) string {
	return filepath.Join(append([]string{c.State}, elem...)...)
}

// NodePath joins the elements to a node's folder.
func (c Cluster) NodePath(i int, elem ...string) string {
	return c.Path(append([]string{NodeName(i)}, elem...)...)
}

// PKI is the path of a certificate, key or kubeconfig.
func (c Cluster) PKI(file string) string { return c.Path("pki", file) }

// Kubeconfig is for the host: it names the proxy's loopback port.
func (c Cluster) Kubeconfig() string { return c.Path("kubeconfig") }

// Log is the log file of a program on a node; node 0 is the host.
func (c Cluster) Log(i int, program string) string {
	if i == 0 {
		return c.Path("log", program+".log")
	}
	return c.Path("log", NodeName(i)+"-"+program+".log")
}

// Bin is the folder of everything that is built.
func (c Cluster) Bin() string { return filepath.Join(c.Root, "bin") }

// Kube is the path of a Kubernetes program.
func (c Cluster) Kube(program string) string { return filepath.Join(c.Bin(), "kube", program) }

// NodeName is the name of a node; the first is 1 and has the control plane.
func NodeName(i int) string { return fmt.Sprintf("node%d", i) }

// NodeIP is a node's address on the switch.
func NodeIP(i int) string { return fmt.Sprintf("10.89.0.%d", 10+i) }

// NodePodCIDR is the address range of a node's pods.
func NodePodCIDR(i int) string { return fmt.Sprintf("10.244.%d.0/24", i) }

// NodePort is the name of a node's link on the switch's side.
func NodePort(i int) string { return fmt.Sprintf("port%d", i) }

// APIServer is the API server's address inside the cluster.
func APIServer() string { return fmt.Sprintf("https://%s:%d", NodeIP(1), APIPort) }
