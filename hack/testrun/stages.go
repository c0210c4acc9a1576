package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fuzzBudget is the fuzzing time of all targets together, compiling not counted.
const fuzzBudget = 60 * time.Second

// maxFuzzTargets bounds what a long fuzz run may take in all.
const maxFuzzTargets = 100

// downTimeout is enough to kill every node of a cluster and clean up after it.
const downTimeout = time.Minute

// options are what the command line may change about stages.
type options struct {
	fuzzTime time.Duration // of each target; 0 means its share of fuzzBudget
	nodes    int           // of the cluster for end-to-end tests
	rounds   int           // of the end-to-end tests
}

// e2eRound is what one round of the end-to-end tests may take.
const e2eRound = 15 * time.Minute

// stages is the table: what runs, in which lane, after what, for how long at
// most. The limits are several times what a two-core machine needs cold.
func stages(root string, o options) []stage {
	return []stage{
		{name: "cluster-build", lane: builds, timeout: 45 * time.Minute, run: buildCluster,
			about: "Kubernetes, etcd and CoreDNS binaries of the local cluster"},
		{name: "images", lane: builds, timeout: 15 * time.Minute, run: buildImages,
			about: "image tars of manager, router and the test programs"},
		{name: "lint-build", lane: builds, timeout: 15 * time.Minute, run: buildLinter,
			about: "golangci-lint with kube-api-linter"},

		{name: "vet", lane: tests, timeout: 30 * time.Minute, run: vet,
			about: "go vet of everything, end-to-end tests included"},
		{name: "race", lane: tests, timeout: 30 * time.Minute, run: unitTests("", isRaced, true),
			about: "unit and component tests of the product and the engine double under the race detector"},
		{name: "unit", lane: tests, timeout: 30 * time.Minute, run: unitTests("", isPlain, false),
			about: "unit tests of everything else, and those that skip themselves under the race detector"},
		{name: "libzmq", lane: tests, timeout: 15 * time.Minute, run: libzmq,
			about: "router/zmtp against libzmq, both ways, under the race detector"},
		{name: "npm", lane: tests, timeout: 20 * time.Minute, run: npmTests,
			about: "router/tokens against the reference's tokenizer and template engine, fetched by npm"},
		{name: "nested", lane: tests, timeout: 20 * time.Minute, run: nestedTests,
			about: "tests of the nested modules (repository checks, tools)"},
		{name: "fuzz", lane: tests, timeout: 20*time.Minute + maxFuzzTargets*o.fuzzTime, run: fuzz(o.fuzzTime),
			about: "a few seconds of every fuzz target"},
		{name: "generate", lane: tests, timeout: 15 * time.Minute, run: shell("hack/ci/verify-generate.sh"),
			about: "generated code and references are what the generators make"},
		{name: "envtest", lane: tests, timeout: 20 * time.Minute, needs: []string{"cluster-build"}, run: envtest,
			about: "tests against a real API server and etcd"},
		{name: "cluster", lane: tests, timeout: 25 * time.Minute, needs: []string{"cluster-build"}, run: clusterTests,
			about: "the local cluster itself: up, pods, faults, and that nothing is left after a crash"},
		{name: "e2e", lane: tests, timeout: 10*time.Minute + time.Duration(o.rounds)*e2eRound,
			needs: []string{"cluster-build", "images"}, run: e2e(root, o),
			about: "end-to-end tests on a local cluster of several nodes"},
		{name: "lint", lane: tests, timeout: 20 * time.Minute, needs: []string{"lint-build"}, run: shell("hack/ci/lint.sh"),
			about: "golangci-lint: import arrows, function length, API conventions"},
	}
}

type stageFunc = func(ctx context.Context, env *environment, log *os.File) (counts, error)

// shell is a stage that is one command.
func shell(argv ...string) stageFunc {
	return func(ctx context.Context, env *environment, log *os.File) (counts, error) {
		return counts{}, env.do(ctx, log, call{argv: argv})
	}
}

// sequence is a stage of several commands; the first failure ends it.
func sequence(calls ...call) stageFunc {
	return func(ctx context.Context, env *environment, log *os.File) (counts, error) {
		for _, c := range calls {
			if err := env.do(ctx, log, c); err != nil {
				return counts{}, err
			}
		}
		return counts{}, nil
	}
}

var (
	buildCluster = sequence(
		call{argv: []string{"go", "build", "-o", "bin/cluster", "./hack/cluster"}},
		call{argv: []string{"bin/cluster", "build"}})
	// The second tag names the same content: what tests roll to.
	buildImages = shell("go", "run", "./hack/image", "--out", "bin/images", "--tag", "dev", "--tag", "next",
		"manager", "router", "enginesim", "loadgen")
	buildLinter = shell("hack/lint/build.sh")
	vet         = shell("go", "vet", "-tags", "e2e,envtest,cluster,npm", "./...")
)

// unitTests runs the packages that keep accepts, shuffled.
func unitTests(tags string, keep func(goPackage) bool, race bool) stageFunc {
	return func(ctx context.Context, env *environment, log *os.File) (counts, error) {
		packages, err := env.listPackages(ctx, log, ".", tags)
		if err != nil {
			return counts{}, err
		}
		c := call{argv: []string{"-shuffle=on", "-timeout=10m"}}
		if race {
			c.argv = append(c.argv, "-race")
			c.env = []string{"CGO_ENABLED=1"}
		}
		c.argv = append(c.argv, filterPaths(packages, keep)...)
		return env.goTest(ctx, log, c)
	}
}

// libzmq needs cgo and the library's headers, so it is a build tag of its own.
func libzmq(ctx context.Context, env *environment, log *os.File) (counts, error) {
	return env.goTest(ctx, log, call{
		argv: []string{"-tags=libzmq", "-count=1", "-race", "-timeout=10m", "./router/zmtp"},
		env:  []string{"CGO_ENABLED=1"},
	})
}

// npmTests compare with other people's implementations: they need node and npm, and a registry the first time.
func npmTests(ctx context.Context, env *environment, log *os.File) (counts, error) {
	return env.goTest(ctx, log, call{argv: []string{"-tags=npm", "-count=1", "-timeout=15m", "./router/tokens/...", "./test/bench/tokens"}})
}

// clusterTests start clusters of their own, apart from the one of the end-to-end tests.
func clusterTests(ctx context.Context, env *environment, log *os.File) (counts, error) {
	return env.goTest(ctx, log, call{argv: []string{"-tags=cluster", "-count=1", "-timeout=20m", "./hack/cluster"}})
}

func nestedTests(ctx context.Context, env *environment, log *os.File) (counts, error) {
	modules, err := nestedModules(env.root)
	if err != nil {
		return counts{}, err
	}
	total := counts{suite: true}
	var failures []error
	for _, dir := range modules {
		packages, err := env.listPackages(ctx, log, dir, "")
		if err != nil {
			failures = append(failures, err)
			continue
		}
		// A result is cached by the files of its own module, and these tests read the files of all.
		argv := append([]string{"-count=1", "-timeout=10m"}, filterPaths(packages, goPackage.hasTests)...)
		n, err := env.goTest(ctx, log, call{dir: dir, argv: argv})
		total = total.plus(n)
		failures = append(failures, err)
	}
	return total, errors.Join(failures...)
}

// fuzz runs every target, one after the other.
func fuzz(each time.Duration) stageFunc {
	return func(ctx context.Context, env *environment, log *os.File) (counts, error) {
		targets, err := fuzzTargets(env.root)
		if err != nil {
			return counts{}, err
		}
		duration := cmp.Or(each, share(fuzzBudget, len(targets)))
		total := counts{suite: true}
		for _, t := range targets {
			out, err := env.output(ctx, log, call{dir: t.dir, argv: []string{"go", "test", "-run=^$",
				"-fuzz=^" + t.name + "$", "-fuzztime=" + duration.String(), "-parallel=2", "."}})
			fmt.Fprint(log, out)
			switch {
			case err != nil && endedByItsDeadline(out):
				fmt.Fprintln(log, "no failing input: the go command lost a race with its own deadline (golang/go#75804)")
			case err != nil:
				fmt.Fprintln(log, err)
				total.failed++
				continue
			}
			total.passed++
		}
		return total, nil
	}
}

// endedByItsDeadline tells a fuzz run that found nothing from one that did. Up to Go 1.26 the coordinator may report the
// end of -fuzztime as an error of the target (golang/go#75804, mended in 1.27); a finding always names the input it wrote.
func endedByItsDeadline(out string) bool {
	return strings.Contains(out, "\n    context deadline exceeded\nFAIL\n") && !strings.Contains(out, "Failing input written to")
}

// share divides the budget, between one and ten seconds each.
func share(budget time.Duration, targets int) time.Duration {
	each := budget / time.Duration(max(targets, 1))
	return min(max(each, time.Second), 10*time.Second)
}

func envtest(ctx context.Context, env *environment, log *os.File) (counts, error) {
	packages, err := env.listPackages(ctx, log, ".", "envtest")
	if err != nil {
		return counts{}, err
	}
	// One package at a time: each starts an API server of its own.
	argv := append([]string{"-tags=envtest", "-count=1", "-p=1", "-timeout=15m"}, filterPaths(packages, isEnvtest)...)
	return env.goTest(ctx, log, call{argv: argv,
		env: []string{"KUBEBUILDER_ASSETS=" + filepath.Join(env.root, "bin", "kube")}})
}

// e2e brings a cluster up, loads the images, runs the tests and takes the cluster
// down whatever happened. With E2E_KUBECONFIG set it uses that cluster instead
// and leaves it alone: its images are the caller's business.
func e2e(root string, o options) stageFunc {
	run := func(ctx context.Context, env *environment, log *os.File, kubeconfig string) (counts, error) {
		return env.goTest(ctx, log, call{
			argv: []string{"-tags=e2e", "-count=" + strconv.Itoa(o.rounds), "-shuffle=on",
				"-timeout=" + (time.Duration(o.rounds) * e2eRound).String(), "./test/e2e/..."},
			env: []string{"E2E_KUBECONFIG=" + kubeconfig},
		})
	}
	return func(ctx context.Context, env *environment, log *os.File) (n counts, err error) {
		if given := os.Getenv("E2E_KUBECONFIG"); given != "" {
			return run(ctx, env, log, given)
		}
		tars, err := filepath.Glob(filepath.Join(root, "bin", "images", "*.tar"))
		if err != nil {
			return counts{}, fmt.Errorf("list image tars: %w", err)
		}
		defer func() {
			// The stage's context may be over; what it started must not outlive it.
			down, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
			defer cancel()
			err = errors.Join(err, env.do(down, log, call{argv: []string{"bin/cluster", "down"}}))
		}()
		for _, argv := range [][]string{
			{"bin/cluster", "up", "--nodes", strconv.Itoa(o.nodes)},
			slices.Concat([]string{"bin/cluster", "load"}, tars),
		} {
			if err := env.do(ctx, log, call{argv: argv}); err != nil {
				return counts{}, fmt.Errorf("prepare the cluster (%s): %w", strings.Join(argv[:2], " "), err)
			}
		}
		return run(ctx, env, log, filepath.Join(root, ".cluster", "kubeconfig"))
	}
}
