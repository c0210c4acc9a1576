package pki

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
)

// KubeletClientGroup is the group of the API server's client certificate for
// kubelets. It is bound to system:kubelet-api-admin, or logs and exec are
// refused.
const KubeletClientGroup = "routerfleet:kubelet-api-admin"

// NetpolUser is the user of the network policy agents.
const NetpolUser = "routerfleet:netpol"

// authorities are the two roots: one for the cluster, one for requests that the
// API server passes on to extension servers.
type authorities struct{ cluster, frontProxy *Pair }

// leaf is a certificate to write, and the server its kubeconfig names; empty
// means no kubeconfig.
type leaf struct {
	file    string
	subject Subject
	by      *Pair
	server  string
}

// Write makes all certificates, keys and kubeconfigs of a cluster of n nodes.
// The host reaches the API server at hostServer, the nodes at its own address.
func Write(c layout.Cluster, n int, hostServer string, now time.Time) error {
	if err := os.MkdirAll(c.Path("pki"), 0o755); err != nil {
		return err
	}
	ca, err := NewAuthority("routerfleet-cluster", now)
	if err != nil {
		return err
	}
	front, err := NewAuthority("routerfleet-front-proxy", now)
	if err != nil {
		return err
	}
	if err := writePairs(c, map[string]*Pair{"ca": ca, "front-proxy-ca": front}); err != nil {
		return err
	}
	if err := writeServiceAccountKeys(c); err != nil {
		return err
	}
	for _, l := range leaves(authorities{ca, front}, n) {
		if err := l.write(c, ca, now); err != nil {
			return err
		}
	}
	return writeHostKubeconfig(c, ca, hostServer)
}

// leaves lists who gets a certificate. Each kubelet has the name that the Node
// authorizer expects.
func leaves(by authorities, n int) []leaf {
	inside := layout.APIServer()
	all := []leaf{
		{"front-proxy-client", Subject{CommonName: "front-proxy-client"}, by.frontProxy, ""},
		{"apiserver", Subject{CommonName: "kube-apiserver", Hosts: serverHosts(n)}, by.cluster, ""},
		{"apiserver-kubelet-client", Subject{CommonName: "kube-apiserver-kubelet-client", Organizations: []string{KubeletClientGroup}}, by.cluster, ""},
		{"admin", Subject{CommonName: "routerfleet-admin", Organizations: []string{"system:masters"}}, by.cluster, inside},
		{"kube-controller-manager", Subject{CommonName: "system:kube-controller-manager"}, by.cluster, inside},
		{"kube-scheduler", Subject{CommonName: "system:kube-scheduler"}, by.cluster, inside},
		{"kube-proxy", Subject{CommonName: "system:kube-proxy"}, by.cluster, inside},
		{"netpol", Subject{CommonName: NetpolUser}, by.cluster, inside},
	}
	for i := 1; i <= n; i++ {
		name := layout.NodeName(i)
		all = append(all, leaf{"kubelet-" + name, Subject{
			CommonName:    "system:node:" + name,
			Organizations: []string{"system:nodes"},
			Hosts:         []string{name, layout.NodeIP(i), "127.0.0.1"},
		}, by.cluster, inside})
	}
	return all
}

// serverHosts are the names and addresses clients use for the API server: the
// Service inside pods, the node's address, and loopback through the proxy.
func serverHosts(n int) []string {
	hosts := []string{"127.0.0.1", "localhost", layout.ServiceIP, "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "kubernetes.default.svc." + layout.DNSDomain}
	for i := 1; i <= n; i++ {
		hosts = append(hosts, layout.NodeIP(i))
	}
	return hosts
}

func (l leaf) write(c layout.Cluster, ca *Pair, now time.Time) error {
	p, err := l.by.Issue(l.subject, now)
	if err != nil {
		return err
	}
	if err := writePairs(c, map[string]*Pair{l.file: p}); err != nil || l.server == "" {
		return err
	}
	return os.WriteFile(c.PKI(l.file+".kubeconfig"), Kubeconfig(l.server, ca.CertPEM, p.CertPEM, p.KeyPEM), 0o600)
}

func writePairs(c layout.Cluster, pairs map[string]*Pair) error {
	for name, p := range pairs {
		if err := os.WriteFile(c.PKI(name+".crt"), p.CertPEM, 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(c.PKI(name+".key"), p.KeyPEM, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func writeServiceAccountKeys(c layout.Cluster) error {
	p, err := newKey()
	if err != nil {
		return fmt.Errorf("make the service account key: %w", err)
	}
	public, err := p.publicKeyPEM()
	if err != nil {
		return fmt.Errorf("encode the service account key: %w", err)
	}
	if err := os.WriteFile(c.PKI("sa.pub"), public, 0o644); err != nil {
		return err
	}
	return os.WriteFile(c.PKI("sa.key"), p.KeyPEM, 0o600)
}

// writeHostKubeconfig writes the administrator's kubeconfig that names the
// proxy. It is renamed into place: whoever waits for the file reads all of it.
func writeHostKubeconfig(c layout.Cluster, ca *Pair, server string) error {
	cert, err := os.ReadFile(c.PKI("admin.crt"))
	if err != nil {
		return err
	}
	key, err := os.ReadFile(c.PKI("admin.key"))
	if err != nil {
		return err
	}
	draft := filepath.Join(c.State, ".kubeconfig.new")
	if err := os.WriteFile(draft, Kubeconfig(server, ca.CertPEM, cert, key), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, c.Kubeconfig())
}

// Kubeconfig renders a kubeconfig with one cluster, one user and one context.
func Kubeconfig(server string, ca, cert, key []byte) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: routerfleet
clusters:
- name: routerfleet
  cluster: {server: %q, certificate-authority-data: %s}
users:
- name: user
  user: {client-certificate-data: %s, client-key-data: %s}
contexts:
- name: routerfleet
  context: {cluster: routerfleet, user: user}
`, server, b64(ca), b64(cert), b64(key))
}
