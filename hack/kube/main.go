package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJobs name time zones, and the host may have no database

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubeconfigs with auth providers
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of every program
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// exitUsage is the exit code for a name that is no program.
const exitUsage = 2

// programs maps the name a program is called by to what runs it. Each returns
// the exit code; commands are built only when chosen, since building one
// registers its flags and metrics.
var programs = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          cobraProgram(apiserver.NewAPIServerCommand),
	"kube-controller-manager": cobraProgram(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          runScheduler,
	"kubelet":                 runKubelet,
	"kube-proxy":              cobraProgram(proxy.NewProxyCommand),
	"kubectl":                 runKubectl,
	"netpol":                  runNetpol,
}

func main() {
	run, ok := programs[programName()]
	if !ok {
		names := slices.Sorted(maps.Keys(programs))
		fmt.Fprintf(os.Stderr, "hyper: %q is no program of this binary; call it as, or with the first argument: %s\n",
			filepath.Base(os.Args[0]), strings.Join(names, " "))
		os.Exit(exitUsage)
	}
	os.Exit(run())
}

// programName is the name the binary was called by. Called as hyper, it takes
// the first argument for the name and drops it from os.Args, so that the program
// sees the command line it would see by itself.
func programName() string {
	if filepath.Base(os.Args[0]) == "hyper" && len(os.Args) > 1 {
		os.Args = os.Args[1:]
	}
	return filepath.Base(os.Args[0])
}

func cobraProgram(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

func runScheduler() int { return cli.Run(scheduler.NewSchedulerCommand()) }

func runKubelet() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) }

func runEtcd() int {
	etcdmain.Main(os.Args) // exits by itself on errors
	return 0
}

// runKubectl prints errors the way kubectl does, with its exit codes.
func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
