package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/test/e2e/live"
	"github.com/routerfleet/routerfleet/test/loadgen"
)

const (
	namespace = "default"
	fleetName = "demo"
	// waitTimeout is what a Deployment or the fleet gets to become ready on two busy cores.
	waitTimeout = 3 * time.Minute
	// lookPeriod is how often a waiting step looks again.
	lookPeriod = 300 * time.Millisecond
)

// demo is one run of `demo up`.
type demo struct {
	root    string
	screen  *screen
	options upOptions

	// cluster and objects are set by the step that makes the cluster and used by all after it.
	cluster *live.Cluster
	objects client.Client
	// ceiling is the best hit ratio that the trace's requests allow; baseline, replayed, table and probed are what the
	// last steps measured.
	ceiling  float64
	baseline *loadgen.Result
	replayed *loadgen.Result
	table    table
	probed   *loadgen.ProbeResult
}

// step is a part of the demo. run returns what came of it, in half a line.
type step struct {
	name string
	run  func(context.Context) (string, error)
}

func (d *demo) up(ctx context.Context) error {
	steps := []step{
		{"programs", d.buildPrograms},
		{"cluster", d.startCluster},
		{"images", d.loadImages},
		{"operator", d.installOperator},
		{"engines", d.startEngines},
		{"fleet", d.createFleet},
		{"baseline", d.replayBaseline},
		{"load", d.replayTrace},
		{"probe", d.probe},
	}
	begin := time.Now()
	for i, step := range steps {
		d.screen.update("[%d/%d] %s ...", i+1, len(steps), step.name)
		start := time.Now()
		result, err := step.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		d.screen.line("[%d/%d] %-9s %s (%s)", i+1, len(steps), step.name, result, seconds(time.Since(start)))
	}
	d.report()
	if err := d.showObjects(ctx); err != nil {
		return err
	}
	d.screen.line("\n%s\n\nThe whole demo took %s.", d.howToGoOn(), seconds(time.Since(begin)))
	return nil
}

func seconds(took time.Duration) string { return fmt.Sprintf("%.1f s", took.Seconds()) }

func (d *demo) kubeconfig() string { return filepath.Join(d.root, ".cluster", "kubeconfig") }

// connect opens the clients of all later steps.
func (d *demo) connect(ctx context.Context) error {
	cluster, err := live.Connect(ctx, d.root, d.kubeconfig())
	if err != nil {
		return err
	}
	objects, err := cluster.Objects()
	if err != nil {
		return err
	}
	d.cluster, d.objects = cluster, objects
	return nil
}

// wait looks until done, showing what look says meanwhile.
func (d *demo) wait(ctx context.Context, what string, look func(context.Context) (done bool, status string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	for {
		done, status, err := look(ctx)
		if done {
			return nil
		}
		if err != nil {
			status = err.Error()
		}
		d.screen.update("      %s: %s", what, status)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not ready after %s: %s\n  look for the cause with: KUBECONFIG=.cluster/kubeconfig bin/kube/kubectl get events -A --sort-by=.lastTimestamp",
				what, waitTimeout, status)
		case <-tick.C:
		}
	}
}
