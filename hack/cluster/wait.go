package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/api"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/render"
)

const (
	// stepWait bounds each step of a start. The slowest takes 5 s on two idle
	// cores; this is for cores that compile at the same time.
	stepWait = 3 * time.Minute
	stepPoll = 100 * time.Millisecond

	unixNewNet = syscall.CLONE_NEWNET
)

// wait asks until the answer is no error, a process it depends on has ended, or
// the time is up. The last answer is in the error.
func (s *startup) wait(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, stepWait)
	defer cancel()
	for {
		last := ask(ctx)
		if last == nil {
			return nil
		}
		if err := s.alive(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return fmt.Errorf("not within %s: %w", stepWait, last)
			}
			return context.Cause(ctx)
		case <-time.After(stepPoll):
		}
	}
}

// admin is a client with every right, through the proxy.
func (s *startup) admin() (*api.Client, error) {
	return api.New(s.Cluster, s.hostServer(), "admin")
}

func (s *startup) waitForAPI(ctx context.Context) error {
	client, err := s.admin()
	if err != nil {
		return err
	}
	return s.wait(ctx, func(ctx context.Context) error { return client.Get(ctx, "/readyz", nil) })
}

// applyManifests tries again: the namespaces are made by the API server a moment
// after it calls itself ready.
func (s *startup) applyManifests(ctx context.Context) error {
	manifests, err := render.Manifests()
	if err != nil {
		return err
	}
	return s.wait(ctx, func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, s.Kube("kubectl"), "--kubeconfig", s.Kubeconfig(), "apply", "--server-side", "-f", "-")
		cmd.Stdin = bytes.NewReader(manifests)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl apply: %w: %s", err, out)
		}
		return nil
	})
}

func (s *startup) waitForNodes(ctx context.Context) error {
	client, err := s.admin()
	if err != nil {
		return err
	}
	return s.wait(ctx, func(ctx context.Context) error {
		nodes, err := client.Nodes(ctx)
		if err != nil {
			return err
		}
		if len(nodes) < s.nodes {
			return fmt.Errorf("%d of %d nodes have registered", len(nodes), s.nodes)
		}
		for _, n := range nodes {
			if !n.Ready {
				return fmt.Errorf("%s is not ready: %s", n.Name, n.Why)
			}
		}
		return nil
	})
}

func (s *startup) waitForServiceAccount(ctx context.Context) error {
	client, err := s.admin()
	if err != nil {
		return err
	}
	return s.wait(ctx, func(ctx context.Context) error {
		return client.Get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
	})
}

// waitForDNS asks the DNS Service on every node: that takes CoreDNS, the pod
// network and the service proxy of each.
func (s *startup) waitForDNS(ctx context.Context) error {
	for i := 1; i <= s.nodes; i++ {
		pid, err := s.nodePID(i)
		if err != nil {
			return err
		}
		if err := s.wait(ctx, func(ctx context.Context) error { return resolveInside(ctx, pid) }); err != nil {
			return fmt.Errorf("on %s: %w", layout.NodeName(i), err)
		}
	}
	return nil
}

// resolveInside looks the API server's Service up from inside a node.
func resolveInside(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialInside(ctx, pid, network, net.JoinHostPort(layout.DNSIP, "53"))
	}}
	addresses, err := resolver.LookupHost(ctx, "kubernetes.default.svc."+layout.DNSDomain+".")
	if err != nil {
		return err
	}
	if len(addresses) != 1 || addresses[0] != layout.ServiceIP {
		return fmt.Errorf("DNS says %v, want %s", addresses, layout.ServiceIP)
	}
	return nil
}

const (
	// tailLines of a log are shown when its component fails.
	tailLines = 15
	// tailBytes bounds how much of a log's end is read for them.
	tailBytes = 64 << 10
)

// tailFile returns the last lines of a file.
func tailFile(path string, lines int) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	buf := make([]byte, min(info.Size(), tailBytes))
	if _, err := f.ReadAt(buf, info.Size()-int64(len(buf))); err != nil {
		return "", err
	}
	return lastLines(buf, lines), nil
}

func lastLines(b []byte, n int) string {
	end := len(b)
	if end > 0 && b[end-1] == '\n' {
		end--
	}
	for i := end - 1; i >= 0; i-- {
		if b[i] == '\n' {
			if n--; n == 0 {
				return string(b[i+1:])
			}
		}
	}
	return string(b)
}
