// Command manager is the operator: it keeps RouterFleets running.
package main

import (
	"fmt"
	"os"

	"github.com/routerfleet/routerfleet/controllers/manager"
	"github.com/routerfleet/routerfleet/internal/version"

	"github.com/alecthomas/kong"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	var flags struct {
		manager.Options `embed:""`

		Version kong.VersionFlag `help:"Print the version and exit."`
	}
	kong.Parse(&flags, append(manager.Grammar(), kong.Vars{"version": version.Version})...)
	if err := manager.Run(ctrl.SetupSignalHandler(), flags.Options, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}
