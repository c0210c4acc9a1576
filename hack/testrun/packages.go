package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	module        = "github.com/routerfleet/routerfleet"
	envtestImport = "sigs.k8s.io/controller-runtime/pkg/envtest"
	// endToEnd needs a cluster and is run by its own stage.
	endToEnd = module + "/test/e2e"
)

// raced are the trees whose tests run under the race detector: the product and
// what stands in for engines. The others would only pay for compiling the
// world a second time, with cgo.
var raced = []string{module + "/router/", module + "/controllers", module + "/internal/",
	module + "/test/enginesim", module + "/test/component"}

// plainToo are raced packages with tests that skip themselves in an instrumented
// build, where allocations cannot be counted and hashing takes minutes. They run
// in both stages.
var plainToo = []string{module + "/router/policy", module + "/test/enginesim"}

// goPackage is the part of "go list -json" that we read.
type goPackage struct {
	ImportPath   string
	Dir          string
	TestGoFiles  []string
	XTestGoFiles []string
	TestImports  []string
	XTestImports []string
}

func (p goPackage) hasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// needsAPIServer says whether the package's tests start one.
func (p goPackage) needsAPIServer() bool {
	return slices.Contains(p.TestImports, envtestImport) || slices.Contains(p.XTestImports, envtestImport)
}

func (p goPackage) isUnder(trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool {
		return strings.HasPrefix(p.ImportPath+"/", strings.TrimSuffix(tree, "/")+"/")
	})
}

// listPackages returns the packages with tests of the module in dir. Tags decide
// which test files count.
func (e *environment) listPackages(ctx context.Context, log io.Writer, dir, tags string) ([]goPackage, error) {
	text, err := e.output(ctx, log, call{dir: dir, argv: []string{"go", "list", "-tags", tags,
		"-json=ImportPath,Dir,TestGoFiles,XTestGoFiles,TestImports,XTestImports", "./..."}})
	if err != nil {
		return nil, err
	}
	var found []goPackage
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the answer of go list: %w", err)
		}
		if p.hasTests() {
			found = append(found, p)
		}
	}
}

// filterPaths returns the import paths of the packages that keep accepts.
func filterPaths(packages []goPackage, keep func(goPackage) bool) []string {
	var paths []string
	for _, p := range packages {
		if keep(p) {
			paths = append(paths, p.ImportPath)
		}
	}
	return paths
}

func isRaced(p goPackage) bool { return isUnit(p) && p.isUnder(raced...) }
func isPlain(p goPackage) bool {
	return isUnit(p) && (!p.isUnder(raced...) || slices.Contains(plainToo, p.ImportPath))
}
func isUnit(p goPackage) bool    { return !p.needsAPIServer() && !p.isUnder(endToEnd) }
func isEnvtest(p goPackage) bool { return p.needsAPIServer() && !p.isUnder(endToEnd) }

// nestedModules returns the folders below the root with a go.mod of their own
// and at least one test, relative to the root.
func nestedModules(root string) ([]string, error) {
	var modules, testFolders []string
	err := walkSources(root, func(path string) error {
		switch name := filepath.Base(path); {
		case name == "go.mod" && filepath.Dir(path) != ".":
			modules = append(modules, filepath.Dir(path))
		case strings.HasSuffix(name, "_test.go"):
			testFolders = append(testFolders, filepath.Dir(path))
		}
		return nil
	})
	hasTest := func(module string) bool {
		return slices.ContainsFunc(testFolders, func(dir string) bool {
			return strings.HasPrefix(dir+"/", module+"/")
		})
	}
	return slices.DeleteFunc(modules, func(m string) bool { return !hasTest(m) }), err
}

// fuzzTarget is one func FuzzX of the root module.
type fuzzTarget struct {
	dir, name string
}

var fuzzFunction = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// fuzzTargets finds fuzz targets by reading the test files: "go test -list" would
// compile every test binary once more to say the same.
func fuzzTargets(root string) ([]fuzzTarget, error) {
	var targets []fuzzTarget
	err := walkSources(root, func(path string) error {
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		for _, match := range fuzzFunction.FindAllSubmatch(text, -1) {
			targets = append(targets, fuzzTarget{dir: filepath.Dir(path), name: string(match[1])})
		}
		return nil
	})
	return targets, err
}

// walkSources visits every file of the repository that is source: no build
// output, no cluster state, no test data.
func walkSources(root string, visit func(relative string) error) error {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			name := entry.Name()
			if relative != "." && (strings.HasPrefix(name, ".") || name == "testdata" || relative == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		return visit(relative)
	})
	if err != nil {
		return fmt.Errorf("look for sources under %s: %w", root, err)
	}
	return nil
}
