package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/alecthomas/kong"
)

// commands are the command line.
type commands struct {
	Up   upOptions   `cmd:"" default:"withargs" help:"Bring up a cluster, a fleet and its engines, send it a trace and show what happened."`
	Down downOptions `cmd:"" help:"Remove the cluster and everything in it."`
}

// upOptions say how big the demo is.
type upOptions struct {
	Nodes       int     `default:"2" help:"Nodes of the cluster, if it is not running yet: 1 to 3."`
	Requests    int     `default:"600" help:"Requests of the trace to send, once by each policy."`
	Speed       float64 `default:"3.5" help:"How many times faster than it was recorded the trace is sent."`
	Connections int     `default:"16" help:"Connections of the load generator."`
	MaxOutput   int     `default:"16" help:"Longest answer, in tokens; the trace's are longer."`
}

// Validate is called by kong.
func (o *upOptions) Validate() error {
	switch {
	case o.Nodes < 1 || o.Nodes > 3:
		return fmt.Errorf("--nodes is %d: take 1 to 3", o.Nodes)
	case o.Requests < 1 || o.Connections < 1 || o.MaxOutput < 1:
		return errors.New("--requests, --connections and --max-output start at 1")
	case o.Speed <= 0:
		return fmt.Errorf("--speed is %v: take a number above 0", o.Speed)
	}
	return nil
}

// downOptions is empty: down removes everything.
type downOptions struct{}

func main() {
	var cli commands
	command := kong.Parse(&cli, kong.Name("demo"), kong.Description("A RouterFleet under load on a local cluster."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := findRoot()
	command.FatalIfErrorf(err)
	screen := newScreen(os.Stdout)
	if command.Command() == "down" {
		err = down(ctx, root, screen)
	} else {
		err = (&demo{root: root, screen: screen, options: cli.Up}).up(ctx)
	}
	screen.clear()
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "\nStopped. `make demo` goes on from here, `make demo-down` removes the cluster.")
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

// findRoot is the folder of the repository, from anywhere inside it.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "config", "samples", "routerfleet.yaml")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find config/samples/routerfleet.yaml: not here nor above; run the demo inside the repository")
		}
		dir = parent
	}
}
