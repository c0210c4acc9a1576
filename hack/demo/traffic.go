package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/test/e2e/live"
	"github.com/routerfleet/routerfleet/test/loadgen"
)

const (
	loadName = "demo-load"
	modelID  = "demo-model"
	barWidth = 30
	// probePairs is enough for a p99 that is not the maximum.
	probePairs = 300
	// cleanupTimeout is what an interrupted run gives itself to remove its Job.
	cleanupTimeout = 15 * time.Second
)

// load is a run of the load generator against a fleet, from a Job in the cluster.
func (d *demo) load(fleet string, args ...string) live.Load {
	return live.Load{Namespace: namespace, Name: loadName, Image: "routerfleet.io/loadgen:dev", Args: append([]string{
		fmt.Sprintf("--target=http://%s:%d", fleet, live.RouterPort), "--model=" + modelID,
	}, args...)}
}

// replayTrace sends the trace through the fleet and counts which router sent how much of it to which engine.
func (d *demo) replayTrace(ctx context.Context) (string, error) {
	before, err := d.routed(ctx)
	if err != nil {
		return "", err
	}
	if d.replayed, err = d.replay(ctx, fleetName); err != nil {
		return "", err
	}
	after, err := d.routed(ctx)
	if err != nil {
		return "", err
	}
	d.table = after.since(before)
	return fmt.Sprintf("the same %d requests by %s, none failed", d.replayed.Requests, v1alpha1.PolicyCacheAware), nil
}

// replay sends the trace through a fleet, to engines whose caches are empty. A failed request is an error.
func (d *demo) replay(ctx context.Context, fleet string) (*loadgen.Result, error) {
	if err := d.clearCaches(ctx); err != nil {
		return nil, err
	}
	result, err := d.send(ctx, d.load(fleet,
		"--mode=trace",
		"--requests="+strconv.Itoa(d.options.Requests),
		"--speed="+strconv.FormatFloat(d.options.Speed, 'g', -1, 64),
		"--connections="+strconv.Itoa(d.options.Connections),
		"--max-output="+strconv.Itoa(d.options.MaxOutput)))
	if err != nil {
		return nil, err
	}
	if result.Failed > 0 {
		return nil, fmt.Errorf("%d of %d requests failed:\n  %s", result.Failed, result.Requests, strings.Join(live.Summary(result), "\n  "))
	}
	return result, nil
}

// clearCaches empties every engine's cache by its control API. An engine refuses while a request runs: one that an
// interrupted run left behind ends by itself.
func (d *demo) clearCaches(ctx context.Context) error {
	return d.wait(ctx, "empty engine caches", func(ctx context.Context) (bool, string, error) {
		pods, err := d.cluster.Pods(ctx, namespace, engineSelector)
		if err != nil {
			return false, "", err
		}
		for _, pod := range pods {
			if _, err := d.cluster.PodRequest(ctx, "POST", namespace, pod.Name, enginePort, "/control/faults", []byte(`{"name":"clear_cache"}`)); err != nil {
				return false, "", err
			}
		}
		return true, "", nil
	})
}

// probe measures what the routers add to a request: pairs of the same one, through the fleet and straight
// to an engine, while nothing else waits anywhere.
func (d *demo) probe(ctx context.Context) (string, error) {
	result, err := d.send(ctx, d.load(fleetName, "--mode=steady", "--requests=1", "--connections=1",
		fmt.Sprintf("--direct=http://%s:%d", engineDeployment, enginePort), "--probe-pairs="+strconv.Itoa(probePairs)))
	if err != nil {
		return "", err
	}
	if result.Probe == nil || result.Probe.Added == nil {
		return "", fmt.Errorf("no pair of requests was served: %s", strings.Join(live.Summary(result), "; "))
	}
	d.probed = result.Probe
	return fmt.Sprintf("%d pairs of requests, through the fleet and straight to an engine", result.Probe.Pairs), nil
}

// send runs a load to its end. A Job that told its result is removed; one that did not keeps its log.
func (d *demo) send(ctx context.Context, load live.Load) (*loadgen.Result, error) {
	if err := d.cluster.Start(ctx, load); err != nil {
		return nil, err
	}
	result, err := d.follow(ctx, time.Now())
	if ctx.Err() != nil {
		// Nobody waits for the rest: take the Job along.
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		return nil, errors.Join(ctx.Err(), d.cluster.DeleteLoad(cleanup, namespace, loadName))
	}
	if err != nil {
		return nil, err
	}
	return result, d.cluster.DeleteLoad(ctx, namespace, loadName)
}

// follow shows the progress of the load until its result.
func (d *demo) follow(ctx context.Context, start time.Time) (*loadgen.Result, error) {
	var result *loadgen.Result
	d.screen.update("      the Job is starting")
	err := d.cluster.Follow(ctx, namespace, loadName, func(line []byte) error {
		event, err := live.ParseLoad(line)
		if err != nil {
			return err
		}
		if p := event.Progress; p != nil && p.Total > 1 {
			d.screen.update("      [%s] %d/%d requests, %d failed, %.0f/s, %s",
				bar(p.Done, p.Total, barWidth), p.Done, p.Total, p.Failed, p.RPS, time.Since(start).Round(time.Second))
		}
		if event.Result != nil {
			result = event.Result
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if result == nil {
		return nil, fmt.Errorf("%w; read its log with: kubectl logs job/%s", live.ErrNoResult, loadName)
	}
	return result, nil
}
