package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/host"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
)

const exitUsage = 2

// app is what every verb works on.
type app struct {
	layout.Cluster
	out io.Writer
}

// verb is one thing the command does. Its flags are registered by run's setup.
type verb struct {
	name, args, help string
	hidden           bool
	setup            func(fs *flag.FlagSet) action
}

// action does the verb, with what is left of the command line after its flags.
type action func(ctx context.Context, a *app, args []string) error

// errUsage makes main print how a verb is used.
var errUsage = errors.New("wrong arguments")

// The main goroutine keeps the main thread: /proc/self shows the namespaces of
// that thread, so no goroutine that changes namespaces may ever run on it.
func init() { runtime.LockOSThread() }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(report(err, os.Stderr))
}

// commandExit is the exit code of a command that `exec` ran, and which has said
// itself what went wrong.
type commandExit int

func (c commandExit) Error() string {
	return fmt.Sprintf("the command ended with exit code %d", int(c))
}

// report says what is wrong, and returns the exit code.
func report(err error, w io.Writer) int {
	var exit commandExit
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.As(err, &exit):
		return int(exit)
	}
	fmt.Fprintln(w, "cluster:", err)
	return 1
}

func run(ctx context.Context, args []string, out io.Writer) error {
	global := flag.NewFlagSet("cluster", flag.ContinueOnError)
	state := global.String("state", "", "state folder (default .cluster at the root of the checkout)")
	global.Usage = func() { usage(global.Output()) }
	if err := global.Parse(args); err != nil {
		return usageError(err)
	}
	if global.NArg() == 0 {
		usage(global.Output())
		return errUsage
	}
	v, ok := findVerb(global.Arg(0))
	if !ok {
		fmt.Fprintf(global.Output(), "cluster: no verb is called %q\n", global.Arg(0))
		usage(global.Output())
		return errUsage
	}
	fs := flag.NewFlagSet("cluster "+v.name, flag.ContinueOnError)
	fs.StringVar(state, "state", *state, "state folder (default .cluster at the root of the checkout)")
	fs.Usage = func() { verbUsage(fs, v) }
	act := v.setup(fs)
	rest, err := parseMixed(fs, global.Args()[1:], v.name == "exec")
	if err != nil {
		return usageError(err)
	}
	a, err := newApp(*state, out)
	if err != nil {
		return err
	}
	if err := act(ctx, a, rest); err != nil {
		if errors.Is(err, errUsage) {
			verbUsage(fs, v)
		}
		return err
	}
	return nil
}

// usageError turns what the flag package has already printed into an exit code.
func usageError(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return errUsage
}

// parseMixed accepts flags after arguments too. A command to run ends ours.
func parseMixed(fs *flag.FlagSet, args []string, stopAtFirst bool) ([]string, error) {
	var rest []string
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		if stopAtFirst || fs.NArg() == 0 {
			return append(rest, fs.Args()...), nil
		}
		rest = append(rest, fs.Arg(0))
		args = fs.Args()[1:]
	}
}

// newApp finds the checkout from the working directory, else from the program,
// which stands in its bin folder.
func newApp(state string, out io.Writer) (*app, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	root, err := layout.FindRoot(wd)
	if err != nil {
		exe, exeErr := os.Executable()
		if exeErr != nil {
			return nil, err
		}
		if root, exeErr = layout.FindRoot(filepath.Dir(exe)); exeErr != nil {
			return nil, err
		}
	}
	if state == "" {
		state = filepath.Join(root, ".cluster")
	}
	c, err := layout.New(root, state)
	if err != nil {
		return nil, err
	}
	return &app{Cluster: c, out: out}, host.AddToPath()
}
