//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/test/e2e/live"
)

// installTimeout covers pulling the manager on a cluster that has to, and its first election.
const installTimeout = 2 * time.Minute

// environment is what all tests share: the cluster, clients and the names of images.
type environment struct {
	*live.Cluster
	client client.Client
	images images
	keep   bool
}

type images struct{ router, routerNext, engine, loadgen string }

// env is set by TestMain, before any test runs, and not written again.
var env *environment

// parallelTests is how many tests run at once unless -parallel says otherwise: they mostly wait, so there
// may be more of them than cores, but not so many that a promise in seconds is judged in a queue.
const parallelTests = "3"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", parallelTests); err != nil {
			panic(err)
		}
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	var err error
	if env, err = connect(ctx); err == nil {
		err = env.install(ctx)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "prepare the end-to-end tests: %v\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func connect(ctx context.Context) (*environment, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	kubeconfig := cmp.Or(os.Getenv("E2E_KUBECONFIG"), filepath.Join(root, ".cluster", "kubeconfig"))
	cluster, err := live.Connect(ctx, root, kubeconfig)
	if err != nil {
		return nil, err
	}
	objects, err := cluster.Objects()
	if err != nil {
		return nil, err
	}
	return &environment{
		Cluster: cluster,
		client:  objects,
		images: images{
			router:     cmp.Or(os.Getenv("E2E_ROUTER_IMAGE"), "routerfleet.io/router:dev"),
			routerNext: cmp.Or(os.Getenv("E2E_ROUTER_IMAGE_NEXT"), "routerfleet.io/router:next"),
			engine:     cmp.Or(os.Getenv("E2E_ENGINE_IMAGE"), "routerfleet.io/enginesim:dev"),
			loadgen:    cmp.Or(os.Getenv("E2E_LOADGEN_IMAGE"), "routerfleet.io/loadgen:dev"),
		},
		keep: os.Getenv("E2E_KEEP") != "",
	}, nil
}

// install applies config/default and waits for the manager.
func (e *environment) install(ctx context.Context) error {
	if os.Getenv("E2E_INSTALL") == "never" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	if err := e.InstallOperator(ctx); err != nil {
		return fmt.Errorf("install the operator: %w", err)
	}
	deployment := "deployment/" + live.OperatorDeployment
	if image := os.Getenv("E2E_MANAGER_IMAGE"); image != "" {
		if _, err := e.Kubectl(ctx, "-n", live.OperatorNamespace, "set", "image", deployment, "manager="+image); err != nil {
			return fmt.Errorf("set the operator's image: %w", err)
		}
	}
	if _, err := e.Kubectl(ctx, "-n", live.OperatorNamespace, "rollout", "status", deployment, "--timeout=110s"); err != nil {
		return fmt.Errorf("wait for the operator: %w", err)
	}
	return nil
}
