// Package docs_test checks that what the documentation tells people to apply is
// what the API takes.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

// A field that was renamed, or never existed, must not live on in the docs.
func TestEveryRouterFleetInTheDocsHasOnlyKnownFields(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(block[1], "kind: RouterFleet\n") {
				continue
			}
			checked++
			var fleet v1alpha1.RouterFleet
			if err := yaml.UnmarshalStrict([]byte(block[1]), &fleet); err != nil {
				t.Errorf("%s: %v\n%s", page, err, block[1])
				continue
			}
			if got, want := fleet.APIVersion, v1alpha1.GroupVersion.String(); got != want {
				t.Errorf("%s: apiVersion %q, want %q", page, got, want)
			}
			if fleet.Spec.Image == "" || fleet.Spec.Workers.Plain == nil && len(fleet.Spec.Workers.Static) == 0 {
				t.Errorf("%s: a fleet without image or workers:\n%s", page, block[1])
			}
		}
	}
	if checked < 2 {
		t.Errorf("found %d fleets in the docs: the pattern is broken", checked)
	}
}

func pages(t *testing.T) []string {
	t.Helper()
	found := []string{filepath.Join("..", "README.md")}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".md") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
