package render

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
)

var cluster = layout.Cluster{Root: "/repo", State: "/repo/.cluster"}

func components() []Component {
	return []Component{
		EtcdComponent(cluster), APIServerComponent(cluster), ControllerManagerComponent(cluster), SchedulerComponent(cluster),
		ContainerdComponent(cluster, 2), KubeletComponent(cluster, 2), KubeProxyComponent(cluster, 2), NetpolComponent(cluster, 2),
	}
}

func TestEveryNamedComponentIsRendered(t *testing.T) {
	want := append(append([]string{}, ControlPlaneNames...), NodeNames...)
	var got []string
	for _, c := range components() {
		got = append(got, c.Name)
		if len(c.Args) == 0 {
			t.Errorf("%s has no arguments", c.Name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNoComponentNamesAFlagTwice(t *testing.T) {
	for _, c := range components() {
		seen := map[string]bool{}
		for _, arg := range c.Args {
			name, _, _ := strings.Cut(arg, "=")
			if seen[name] {
				t.Errorf("%s has %s twice", c.Name, name)
			}
			seen[name] = true
		}
	}
}

// Each of these was missing once, and its absence cost a failing cluster.
func TestFlagsThatTheClusterFailsWithout(t *testing.T) {
	for _, tc := range []struct {
		component Component
		want      []string
	}{
		{APIServerComponent(cluster), []string{"--advertise-address=10.89.0.11", "--kubelet-preferred-address-types=InternalIP", "--authorization-mode=Node,RBAC"}},
		{ControllerManagerComponent(cluster), []string{"--kube-api-qps=200", "--root-ca-file=/repo/.cluster/pki/ca.crt"}},
		{KubeletComponent(cluster, 2), []string{"--hostname-override=node2", "--node-ip=10.89.0.12"}},
	} {
		for _, flag := range tc.want {
			if !slices.Contains(tc.component.Args, flag) {
				t.Errorf("%s lacks %s: %v", tc.component.Name, flag, tc.component.Args)
			}
		}
	}
	kubelet := KubeletConfig(cluster, 2)
	for _, line := range []string{"failCgroupV1: false", "cgroupDriver: cgroupfs", `cgroupRoot: "` + cluster.NodeCgroup(2) + `"`, "failSwapOn: false"} {
		if !strings.Contains(kubelet, line+"\n") {
			t.Errorf("the kubelet configuration lacks %q:\n%s", line, kubelet)
		}
	}
	if toml := ContainerdConfig(cluster, 2, "/usr/lib/cni", "overlayfs"); !strings.Contains(toml, "restrict_oom_score_adj = true") {
		t.Errorf("containerd would raise OOM scores it may not raise:\n%s", toml)
	}
}

func TestNodesShareNoPath(t *testing.T) {
	for name, config := range map[string]func(i int) string{
		"containerd": func(i int) string { return ContainerdConfig(cluster, i, "/usr/lib/cni", "overlayfs") },
		"cni":        CNIConfig,
		"kubelet":    func(i int) string { return KubeletConfig(cluster, i) },
		"hosts":      Hosts,
	} {
		if config(1) == config(2) {
			t.Errorf("%s is the same on two nodes", name)
		}
	}
}

func TestTheCNIConfigIsJSONWithTheNodesRange(t *testing.T) {
	var network struct {
		Plugins []struct {
			Type string
			IPAM struct {
				Ranges [][]struct{ Subnet string }
			}
		}
	}
	if err := json.Unmarshal([]byte(CNIConfig(3)), &network); err != nil {
		t.Fatal(err)
	}
	if got := network.Plugins[0].IPAM.Ranges[0][0].Subnet; got != layout.NodePodCIDR(3) {
		t.Errorf("range %s, want %s", got, layout.NodePodCIDR(3))
	}
}

func TestManifestsAreFilledIn(t *testing.T) {
	b, err := Manifests()
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{"clusterIP: " + layout.DNSIP + "\n", "image: " + layout.DNSImage + "\n", `name: "routerfleet:netpol"`, "kind: Deployment"} {
		if !strings.Contains(text, want) {
			t.Errorf("the manifests lack %q", want)
		}
	}
	if strings.Contains(text, "{{") || strings.Contains(text, "<no value>") {
		t.Errorf("something is not filled in:\n%s", text)
	}
}

func TestComponentsAnswerToShortNames(t *testing.T) {
	for short, want := range map[string]string{"apiserver": APIServer, "etcd": Etcd, "proxy": KubeProxy, "kubelet": Kubelet} {
		if got, err := ResolveName(short); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", short, got, err, want)
		}
	}
	if _, err := ResolveName("nothing"); err == nil || !strings.Contains(err.Error(), "kubelet") {
		t.Errorf("the error names no component: %v", err)
	}
}
