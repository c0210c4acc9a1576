package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func testEnvironment(t *testing.T) *environment {
	t.Helper()
	env, err := newEnvironment(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// fake is a stage that notes its run in order and returns what it is given.
func fake(name string, l lane, ran *[]string, n counts, err error, needs ...string) stage {
	return stage{name: name, lane: l, needs: needs, timeout: time.Minute,
		run: func(context.Context, *environment, *os.File) (counts, error) {
			*ran = append(*ran, name)
			return n, err
		}}
}

func runAll(t *testing.T, ctx context.Context, chosen []stage) ([]result, string, int) {
	t.Helper()
	env := testEnvironment(t)
	var out bytes.Buffer
	results := execute(ctx, chosen, env, newProgress(&out, time.Now))
	out.Reset()
	code := report(&out, env, results)
	return results, out.String(), code
}

func TestAFailedNeedCountsAsAFailureAndTheOthersGoOn(t *testing.T) {
	var built, tested []string
	suite := counts{passed: 3, suite: true}
	results, out, code := runAll(t, t.Context(), []stage{
		fake("build", builds, &built, counts{}, errors.New("no compiler")),
		fake("needs-it", tests, &tested, suite, nil, "build"),
		fake("independent", tests, &tested, suite, nil),
	})
	if !slices.Equal(tested, []string{"independent"}) {
		t.Errorf("ran %v, want only the stage that needs nothing", tested)
	}
	got := []outcome{results[0].outcome, results[1].outcome, results[2].outcome}
	if want := []outcome{failed, skipped, passed}; !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	if !strings.HasSuffix(out, "\n3 passed, 2 failed\n") || code != 1 {
		t.Errorf("exit code %d and report\n%s\nwant 1 and a last line of 3 passed, 2 failed", code, out)
	}
}

func TestASuiteThatRunsNothingFails(t *testing.T) {
	var ran []string
	results, _, code := runAll(t, t.Context(), []stage{
		fake("skips-itself", tests, &ran, counts{skipped: 4, suite: true}, nil),
	})
	if results[0].outcome != failed || code != 1 {
		t.Errorf("outcome %v, exit code %d, want a failure: nothing was tested", results[0].outcome, code)
	}
}

func TestAStageThatIsNoSuiteCountsAsOne(t *testing.T) {
	var ran []string
	_, out, code := runAll(t, t.Context(), []stage{fake("lint", tests, &ran, counts{}, nil)})
	if !strings.HasSuffix(out, "\n1 passed, 0 failed\n") || code != 0 {
		t.Errorf("exit code %d, report\n%s", code, out)
	}
}

func TestAnInterruptedRunFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var ran []string
	results, _, code := runAll(t, ctx, []stage{fake("unit", tests, &ran, counts{passed: 1, suite: true}, nil)})
	if len(ran) != 0 || results[0].outcome != skipped || code != 1 {
		t.Errorf("ran %v, outcome %v, exit code %d: want nothing run and a failure", ran, results[0].outcome, code)
	}
}

func TestTheEndOfAFailedLogIsPrinted(t *testing.T) {
	noisy := stage{name: "noisy", lane: tests, timeout: time.Minute,
		run: func(_ context.Context, _ *environment, log *os.File) (counts, error) {
			for i := range 500 {
				fmt.Fprintf(log, "line %d\n", i)
			}
			return counts{}, errors.New("the reason")
		}}
	_, out, _ := runAll(t, t.Context(), []stage{noisy})
	for _, want := range []string{"line 499\n", "the reason"} {
		if !strings.Contains(out, want) {
			t.Errorf("report lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "line 400\n") {
		t.Error("report holds more than the end of the log")
	}
}

func TestChoosingAStageBringsWhatItNeeds(t *testing.T) {
	chosen, err := choose(stages("/", options{}), []string{"e2e"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := stageNames(chosen), []string{"cluster-build", "images", "e2e"}; !slices.Equal(got, want) {
		t.Errorf("chose %v, want %v", got, want)
	}
	if _, err := choose(stages("/", options{}), []string{"e2e", "nonsense"}); err == nil || !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("error %v, want one that names the unknown stage", err)
	}
}

// The lanes wait for needs in table order; a need that comes later in its own
// lane, or in a lane that waits back, would never end.
func TestNeedsComeEarlierInTheTable(t *testing.T) {
	all := stages("/", options{})
	for i, s := range all {
		for _, need := range s.needs {
			if j := slices.Index(stageNames(all), need); j < 0 || j >= i {
				t.Errorf("stage %s needs %s, which stands at %d, not before %d", s.name, need, j, i)
			}
		}
	}
}

func TestCountTestsCountsBrokenPackagesOnce(t *testing.T) {
	events := strings.Join([]string{
		`{"Action":"run","Package":"a","Test":"TestX"}`,
		`{"Action":"output","Package":"a","Test":"TestX","Output":"hello\n"}`,
		`{"Action":"pass","Package":"a","Test":"TestX"}`,
		`{"Action":"skip","Package":"a","Test":"TestY"}`,
		`{"Action":"pass","Package":"a"}`,
		`{"Action":"fail","Package":"b","Test":"TestZ/case"}`,
		`{"Action":"fail","Package":"b","Test":"TestZ"}`,
		`{"Action":"fail","Package":"b"}`,
		`{"ImportPath":"c [c.test]","Action":"build-output","Output":"c.go:1: broken\n"}`,
		`{"ImportPath":"c [c.test]","Action":"build-fail"}`,
		`{"Action":"fail","Package":"c","FailedBuild":"c [c.test]"}`,
		`go: a line that is no event`,
	}, "\n")
	var log bytes.Buffer
	got, err := countTests(strings.NewReader(events), &log)
	if err != nil {
		t.Fatal(err)
	}
	// TestZ, its case, and package c that did not build.
	if want := (counts{passed: 1, failed: 3, skipped: 1, suite: true}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	all, repeated, _ := strings.Cut(log.String(), "\n=== what failed\n")
	if want := "hello\nc.go:1: broken\ngo: a line that is no event\n"; all != want {
		t.Errorf("logged %q, want %q", all, want)
	}
	if want := "c.go:1: broken\n"; repeated != want {
		t.Errorf("repeated %q as failures, want %q", repeated, want)
	}
}

func TestGoTestCountsARealSuite(t *testing.T) {
	env := testEnvironment(t)
	writeTree(t, env.root, map[string]string{
		"go.mod":    "module example.com/m\n\ngo 1.26\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) {}\n\nfunc TestBad(t *testing.T) { t.Error(\"as planned\") }\n",
	})
	log, err := env.openLog("real")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	got, err := env.goTest(t.Context(), log, call{argv: []string{"./..."}})
	if want := (counts{passed: 1, failed: 1, suite: true}); got != want || err == nil {
		t.Errorf("counted %+v with error %v, want %+v and an error", got, err, want)
	}
	if text := tail(env.logPath("real")); !bytes.Contains(text, []byte("as planned")) {
		t.Errorf("the log lacks the failure's text:\n%s", text)
	}
}

func TestATimeoutKillsTheChildrenOfChildren(t *testing.T) {
	env := testEnvironment(t)
	env.killGrace = time.Second
	pidFile := filepath.Join(env.root, "pid")
	s := stage{name: "stuck", lane: tests, timeout: 500 * time.Millisecond,
		run: shell("sh", "-c", "trap '' TERM; sleep 600 & echo $! > "+pidFile+"; exec sleep 1")}
	results := execute(t.Context(), []stage{s}, env, newProgress(&bytes.Buffer{}, time.Now))
	if results[0].outcome != failed || !strings.Contains(results[0].err.Error(), "killed after") {
		t.Fatalf("outcome %v, error %v, want a kill", results[0].outcome, results[0].err)
	}
	pid, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	// SIGKILL is sent; the kernel needs a moment to take the process off the list.
	deadline := time.After(10 * time.Second)
	for tick := time.Tick(10 * time.Millisecond); ; {
		status, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		if errors.Is(err, os.ErrNotExist) || strings.Contains(string(status), ") Z ") {
			return
		}
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("grandchild %s is still there: %s", pid, status)
		}
	}
}

func TestDiscoverySeesNestedModulesAndFuzzTargets(t *testing.T) {
	root := t.TempDir()
	writeTree(t, root, map[string]string{
		"go.mod":                       "module m\n",
		"router/zmtp/frame_test.go":    "package zmtp\n\nfunc FuzzFrame(f *testing.F) {}\n\nfunc FuzzGreeting(f *testing.F) {}\n",
		"hack/repocheck/go.mod":        "module r\n",
		"hack/repocheck/repo_test.go":  "package r\n",
		"hack/kube/go.mod":             "module k\n",
		"hack/kube/main.go":            "package main\n",
		"bin/old/go.mod":               "module b\n",
		"bin/old/b_test.go":            "package b\n\nfunc FuzzOld(f *testing.F) {}\n",
		"router/testdata/x/x_test.go":  "package x\n\nfunc FuzzData(f *testing.F) {}\n",
		".cluster/node1/go.mod":        "module c\n",
		".cluster/node1/node1_test.go": "package c\n",
	})
	modules, err := nestedModules(root)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"hack/repocheck"}; !slices.Equal(modules, want) {
		t.Errorf("nested modules with tests: %v, want %v", modules, want)
	}
	targets, err := fuzzTargets(root)
	if err != nil {
		t.Fatal(err)
	}
	if want := []fuzzTarget{{"router/zmtp", "FuzzFrame"}, {"router/zmtp", "FuzzGreeting"}}; !slices.Equal(targets, want) {
		t.Errorf("fuzz targets %v, want %v", targets, want)
	}
}

func TestEveryPackageBelongsToOneStage(t *testing.T) {
	for _, p := range []goPackage{
		{ImportPath: module + "/router/proxy"},
		{ImportPath: module + "/controllers"},
		{ImportPath: module + "/controllers", XTestImports: []string{envtestImport}},
		{ImportPath: module + "/api/v1alpha1", TestImports: []string{envtestImport}},
		{ImportPath: module + "/api/v1alpha1"},
		{ImportPath: module + "/hack/testrun"},
		{ImportPath: module + "/test/enginesim/cache"},
		{ImportPath: module + "/test/e2e"},
		{ImportPath: module + "/test/e2e/live"},
	} {
		stages := 0
		for _, keep := range []func(goPackage) bool{isRaced, isPlain, isEnvtest} {
			if keep(p) {
				stages++
			}
		}
		want := 1
		if p.isUnder(endToEnd) {
			want = 0 // the e2e stage names its folder
		}
		if stages != want {
			t.Errorf("%+v runs in %d stages, want %d", p, stages, want)
		}
	}
}

// Otherwise such a test runs nowhere, and nothing says so.
func TestWhatSkipsItselfUnderTheRaceDetectorRunsPlainToo(t *testing.T) {
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	var skipping []string
	err = walkSources(root, func(path string) error {
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if bytes.Contains(text, []byte("invariant.Enabled {\n\t\tt.Skip(")) {
			skipping = append(skipping, module+"/"+filepath.ToSlash(filepath.Dir(path)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range skipping {
		if p := (goPackage{ImportPath: path}); !isPlain(p) {
			t.Errorf("tests of %s skip themselves in stage race and run in no other: add it to plainToo", path)
		}
	}
	for _, path := range plainToo {
		if !slices.Contains(skipping, path) {
			t.Errorf("no test of %s skips itself any more: take it out of plainToo", path)
		}
		if p := (goPackage{ImportPath: path}); !isRaced(p) {
			t.Errorf("%s does not run under the race detector", path)
		}
	}
}

func writeTree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOnlyAFuzzRunWithoutAFindingIsExcusedByItsDeadline(t *testing.T) {
	deadline := "--- FAIL: FuzzDecode (6.02s)\n    context deadline exceeded\nFAIL\nexit status 1\nFAIL\texample.org/x\t6.022s\n"
	finding := "--- FAIL: FuzzDecode (0.1s)\n    --- FAIL: FuzzDecode (0.00s)\n        x_test.go:9: wrong\n\n    Failing input written to testdata/fuzz/FuzzDecode/1\n"
	for name, c := range map[string]struct {
		out  string
		want bool
	}{
		"the deadline alone":           {deadline, true},
		"a finding":                    {finding, false},
		"a finding and the deadline":   {finding + deadline, false},
		"a target that does not build": {"# example.org/x\n./x_test.go:9:2: undefined: y\nFAIL\n", false},
	} {
		if got := endedByItsDeadline(c.out); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
