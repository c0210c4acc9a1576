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
	kong.Parse(&flags, append(manager.Grammar(), kong.Exit(exit), kong.Vars{"version": version.Version})...)
	if err := manager.Run(ctrl.SetupSignalHandler(), flags.Options, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

// exit ends the program, after a bad command line with the 2 that is usual, where kong has 80.
func exit(code int) {
	if code > 2 {
		code = 2
	}
	os.Exit(code)
}
