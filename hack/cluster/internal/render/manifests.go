package render

import (
	"bytes"
	"embed"
	"fmt"
	"text/template"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/pki"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// Manifests renders what `up` applies: rights of the API server's kubelet client
// and of the policy agents, and the cluster's DNS.
func Manifests() ([]byte, error) {
	all, err := template.New("").Option("missingkey=error").ParseFS(manifests, "manifests/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("parse the cluster's manifests: %w", err)
	}
	values := map[string]string{
		"KubeletClientGroup": pki.KubeletClientGroup,
		"NetpolUser":         pki.NetpolUser,
		"DNSImage":           layout.DNSImage,
		"DNSIP":              layout.DNSIP,
		"DNSDomain":          layout.DNSDomain,
		"DNSNode":            layout.NodeName(1),
	}
	var out bytes.Buffer
	for _, name := range []string{"rbac.yaml", "coredns.yaml"} {
		if err := all.ExecuteTemplate(&out, name, values); err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
		out.WriteString("---\n")
	}
	return out.Bytes(), nil
}
