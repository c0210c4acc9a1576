// Package api is the little of an API server client that starting a cluster
// takes, so that this program needs no client-go.
package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
)

const (
	// requestTimeout bounds one request; a caller that waits tries again.
	requestTimeout = 5 * time.Second
	// maxBody bounds an answer; a list of nine nodes takes some 100 KB.
	maxBody = 4 << 20
	// maxErrorText bounds how much of a refusal an error repeats.
	maxErrorText = 300
)

// Client reads from one API server as one user.
type Client struct {
	server string
	http   *http.Client
}

// New returns a client for a server that uses the certificate of the given name
// ("admin", "kubelet-node1").
func New(c layout.Cluster, server, cert string) (*Client, error) {
	pair, err := tls.LoadX509KeyPair(c.PKI(cert+".crt"), c.PKI(cert+".key"))
	if err != nil {
		return nil, fmt.Errorf("load the client certificate %s: %w", cert, err)
	}
	ca, err := os.ReadFile(c.PKI("ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", c.PKI("ca.crt"))
	}
	return &Client{server: server, http: &http.Client{
		Timeout:   requestTimeout,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}},
	}}, nil
}

// Get reads a path and decodes the JSON into the value, unless that is nil.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+path, nil)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	switch {
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("read %s: %s: %.*s", path, res.Status, maxErrorText, body)
	case len(body) > maxBody:
		return fmt.Errorf("read %s: the answer is larger than %d bytes", path, maxBody)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	return nil
}

// Node is what is of interest of a Node.
type Node struct {
	Name  string
	Ready bool
	Why   string // message of the Ready condition while it is not true
}

type nodeList struct {
	Items []struct {
		Metadata struct{ Name string }
		Status   struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
}

// Nodes lists the nodes in order of their names.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	var list nodeList
	if err := c.Get(ctx, "/api/v1/nodes", &list); err != nil {
		return nil, err
	}
	return list.nodes(), nil
}

// nodes judges readiness; a node that reports nothing is not ready.
func (l nodeList) nodes() []Node {
	nodes := make([]Node, 0, len(l.Items))
	for _, item := range l.Items {
		n := Node{Name: item.Metadata.Name, Why: "it has not reported yet"}
		for _, condition := range item.Status.Conditions {
			if condition.Type == "Ready" {
				n.Ready, n.Why = condition.Status == "True", condition.Message
			}
		}
		if n.Ready {
			n.Why = ""
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// Pod is where a pod runs.
type Pod struct {
	Spec struct {
		NodeName string
	}
	Status struct {
		PodIP string
	}
}

// Pod reads a pod.
func (c *Client) Pod(ctx context.Context, namespace, name string) (Pod, error) {
	var p Pod
	err := c.Get(ctx, "/api/v1/namespaces/"+namespace+"/pods/"+name, &p)
	return p, err
}

// AvailableReplicas reads how many replicas of a Deployment are available.
func (c *Client) AvailableReplicas(ctx context.Context, namespace, name string) (int, error) {
	var d struct {
		Status struct{ AvailableReplicas int }
	}
	err := c.Get(ctx, "/apis/apps/v1/namespaces/"+namespace+"/deployments/"+name, &d)
	return d.Status.AvailableReplicas, err
}
