// Package render turns the layout of a cluster into the command lines,
// configuration files and manifests of its components. It reads nothing and
// writes nothing.
package render

import (
	"fmt"
	"strings"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
)

// Component is a program that a node keeps running.
type Component struct {
	Name string // of its log, and for `pause`
	Args []string
}

// Names of the components, in the order in which a node starts them.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Containerd        = "containerd"
	Kubelet           = "kubelet"
	KubeProxy         = "kube-proxy"
	Netpol            = "netpol"
)

// ControlPlaneNames are the components of the first node alone.
var ControlPlaneNames = []string{Etcd, APIServer, ControllerManager, Scheduler}

// NodeNames are the components of every node.
var NodeNames = []string{Containerd, Kubelet, KubeProxy, Netpol}

// EtcdComponent is etcd without fsync: its data ends with the cluster.
func EtcdComponent(c layout.Cluster) Component {
	const client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return Component{Etcd, []string{
		"--name=" + layout.NodeName(1),
		"--data-dir=" + c.NodePath(1, "etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + layout.NodeName(1) + "=" + peer,
		"--unsafe-no-fsync",
		"--log-level=warn",
	}}
}

// APIServerComponent is the API server. It names its address itself, since it
// finds none to guess from, and kubelets by address, since node names do not
// resolve. Pods leave a dead node after 3 s: tests wait for that.
func APIServerComponent(c layout.Cluster) Component {
	return Component{APIServer, []string{
		"--etcd-servers=http://127.0.0.1:2379",
		"--advertise-address=" + layout.NodeIP(1),
		fmt.Sprintf("--secure-port=%d", layout.APIPort),
		"--service-cluster-ip-range=" + layout.ServiceCIDR,
		"--client-ca-file=" + c.PKI("ca.crt"),
		"--tls-cert-file=" + c.PKI("apiserver.crt"),
		"--tls-private-key-file=" + c.PKI("apiserver.key"),
		"--kubelet-certificate-authority=" + c.PKI("ca.crt"),
		"--kubelet-client-certificate=" + c.PKI("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + c.PKI("apiserver-kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc." + layout.DNSDomain,
		"--service-account-key-file=" + c.PKI("sa.pub"),
		"--service-account-signing-key-file=" + c.PKI("sa.key"),
		"--requestheader-client-ca-file=" + c.PKI("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + c.PKI("front-proxy-client.crt"),
		"--proxy-client-key-file=" + c.PKI("front-proxy-client.key"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--default-not-ready-toleration-seconds=3",
		"--default-unreachable-toleration-seconds=3",
	}}
}

// ControllerManagerComponent is the controller manager. With its default of 20
// requests a second the ServiceAccount "default" is 5 s late. A node that is
// silent for 8 s is NotReady.
func ControllerManagerComponent(c layout.Cluster) Component {
	return Component{ControllerManager, append(controllerArgs(c, ControllerManager),
		"--use-service-account-credentials",
		"--service-account-private-key-file="+c.PKI("sa.key"),
		"--root-ca-file="+c.PKI("ca.crt"),
		"--cluster-signing-cert-file="+c.PKI("ca.crt"),
		"--cluster-signing-key-file="+c.PKI("ca.key"),
		"--allocate-node-cidrs=false", // the bridge configuration of each node fixes them
		"--node-monitor-period=1s",
		"--node-monitor-grace-period=8s",
	)}
}

// SchedulerComponent is the scheduler.
func SchedulerComponent(c layout.Cluster) Component {
	return Component{Scheduler, controllerArgs(c, Scheduler)}
}

func controllerArgs(c layout.Cluster, name string) []string {
	kubeconfig := c.PKI(name + ".kubeconfig")
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
		"--kube-api-qps=200",
		"--kube-api-burst=400",
	}
}

// ContainerdComponent is Debian's containerd with a configuration of its own.
func ContainerdComponent(c layout.Cluster, i int) Component {
	return Component{Containerd, []string{"--config", c.NodePath(i, "containerd.toml")}}
}

// KubeletComponent is the kubelet of a node.
func KubeletComponent(c layout.Cluster, i int) Component {
	return Component{Kubelet, []string{
		"--config=" + c.NodePath(i, "kubelet.yaml"),
		"--kubeconfig=" + c.PKI("kubelet-"+layout.NodeName(i)+".kubeconfig"),
		"--hostname-override=" + layout.NodeName(i),
		"--node-ip=" + layout.NodeIP(i),
	}}
}

// KubeProxyComponent is the service proxy of a node.
func KubeProxyComponent(c layout.Cluster, i int) Component {
	return Component{KubeProxy, []string{"--config=" + c.NodePath(i, "kube-proxy.yaml")}}
}

// NetpolComponent is the network policy agent of a node.
func NetpolComponent(c layout.Cluster, i int) Component {
	return Component{Netpol, []string{
		"--kubeconfig=" + c.PKI("netpol.kubeconfig"),
		"--hostname-override=" + layout.NodeName(i),
		"--service-cluster-ip-range=" + layout.ServiceCIDR,
	}}
}

// ResolveName completes a short component name: "apiserver" and "proxy" are
// what people type.
func ResolveName(name string) (string, error) {
	all := append(append([]string{}, ControlPlaneNames...), NodeNames...)
	for _, full := range all {
		if name == full || "kube-"+name == full {
			return full, nil
		}
	}
	return "", fmt.Errorf("no component is called %q: there are %s", name, strings.Join(all, ", "))
}
