// Command router is the runtime of a fleet: it forwards OpenAI-style requests to the engines. It also runs alone:
//
//	router --worker http://127.0.0.1:8000 --worker http://127.0.0.1:8001
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/routerfleet/routerfleet/internal/version"
	"github.com/routerfleet/routerfleet/router/app"
)

func main() {
	var flags struct {
		app.Options
		Version kong.VersionFlag `env:"-" help:"Print the version and exit."`
	}
	kong.Parse(&flags, append(app.Grammar(), kong.Exit(exit), kong.Vars{"version": version.Version})...)
	flags.Options.Version = version.Version
	// Two signals matter: the first drains, the second stops now.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	if err := run(flags.Options, signals); err != nil {
		fmt.Fprintln(os.Stderr, "router:", err)
		os.Exit(1)
	}
}

func run(o app.Options, signals <-chan os.Signal) error {
	a, err := app.New(o)
	if err != nil {
		return err
	}
	return a.Run(signals)
}

// exit ends the program, after a bad command line with the 2 that is usual, where kong has 80.
func exit(code int) {
	if code > 2 {
		code = 2
	}
	os.Exit(code)
}
