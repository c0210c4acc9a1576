package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
)

func verbs() []verb {
	return []verb{
		{name: "build", help: "build the Kubernetes programs into bin/kube (envtest: KUBEBUILDER_ASSETS=$PWD/bin/kube)", setup: plain(0, 0, (*app).build)},
		{name: "up", args: "[--nodes N]", help: "start a cluster, after removing what is left of an earlier one", setup: upVerb},
		{name: "load", args: "FILE...", help: "load image tars into every node", setup: plain(1, -1, (*app).load)},
		{name: "kubeconfig", help: "print the line that points kubectl to the cluster", setup: plain(0, 0, (*app).kubeconfig)},
		{name: "status", help: "show nodes, processes and folders", setup: plain(0, 0, (*app).status)},
		{name: "exec", args: "[--node N] CMD...", help: "run a command inside a node's network, where pods and Services have their addresses", setup: execVerb},
		{name: "logs", args: "[COMPONENT] [--node N] [-f]", help: "print a component's log; without a component, list the logs", setup: logsVerb},
		{name: "kill", args: "N", help: "cut the power of node N", setup: nodeVerb((*app).killNode)},
		{name: "start", args: "N|proxy", help: "power node N on again, or start the host's proxy again", setup: plain(1, 1, (*app).start)},
		{name: "pause", args: "COMPONENT [--node N]", help: "freeze a component (SIGSTOP): apiserver, etcd, scheduler, kubelet, ...", setup: componentVerb((*app).pause)},
		{name: "resume", args: "COMPONENT [--node N]", help: "let a frozen component go on", setup: componentVerb((*app).resume)},
		{name: "link", args: "N up|down", help: "plug or unplug the network of node N", setup: plain(2, 2, (*app).link)},
		{name: "cut", args: "[NAMESPACE/]POD PORT", help: "drop every TCP packet between other pods or nodes and a pod's port", setup: plain(2, 2, (*app).cut)},
		{name: "heal", args: "[[NAMESPACE/]POD PORT]", help: "undo one cut, or all", setup: plain(0, 2, (*app).heal)},
		{name: "down", help: "remove the cluster and everything it left, however it ended", setup: plain(0, 0, (*app).downVerb)},
		{name: "role", hidden: true, setup: plain(1, 3, (*app).role)},
	}
}

func findVerb(name string) (verb, bool) {
	for _, v := range verbs() {
		if v.name == name {
			return v, true
		}
	}
	return verb{}, false
}

func usage(w io.Writer) {
	fmt.Fprint(w, "cluster: a real Kubernetes cluster on this machine\n\nusage: cluster [--state DIR] VERB [flags]\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range verbs() {
		if !v.hidden {
			fmt.Fprintf(table, "  %s %s\t%s\n", v.name, v.args, v.help)
		}
	}
	_ = table.Flush() // writes to the terminal; there is nobody else to tell
}

func verbUsage(fs *flag.FlagSet, v verb) {
	fmt.Fprintf(fs.Output(), "usage: cluster %s %s\n%s\n", v.name, v.args, v.help)
	fs.PrintDefaults()
}

// plain is a verb without flags that takes least to most arguments; most < 0
// means any number.
func plain(least, most int, do func(a *app, ctx context.Context, args []string) error) func(*flag.FlagSet) action {
	return func(*flag.FlagSet) action {
		return func(ctx context.Context, a *app, args []string) error {
			if len(args) < least || most >= 0 && len(args) > most {
				return errUsage
			}
			return do(a, ctx, args)
		}
	}
}

func upVerb(fs *flag.FlagSet) action {
	nodes := fs.Int("nodes", 1, fmt.Sprintf("how many nodes, 1 to %d", layout.MaxNodes))
	return func(ctx context.Context, a *app, args []string) error {
		if len(args) > 0 {
			return errUsage
		}
		if *nodes < 1 || *nodes > layout.MaxNodes {
			return fmt.Errorf("--nodes %d: it must be 1 to %d", *nodes, layout.MaxNodes)
		}
		return a.up(ctx, *nodes)
	}
}

func execVerb(fs *flag.FlagSet) action {
	node := fs.Int("node", 1, "node to run on")
	return func(ctx context.Context, a *app, args []string) error {
		if len(args) == 0 {
			return errUsage
		}
		return a.exec(ctx, *node, args)
	}
}

func logsVerb(fs *flag.FlagSet) action {
	node := fs.Int("node", 1, "node the component runs on")
	follow := fs.Bool("f", false, "go on printing as the log grows")
	return func(ctx context.Context, a *app, args []string) error {
		switch len(args) {
		case 0:
			return a.listLogs()
		case 1:
			return a.logs(ctx, args[0], *node, *follow)
		}
		return errUsage
	}
}

func nodeVerb(do func(a *app, ctx context.Context, node int) error) func(*flag.FlagSet) action {
	return plain(1, 1, func(a *app, ctx context.Context, args []string) error {
		node, err := a.parseNode(args[0])
		if err != nil {
			return err
		}
		return do(a, ctx, node)
	})
}

func componentVerb(do func(a *app, name string, node int) error) func(*flag.FlagSet) action {
	return func(fs *flag.FlagSet) action {
		node := fs.Int("node", 1, "node the component runs on")
		return func(_ context.Context, a *app, args []string) error {
			if len(args) != 1 {
				return errUsage
			}
			return do(a, args[0], *node)
		}
	}
}

// parseNode reads the number of a node of the running cluster.
func (a *app) parseNode(s string) (int, error) {
	r, err := a.readRecord()
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > r.Nodes {
		return 0, fmt.Errorf("there is no node %q: the cluster has nodes 1 to %d", s, r.Nodes)
	}
	return n, nil
}
