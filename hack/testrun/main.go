package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, out io.Writer) int {
	flags := flag.NewFlagSet("testrun", flag.ContinueOnError)
	flags.SetOutput(out)
	list := flags.Bool("list", false, "print the stages and end")
	var o options
	flags.DurationVar(&o.fuzzTime, "fuzztime", 0, "fuzz every target for this long (default: an equal share of "+fuzzBudget.String()+")")
	flags.IntVar(&o.nodes, "nodes", 2, "nodes of the cluster for end-to-end tests")
	flags.IntVar(&o.rounds, "rounds", 1, "how often the end-to-end tests run, each round in another order")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	root, err := repositoryRoot()
	if err != nil {
		fmt.Fprintln(out, "testrun:", err)
		return 2
	}
	all := stages(root, o)
	if *list {
		printStages(out, all)
		return 0
	}
	chosen, err := choose(all, flags.Args())
	if err != nil {
		fmt.Fprintln(out, "testrun:", err)
		return 2
	}
	env, err := newEnvironment(root)
	if err != nil {
		fmt.Fprintln(out, "testrun:", err)
		return 2
	}
	results := execute(ctx, chosen, env, newProgress(out, time.Now))
	return report(out, env, results)
}

// repositoryRoot is the nearest folder upwards that holds this project's go.mod
// and hack/testrun, so that the command works from anywhere inside.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for here := dir; ; here = filepath.Dir(here) {
		if _, err := os.Stat(filepath.Join(here, "hack", "testrun", "doc.go")); err == nil {
			return here, nil
		}
		if filepath.Dir(here) == here {
			return "", fmt.Errorf("find the repository: no hack/testrun above %s; run inside a clone", dir)
		}
	}
}
