package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/routerfleet/routerfleet/test/e2e/live"
	"github.com/routerfleet/routerfleet/test/loadgen"
)

const (
	loadName = "demo-load"
	modelID  = "demo-model"
	barWidth = 30
)

// replayTrace sends the trace from a Job in the cluster and reports what came of it.
func (d *demo) replayTrace(ctx context.Context) (string, error) {
	before, err := d.routed(ctx)
	if err != nil {
		return "", err
	}
	load := live.Load{Namespace: namespace, Name: loadName, Image: "routerfleet.io/loadgen:dev", Args: []string{
		fmt.Sprintf("--target=http://%s:%d", fleetName, live.RouterPort),
		"--direct=http://engine:8000",
		"--model=" + modelID,
		"--mode=trace",
		"--requests=" + strconv.Itoa(d.options.Requests),
		"--speed=" + strconv.FormatFloat(d.options.Speed, 'g', -1, 64),
		"--connections=" + strconv.Itoa(d.options.Connections),
		"--max-output=" + strconv.Itoa(d.options.MaxOutput),
	}}
	if err := d.cluster.Start(ctx, load); err != nil {
		return "", err
	}
	start := time.Now()
	result, err := d.follow(ctx, start)
	if ctx.Err() != nil {
		// Nobody waits for the rest of the trace: take the Job along.
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return "", errors.Join(ctx.Err(), d.cluster.DeleteLoad(cleanup, namespace, loadName))
	}
	if err != nil {
		return "", err
	}
	after, err := d.routed(ctx)
	if err != nil {
		return "", err
	}
	d.report(result, after.since(before))
	if result.Failed > 0 {
		return "", fmt.Errorf("%d of %d requests failed, see above", result.Failed, result.Requests)
	}
	return fmt.Sprintf("%d requests of a real conversation trace, %d failed", result.Requests, result.Failed), nil
}

// follow shows the progress of the load until its result.
func (d *demo) follow(ctx context.Context, start time.Time) (*loadgen.Result, error) {
	var result *loadgen.Result
	d.screen.update("      load: the Job is starting")
	err := d.cluster.Follow(ctx, namespace, loadName, func(line []byte) error {
		event, err := live.ParseLoad(line)
		if err != nil {
			return err
		}
		if p := event.Progress; p != nil {
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
