package repocheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reasons returns the values of the exported Reason constants of the API.
func reasons(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(root, "api/v1alpha1/conditions.go")
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if !strings.HasPrefix(name.Name, "Reason") || i >= len(spec.Values) {
				continue
			}
			literal, ok := spec.Values[i].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s is no plain string", name.Name)
				continue
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Errorf("%s: %v", name.Name, err)
			}
			if name.Name != "Reason"+value {
				t.Errorf("constant %s has value %q, want the same word", name.Name, value)
			}
			values = append(values, value)
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s declares no reasons: the parser looks in the wrong place", path)
	}
	slices.Sort(values)
	return values
}

func TestEveryConditionReasonHasAPageAndEveryPageAReason(t *testing.T) {
	pages := map[string]bool{}
	for _, path := range files(t, ".md") {
		dir, name := filepath.Split(path)
		if dir == "docs/conditions/" && name != "README.md" {
			pages[strings.TrimSuffix(name, ".md")] = true
		}
	}
	index := read(t, "docs/conditions/README.md")
	for _, reason := range reasons(t) {
		if !pages[reason] {
			t.Errorf("reason %s has no page: write docs/conditions/%s.md", reason, reason)
		}
		if !strings.Contains(index, "("+reason+".md)") {
			t.Errorf("docs/conditions/README.md does not link %s.md", reason)
		}
		delete(pages, reason)
	}
	for page := range pages {
		t.Errorf("docs/conditions/%s.md is about a reason that the API does not declare", page)
	}
}

// Somebody woken at night reads these pages: each says the same things in the
// same order.
func TestEveryConditionPageHasTheSameParts(t *testing.T) {
	parts := []string{"\n**Condition**: ", "\n## What it means\n", "\n## What to do\n"}
	for _, reason := range reasons(t) {
		text := read(t, "docs/conditions/"+reason+".md")
		if !strings.HasPrefix(text, "# "+reason+"\n") {
			t.Errorf("%s.md does not begin with its reason as title", reason)
		}
		at := 0
		for _, part := range parts {
			next := strings.Index(text[at:], part)
			if next < 0 {
				t.Errorf("%s.md lacks %q, or has it out of order", reason, strings.TrimSpace(part))
				break
			}
			at += next
		}
	}
}
