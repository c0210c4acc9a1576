package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"github.com/spf13/pflag"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// runNetpol is kube-router's network policy controller alone, without its
// routing, firewall and service proxy. The bridge network enforces no
// NetworkPolicy by itself; one such agent on each node does, with iptables and
// ipset. Killed, it leaves its rules in force.
func runNetpol() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := netpolAgent(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "netpol:", err)
		return 1
	}
	return 0
}

func netpolAgent(ctx context.Context, args []string) error {
	config, err := netpolConfig(args)
	if err != nil {
		return err
	}
	controller, start, err := newNetpolController(ctx, config)
	if err != nil {
		return err
	}
	beats := make(chan *healthcheck.ControllerHeartbeat, 10)
	go func() { // the health server that would read them is not part of this agent
		for range beats {
		}
	}()
	var wg sync.WaitGroup
	wg.Add(1) // Run calls Done
	go controller.Run(beats, ctx.Done(), &wg)
	start()
	<-ctx.Done()
	wg.Wait()
	return nil
}

// netpolConfig parses the flags of kube-router. They go into a set of their own:
// the other programs of the binary have already put some of the same names into
// pflag.CommandLine.
func netpolConfig(args []string) (*options.KubeRouterConfig, error) {
	config := options.NewKubeRouterConfig()
	flags := pflag.NewFlagSet("netpol", pflag.ContinueOnError)
	config.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, fmt.Errorf("parse flags: %w", err)
	}
	return config, nil
}

// newNetpolController builds the controller over synced caches; start subscribes
// it to them. The controller reads its own Node when built, so it fails until
// the kubelet has registered it, and whoever runs the agent starts it again.
func newNetpolController(ctx context.Context, config *options.KubeRouterConfig) (*netpol.NetworkPolicyController, func(), error) {
	rest, err := clientcmd.BuildConfigFromFlags(config.Master, config.Kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("load kubeconfig %q: %w", config.Kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, nil, fmt.Errorf("build a client from %q: %w", config.Kubeconfig, err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, namespaces.HasSynced, policies.HasSynced) {
		return nil, nil, fmt.Errorf("stopped before the first list of pods, namespaces and policies was complete")
	}
	tables, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return nil, nil, fmt.Errorf("open iptables and ipset (are both installed?): %w", err)
	}
	var ipsetMutex sync.Mutex // shared by kube-router's controllers; there is only one here
	controller, err := netpol.NewNetworkPolicyController(client, config, pods, policies, namespaces, &ipsetMutex, tables, sets)
	if err != nil {
		return nil, nil, fmt.Errorf("build the policy controller of node %q: %w", config.HostnameOverride, err)
	}
	start := func() {
		subscribe(pods, controller.PodEventHandler)
		subscribe(namespaces, controller.NamespaceEventHandler)
		subscribe(policies, controller.NetworkPolicyEventHandler)
	}
	return controller, start, nil
}

// subscribe fails only on an informer that was stopped, and then the agent ends.
func subscribe(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) {
	if _, err := informer.AddEventHandler(handler); err != nil {
		fmt.Fprintln(os.Stderr, "netpol: subscribe:", err)
	}
}
