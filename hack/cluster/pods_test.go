//go:build cluster

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/archive"
)

const denyAll = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: probe}
spec: {podSelector: {}, policyTypes: [Ingress]}
`

func writeProbeImage(source, path string) error {
	return archive.Image{Ref: "routerfleet.io/probe:dev", Program: "/probe", Source: source}.Write(path)
}

// TestPodsOnTwoNodes runs its parts in order on one cluster.
func TestPodsOnTwoNodes(t *testing.T) {
	r := newRig(t)
	r.run("up", "--nodes", "2")
	r.run("load", probeTar)
	manifest, err := filepath.Abs("testdata/pods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r.mustKubectl("apply", "-f", manifest)
	r.mustKubectl("-n", "probe", "rollout", "status", "daemonset/probe", "--timeout=120s")
	for _, part := range []struct {
		promise string
		check   func(*rig)
	}{
		{"a pod resolves and reaches Services", checkServices},
		{"logs, exec and port-forward work from the host", checkHostAccess},
		{"a policy denies and lets go", checkPolicy},
		{"a cut port is silent until it heals", checkCut},
		{"a paused API server is silent until it resumes", checkPause},
		{"an unplugged node is lost and comes back", checkLink},
		{"a node loses its power and comes back", checkPower},
		{"a lost proxy comes back on its port", checkProxy},
	} {
		if !t.Run(part.promise, func(t *testing.T) { part.check(&rig{r.app, t}) }) {
			t.FailNow()
		}
	}
}

// podOn is the probe's pod on a node and its address.
func (r *rig) podOn(node string) (name, ip string) {
	r.t.Helper()
	out := r.mustKubectl("-n", "probe", "get", "pods", "--field-selector", "spec.nodeName="+node,
		"-o", "jsonpath={.items[0].metadata.name} {.items[0].status.podIP}")
	name, ip, _ = strings.Cut(out, " ")
	return name, ip
}

// fetch gets a URL from the pod on node1.
func (r *rig) fetch(url string) error {
	pod, _ := r.podOn("node1")
	_, err := r.kubectl("-n", "probe", "exec", pod, "--", "/probe", "get", url)
	return err
}

func checkServices(r *rig) {
	pod, _ := r.podOn("node1")
	out := r.mustKubectl("-n", "probe", "exec", pod, "--", "/probe", "lookup", "probe")
	ip := r.mustKubectl("-n", "probe", "get", "service", "probe", "-o", "jsonpath={.spec.clusterIP}")
	if out != "["+ip+"]" {
		r.t.Errorf("the pod resolves the Service to %s, want %s", out, ip)
	}
	_, remote := r.podOn("node2")
	for _, url := range []string{"http://probe.probe.svc.cluster.local", "http://" + remote + ":8080"} {
		if err := r.fetch(url); err != nil {
			r.t.Errorf("%s: %v", url, err)
		}
	}
	if out := r.run("exec", "--node", "2", "--", program, "--state", r.State, "exec", "--node", "2", "ip", "-o", "-4", "addr", "show", "eth0"); !strings.Contains(out, "10.89.0.12/24") {
		r.t.Errorf("a command inside node 2 sees %q", out)
	}
}

func checkHostAccess(r *rig) {
	pod, _ := r.podOn("node2")
	if out := r.mustKubectl("-n", "probe", "logs", pod); out != "serving as "+pod {
		r.t.Errorf("the log says %q", out)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cmd := exec.CommandContext(ctx, r.Kube("kubectl"), "--kubeconfig", r.Kubeconfig(), "-n", "probe", "port-forward", pod, ":8080")
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }() // it is killed
	var port int
	if _, err := fmt.Fscanf(out, "Forwarding from 127.0.0.1:%d", &port); err != nil {
		r.t.Fatal(err)
	}
	res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d", port))
	if err != nil {
		r.t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil || strings.TrimSpace(string(body)) != pod {
		r.t.Errorf("the forwarded port answers %q (%v)", body, err)
	}
}

func checkPolicy(r *rig) {
	_, remote := r.podOn("node2")
	url := "http://" + remote + ":8080"
	path := filepath.Join(r.t.TempDir(), "deny.yaml")
	if err := os.WriteFile(path, []byte(denyAll), 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.mustKubectl("apply", "-f", path)
	r.eventually("the policy denies", mustFail(func() error { return r.fetch(url) }))
	r.mustKubectl("delete", "-f", path)
	r.eventually("without the policy", func() error { return r.fetch(url) })
}

func mustFail(do func() error) func() error {
	return func() error {
		if do() == nil {
			return errors.New("it succeeded")
		}
		return nil
	}
}

func checkCut(r *rig) {
	pod, remote := r.podOn("node2")
	url := "http://" + remote + ":8080"
	r.run("cut", "probe/"+pod, "8080")
	if err := r.fetch(url); err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
		r.t.Errorf("through the cut: %v, want silence", err)
	}
	ready := r.mustKubectl("-n", "probe", "get", "pod", pod, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
	if ready != "True" {
		r.t.Errorf("the cut pod is ready=%s: its kubelet's probes must pass", ready)
	}
	r.run("heal", "probe/"+pod, "8080")
	if err := r.fetch(url); err != nil {
		r.t.Errorf("after healing: %v", err)
	}
	r.run("cut", "probe/"+pod, "8080")
	r.run("heal")
	if err := r.fetch(url); err != nil {
		r.t.Errorf("after healing all: %v", err)
	}
}

func checkPause(r *rig) {
	r.run("pause", "apiserver")
	if _, err := r.kubectl("get", "--raw", "/readyz", "--request-timeout=1s"); err == nil {
		r.t.Error("the paused API server answers")
	}
	r.run("resume", "apiserver")
	r.eventually("the API server answers", func() error {
		_, err := r.kubectl("get", "--raw", "/readyz", "--request-timeout=5s")
		return err
	})
}

func (r *rig) waitNode(node, ready string) {
	r.t.Helper()
	r.mustKubectl("wait", "--for=condition=Ready="+ready, "node/"+node, "--timeout=120s")
}

func checkLink(r *rig) {
	r.run("link", "2", "down")
	r.waitNode("node2", "Unknown")
	r.run("link", "2", "up")
	r.waitNode("node2", "True")
}

func checkPower(r *rig) {
	r.run("kill", "2")
	r.waitNode("node2", "Unknown")
	if out, err := r.command(context.Background(), "exec", "--node", "2", "true").CombinedOutput(); err == nil || !strings.Contains(string(out), "cluster start 2") {
		r.t.Errorf("exec on the dead node: %v, %s", err, out)
	}
	r.run("start", "2")
	r.waitNode("node2", "True")
	r.eventually("the pod on node2 serves again", func() error {
		_, ip := r.podOn("node2")
		return r.fetch("http://" + ip + ":8080")
	})
}

func checkProxy(r *rig) {
	r.killRoles([]string{"proxy"})
	r.eventually("the port is closed", mustFail(func() error { _, err := r.kubectl("get", "--raw", "/readyz"); return err }))
	r.run("start", "proxy")
	r.eventually("the proxy answers", func() error { _, err := r.kubectl("get", "--raw", "/readyz"); return err })
}
