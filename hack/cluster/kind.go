package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/host"
)

// useKind tells whether up makes a kind cluster: when CLUSTER=kind asks for it,
// and where a user without root has Docker and kind. Fault verbs (kill, link,
// cut, ...) work on our own nodes alone.
func useKind(ctx context.Context, root bool) (bool, error) {
	asked := os.Getenv("CLUSTER") == "kind"
	if root && !asked {
		return false, nil
	}
	err := kindWorks(ctx)
	if err != nil && asked {
		return false, fmt.Errorf("CLUSTER=kind: %w", err)
	}
	return err == nil, nil
}

func kindWorks(ctx context.Context) error {
	if !host.Exists("kind") {
		return errors.New("kind is not installed: https://kind.sigs.k8s.io")
	}
	if out, err := exec.CommandContext(ctx, "docker", "info").CombinedOutput(); err != nil {
		return fmt.Errorf("docker info: %w (is the Docker service running, and may this user use it?)\n%s", err, out)
	}
	return nil
}

func (a *app) kindName() string { return strings.TrimPrefix(a.Cgroup(), "/") }

func (a *app) kind(ctx context.Context, stdin string, args ...string) error {
	cmd := exec.CommandContext(ctx, "kind", append(args, "--name", a.kindName())...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = a.out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kind %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// kindConfig asks for one control plane node, which also runs pods, and workers.
func kindConfig(nodes int) string {
	config := "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n"
	return config + strings.Repeat("- role: worker\n", nodes-1)
}

func (a *app) kindUp(ctx context.Context, nodes int) error {
	if err := a.kindDown(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(a.State, 0o755); err != nil {
		return err
	}
	if err := a.writeRecord(record{Nodes: nodes, Kind: true}); err != nil {
		return err
	}
	if err := a.kind(ctx, kindConfig(nodes), "create", "cluster", "--config", "-", "--kubeconfig", a.Kubeconfig(), "--wait", "120s"); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "export KUBECONFIG=%s\n", a.Kubeconfig())
	return nil
}

func (a *app) kindLoad(ctx context.Context, tars []string) error {
	for _, tar := range tars {
		if err := a.kind(ctx, "", "load", "image-archive", tar); err != nil {
			return err
		}
	}
	return nil
}

// kindDown succeeds when there is no such cluster.
func (a *app) kindDown(ctx context.Context) error {
	if err := a.kind(ctx, "", "delete", "cluster"); err != nil {
		return err
	}
	return os.RemoveAll(a.State)
}
