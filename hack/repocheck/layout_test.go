package repocheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"sigs.k8s.io/yaml"
)

// Every folder with Go code below these trees is a room with import arrows.
var roomTrees = []string{"api", "controllers", "router", "internal"}

func TestEveryRoomHasItsImportArrows(t *testing.T) {
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct {
						Files []string `json:"files"`
						Deny  []any    `json:"deny"`
					} `json:"rules"`
				} `json:"depguard"`
			} `json:"settings"`
		} `json:"linters"`
	}
	if err := yaml.Unmarshal([]byte(read(t, ".golangci.yml")), &config); err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for _, rule := range config.Linters.Settings.Depguard.Rules {
		for _, pattern := range rule.Files {
			if !strings.HasPrefix(pattern, "!") && len(rule.Deny) > 0 {
				patterns = append(patterns, strings.TrimPrefix(pattern, "${config-path}/"))
			}
		}
	}
	covered := func(dir string) bool {
		for _, pattern := range patterns {
			tree, deep := strings.CutSuffix(pattern, "/**/*.go")
			if deep && strings.HasPrefix(dir+"/", tree+"/") || pattern == dir+"/*.go" {
				return true
			}
		}
		return false
	}
	seen := map[string]bool{}
	for _, path := range files(t, ".go") {
		dir := filepath.Dir(path)
		top, _, _ := strings.Cut(dir, "/")
		for _, tree := range roomTrees {
			if top == tree && !seen[dir] {
				seen[dir] = true
				if !covered(dir) {
					t.Errorf("no depguard rule of .golangci.yml says what %s may import", dir)
				}
			}
		}
	}
}

// Two versions of the Kubernetes libraries compile twice, for minutes; the binary
// that tests run against is built by hack/kube.
func TestModulesAgreeOnGoAndKubernetes(t *testing.T) {
	product := parseModule(t, "go.mod")
	want := required(product)["k8s.io/api"]
	if want == "" {
		t.Fatal("go.mod does not require k8s.io/api")
	}
	for _, path := range files(t, "go.mod") {
		module := parseModule(t, path)
		// A tool's module may need a later patch release; the language is the same.
		if minor(module) != minor(product) {
			t.Errorf("%s is for Go %s, want %s", path, minor(module), minor(product))
		}
		for _, name := range []string{"k8s.io/api", "k8s.io/client-go", "k8s.io/apimachinery"} {
			got := required(module)[name]
			if path == "hack/kube/go.mod" && got != want {
				t.Errorf("%s takes %s %s, want %s", path, name, got, want)
			}
		}
	}
}

// minor is the module's Go version without its patch level, as in "1.26".
func minor(module *modfile.File) string {
	return strings.Join(strings.Split(module.Go.Version, ".")[:2], ".")
}

func parseModule(t *testing.T, path string) *modfile.File {
	t.Helper()
	module, err := modfile.Parse(path, []byte(read(t, path)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// required are the module's versions after its replacements.
func required(module *modfile.File) map[string]string {
	versions := map[string]string{}
	for _, r := range module.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	for _, r := range module.Replace {
		if r.New.Version != "" {
			versions[r.Old.Path] = r.New.Version
		}
	}
	return versions
}

func TestScriptsAreExecutableAndStopAtErrors(t *testing.T) {
	for _, path := range append(files(t, ".sh"), ".ci/run") {
		info, err := os.Stat(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
			continue
		}
		if info.Mode()&0o111 == 0 {
			t.Errorf("%s is not executable", path)
		}
		if text := read(t, path); !strings.Contains(text, "\nset -e") {
			t.Errorf("%s does not stop at the first error: begin it with set -euo pipefail", path)
		}
	}
}

func TestTheLicenceIsApache2(t *testing.T) {
	text := read(t, "LICENSE")
	for _, part := range []string{"Apache License", "Version 2.0, January 2004", "END OF TERMS AND CONDITIONS"} {
		if !strings.Contains(text, part) {
			t.Errorf("LICENSE lacks %q", part)
		}
	}
}

// On synctest's clock sleeping takes no time and is the plain way to let some
// pass; on the real clock it is a bug that has not fired yet. A package's helper
// may open the bubble for all of its tests.
func TestOnlyTestsOnAFakeClockSleep(t *testing.T) {
	sleeps, bubbles := map[string][]string{}, map[string]bool{}
	for _, path := range files(t, "_test.go") {
		dir, text := filepath.Dir(path), read(t, path)
		if strings.Contains(text, "\ttime.Sleep(") {
			sleeps[dir] = append(sleeps[dir], path)
		}
		if strings.Contains(text, `"testing/synctest"`) {
			bubbles[dir] = true
		}
	}
	for dir, paths := range sleeps {
		if !bubbles[dir] {
			t.Errorf("%s sleep on the real clock: wait for what is waited for, with a deadline, or use testing/synctest", paths)
		}
	}
}

// The words that mark work left undone; an open end is an issue, not a comment.
func TestNothingIsMarkedUnfinished(t *testing.T) {
	words := []string{"TO" + "DO", "FIX" + "ME", "HA" + "CK:"}
	for _, suffix := range []string{".go", ".sh", ".md", ".yaml", ".yml"} {
		for _, path := range files(t, suffix) {
			text := read(t, path)
			for _, word := range words {
				if strings.Contains(text, word) && path != ".golangci.yml" {
					t.Errorf("%s contains %s", path, word)
				}
			}
		}
	}
}
