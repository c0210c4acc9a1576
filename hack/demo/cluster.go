package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/routerfleet/routerfleet/test/e2e/live"
)

// imageNames are the programs that run in the cluster.
var imageNames = []string{"manager", "router", "enginesim", "loadgen"}

// buildPrograms compiles the cluster command and everything Kubernetes. The first time this is most of
// the demo; later it finds that nothing changed.
func (d *demo) buildPrograms(ctx context.Context) (string, error) {
	if os.Geteuid() != 0 {
		return "", errors.New("the local cluster needs root for namespaces and cgroups: run `sudo make demo`")
	}
	if err := d.run(ctx, "cluster command", "go", "build", "-o", "bin/cluster", "./hack/cluster"); err != nil {
		return "", err
	}
	built := filepath.Join(d.root, "bin", "kube", "kubectl")
	_, missing := os.Stat(built)
	if missing != nil {
		d.screen.line("      Kubernetes is compiled from source now: some ten minutes on two cores, once.")
	}
	if err := d.run(ctx, "kubernetes", "bin/cluster", "build"); err != nil {
		return "", err
	}
	if missing != nil {
		return "Kubernetes and etcd are compiled", nil
	}
	return "Kubernetes and etcd are up to date", nil
}

// startCluster reuses a cluster that answers and makes one otherwise.
func (d *demo) startCluster(ctx context.Context) (string, error) {
	how := "was running already"
	if d.answers(ctx) != nil {
		if err := d.run(ctx, "cluster", "bin/cluster", "up", "--nodes", fmt.Sprint(d.options.Nodes)); err != nil {
			return "", err
		}
		how = "is up"
	}
	if err := d.connect(ctx); err != nil {
		return "", err
	}
	version, err := d.cluster.Client.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask the cluster for its version: %w", err)
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Kubernetes %s with %d nodes %s", version.GitVersion, nodes, how), nil
}

// answers is nil if the cluster of an earlier run is there.
func (d *demo) answers(ctx context.Context) error {
	if _, err := os.Stat(d.kubeconfig()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, err := live.Connect(ctx, d.root, d.kubeconfig())
	return err
}

// loadImages builds the four images and puts them on every node.
func (d *demo) loadImages(ctx context.Context) (string, error) {
	build := append([]string{"go", "run", "./hack/image", "--out", "bin/images", "--tag", "dev"}, imageNames...)
	if err := d.run(ctx, "build", build...); err != nil {
		return "", err
	}
	// A second tag of the router, for the reader who wants to roll the fleet.
	if err := d.run(ctx, "build", "go", "run", "./hack/image", "--out", "bin/images/next", "--tag", "next", "router"); err != nil {
		return "", err
	}
	load := []string{"bin/cluster", "load"}
	size := int64(0)
	for _, tar := range d.imageTars() {
		info, err := os.Stat(filepath.Join(d.root, tar))
		if err != nil {
			return "", fmt.Errorf("find an image that was just built: %w", err)
		}
		size += info.Size()
		load = append(load, tar)
	}
	if err := d.run(ctx, "load", load...); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d images without Docker or a registry, %d MB, on every node", len(load)-2, size>>20), nil
}

func (d *demo) imageTars() []string {
	tars := make([]string, 0, len(imageNames)+1)
	for _, name := range imageNames {
		tars = append(tars, filepath.Join("bin", "images", name+".tar"))
	}
	return append(tars, filepath.Join("bin", "images", "next", "router.tar"))
}

// down removes the cluster and all it holds.
func down(ctx context.Context, root string, screen *screen) error {
	d := &demo{root: root, screen: screen}
	start := time.Now()
	if err := d.run(ctx, "cluster command", "go", "build", "-o", "bin/cluster", "./hack/cluster"); err != nil {
		return err
	}
	if err := d.run(ctx, "cluster", "bin/cluster", "down"); err != nil {
		return err
	}
	screen.line("The cluster and everything in it is gone (%s). bin/ keeps what was compiled, for the next time.", seconds(time.Since(start)))
	return nil
}
