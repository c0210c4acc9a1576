package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func writeCluster(t *testing.T, n int) layout.Cluster {
	t.Helper()
	c := layout.Cluster{Root: "/repo", State: t.TempDir()}
	if err := Write(c, n, "https://127.0.0.1:45678", now); err != nil {
		t.Fatal(err)
	}
	return c
}

func loadCert(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(b)
	if block == nil {
		t.Fatalf("%s holds no PEM", path)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func verify(cert, ca *x509.Certificate, host string) error {
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}

func TestTheAPIServerIsTrustedUnderEveryNameClientsUse(t *testing.T) {
	c := writeCluster(t, 3)
	ca, cert := loadCert(t, c.PKI("ca.crt")), loadCert(t, c.PKI("apiserver.crt"))
	for _, host := range []string{"127.0.0.1", layout.ServiceIP, layout.NodeIP(1), layout.NodeIP(3), "kubernetes.default.svc"} {
		if err := verify(cert, ca, host); err != nil {
			t.Errorf("as %s: %v", host, err)
		}
	}
	if err := verify(cert, ca, "example.com"); err == nil {
		t.Error("the certificate is also good for example.com")
	}
}

func TestEachKubeletIsTheNodeTheAuthorizerExpects(t *testing.T) {
	c := writeCluster(t, 2)
	for i := 1; i <= 2; i++ {
		name := layout.NodeName(i)
		cert := loadCert(t, c.PKI("kubelet-"+name+".crt"))
		if got, want := cert.Subject.CommonName, "system:node:"+name; got != want {
			t.Errorf("common name %q, want %q", got, want)
		}
		if len(cert.Subject.Organization) != 1 || cert.Subject.Organization[0] != "system:nodes" {
			t.Errorf("organisations of %s are %v, want system:nodes alone", name, cert.Subject.Organization)
		}
		if err := verify(cert, loadCert(t, c.PKI("ca.crt")), layout.NodeIP(i)); err != nil {
			t.Error(err)
		}
	}
}

func TestOnlyTheAdministratorIsInTheMastersGroup(t *testing.T) {
	c := writeCluster(t, 2)
	certs, err := filepath.Glob(c.PKI("*.crt"))
	if err != nil || len(certs) == 0 {
		t.Fatal(certs, err)
	}
	for _, path := range certs {
		cert := loadCert(t, path)
		masters := strings.Contains(strings.Join(cert.Subject.Organization, ","), "system:masters")
		if admin := filepath.Base(path) == "admin.crt"; masters != admin {
			t.Errorf("%s in system:masters: %v, want %v", path, masters, admin)
		}
	}
}

func TestTheFrontProxyHasAnAuthorityOfItsOwn(t *testing.T) {
	c := writeCluster(t, 1)
	client := loadCert(t, c.PKI("front-proxy-client.crt"))
	if err := verify(client, loadCert(t, c.PKI("ca.crt")), ""); err == nil {
		t.Error("the cluster authority vouches for the front proxy: any client could name any user")
	}
	if err := verify(client, loadCert(t, c.PKI("front-proxy-ca.crt")), ""); err != nil {
		t.Error(err)
	}
}

func TestKeysMatchTheirCertificatesAndAreNotReadableByOthers(t *testing.T) {
	c := writeCluster(t, 1)
	for _, name := range []string{"admin", "apiserver", "kubelet-node1", "kube-proxy", "netpol"} {
		if _, err := tls.LoadX509KeyPair(c.PKI(name+".crt"), c.PKI(name+".key")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, path := range []string{c.PKI("admin.key"), c.PKI("sa.key"), c.PKI("admin.kubeconfig"), c.Kubeconfig()} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", path, info.Mode())
		}
	}
}

func TestTheHostsKubeconfigNamesTheProxyAndTheNodesNameTheServer(t *testing.T) {
	c := writeCluster(t, 1)
	for path, server := range map[string]string{c.Kubeconfig(): "https://127.0.0.1:45678", c.PKI("kubelet-node1.kubeconfig"): layout.APIServer()} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), `"`+server+`"`) {
			t.Errorf("%s does not name %s:\n%s", path, server, b)
		}
	}
}
