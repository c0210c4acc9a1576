package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/render"
)

// A component that ends is started again, after a pause that doubles up to the
// longest, and is short again after a run that lasted.
const (
	shortestPause = time.Second
	longestPause  = 10 * time.Second
	lastingRun    = 30 * time.Second
)

// keeper keeps the programs of a node running, as an init system would.
type keeper struct {
	app  *app
	node int
}

// keep starts a component and starts it again whenever it ends, until the
// context does.
func (k *keeper) keep(ctx context.Context, c render.Component) {
	go func() {
		pause := shortestPause
		for ctx.Err() == nil {
			start := time.Now()
			err := k.run(ctx, c)
			if time.Since(start) > lastingRun {
				pause = shortestPause
			}
			fmt.Printf("%s %s ended (%v), again in %s\n", time.Now().Format(time.TimeOnly), c.Name, err, pause)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, longestPause)
		}
	}()
}

// run runs a component once, with its output added to its log.
func (k *keeper) run(ctx context.Context, c render.Component) error {
	log, err := os.OpenFile(k.app.Log(k.node, c.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // only the component writes to it
	cmd := exec.CommandContext(ctx, c.Name, c.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	return cmd.Run()
}
