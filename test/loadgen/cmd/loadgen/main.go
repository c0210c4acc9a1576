// Command loadgen sends load to a router and prints JSON lines: flags ->
// options -> run.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/routerfleet/routerfleet/internal/version"
	"github.com/routerfleet/routerfleet/test/loadgen"
)

type flags struct {
	Target         string        `help:"Base URL that load goes to, such as http://demo:30000." required:""`
	Direct         string        `help:"Base URL of an engine; the run then ends with a probe of what the target adds."`
	Model          string        `help:"Model to ask for; empty: the target's first one."`
	Mode           string        `help:"trace replays the conversation trace, steady sends small requests without pause." enum:"trace,steady" default:"trace"`
	Requests       int           `help:"End after so many requests; 0: the whole trace, or until --duration is over."`
	Duration       time.Duration `help:"Stop sending after this time; 0: no end."`
	Connections    int           `help:"Requests on their way at once, each on a connection of its own." default:"8"`
	NewConnections bool          `help:"Open a connection for every request."`
	Speed          float64       `help:"Divide the trace's times by this; 0: as fast as the connections allow."`
	MaxOutput      int           `help:"Cap the tokens of an answer; 0: as the trace says, 8 in steady mode."`
	Timeout        time.Duration `help:"End a request after this time, as failed." default:"10m"`
	Wait           time.Duration `help:"How long the target may take to name its model." default:"30s"`
	ProbePairs     int           `help:"Pairs of requests of the --direct probe." default:"200"`
	FailOnError    bool          `help:"Leave with 1 when any request failed."`

	Version kong.VersionFlag `help:"Print the version and leave."`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Name("loadgen"), kong.Vars{"version": version.Version},
		kong.Description("Sends load to a router and prints JSON lines: progress each second, a result at the end."))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills: the first waits for what is on its way
	result, err := loadgen.Run(ctx, f.options())
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		os.Exit(1)
	case result.Failed > 0 && f.FailOnError:
		fmt.Fprintf(os.Stderr, "loadgen: %d of %d requests failed\n", result.Failed, result.Requests)
		os.Exit(1)
	}
}

func (f flags) options() loadgen.Options {
	return loadgen.Options{
		Target: f.Target, Direct: f.Direct, Model: f.Model, Mode: loadgen.Mode(f.Mode),
		Requests: f.Requests, Duration: f.Duration, Connections: f.Connections, NewConnections: f.NewConnections,
		Speed: f.Speed, MaxOutput: f.MaxOutput, Timeout: f.Timeout, WaitForModel: f.Wait, ProbePairs: f.ProbePairs,
		Output: os.Stdout,
	}
}
