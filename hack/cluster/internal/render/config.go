package render

import (
	"fmt"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
)

// ContainerdSocket is where containerd listens inside a node.
const ContainerdSocket = "/run/containerd/containerd.sock"

// ResolvConf is the resolver configuration that the kubelet hands to pods which
// ask for the node's.
const ResolvConf = "/run/resolv.conf"

// ContainerdConfig renders containerd's configuration. restrict_oom_score_adj keeps
// sandboxes startable where root lacks CAP_SYS_RESOURCE; without it each fails
// with "can't get final child's PID from pipe: EOF".
func ContainerdConfig(c layout.Cluster, i int, cniBin, snapshotter string) string {
	return fmt.Sprintf(`version = 2
root = %q
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt"]
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = %q
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
`, c.NodePath(i, "containerd"), ContainerdSocket, layout.PauseImage, cniBin, c.NodePath(i, "cni.d"), snapshotter)
}

// CNIConfig renders the bridge network of a node's pods. Its range is fixed, so
// that the nodes' routes to each other are too.
func CNIConfig(i int) string {
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {
      "type": "bridge", "bridge": "cni0", "isGateway": true, "isDefaultGateway": true, "hairpinMode": true,
      "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "dataDir": "/var/lib/cni/networks"}
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, layout.NodePodCIDR(i))
}

// KubeletConfig renders the kubelet's configuration. The status and lease
// periods fit the 8 s after which the controller manager gives a node up.
// Eviction by disk is off: the disk is the host's, and not ours to judge.
func KubeletConfig(c layout.Cluster, i int) string {
	cert := "kubelet-" + layout.NodeName(i)
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %q}}
authorization: {mode: Webhook}
tlsCertFile: %q
tlsPrivateKeyFile: %q
cgroupDriver: cgroupfs
cgroupRoot: %q
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: %q
volumePluginDir: /var/lib/kubelet/volumeplugins
clusterDNS: [%q]
clusterDomain: %q
resolvConf: %q
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%"}
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: 4
`, c.PKI("ca.crt"), c.PKI(cert+".crt"), c.PKI(cert+".key"), c.NodeCgroup(i),
		"unix://"+ContainerdSocket, layout.DNSIP, layout.DNSDomain, ResolvConf)
}

// KubeProxyConfig renders the service proxy's configuration. Rules follow a
// Service within 100 ms; conntrack limits stay as they are, for they are
// read-only outside the host's network namespace.
func KubeProxyConfig(c layout.Cluster, i int) string {
	return fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: %q
hostnameOverride: %q
clientConnection: {kubeconfig: %q}
iptables: {minSyncPeriod: 100ms}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`, layout.PodCIDR, layout.NodeName(i), c.PKI("kube-proxy.kubeconfig"))
}

// Hosts renders a node's /etc/hosts.
func Hosts(i int) string {
	return fmt.Sprintf("127.0.0.1 localhost\n::1 localhost\n%s %s\n", layout.NodeIP(i), layout.NodeName(i))
}
