package repocheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var errorRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([0-9]{3})")

// The table of error codes is what a client's author reads; the constants are
// what the router sends. The comment behind a constant names its HTTP status.
func TestTheErrorTableOfTheRouterIsThatOfTheCode(t *testing.T) {
	documented := map[string]string{}
	for _, row := range errorRow.FindAllStringSubmatch(read(t, "docs/router.md"), -1) {
		documented[row[1]] = row[2]
	}
	path := filepath.Join(root, "router/proxy/errors.go")
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" || len(spec.Values) != 1 {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Errorf("%s: %v", spec.Names[0].Name, err)
		}
		declared++
		status, ok := documented[code]
		if !ok {
			t.Errorf("docs/router.md does not explain the error code %s", code)
		} else if !strings.HasPrefix(spec.Comment.Text(), status) {
			t.Errorf("docs/router.md gives %s status %s, the code says %q", code, status, spec.Comment.Text())
		}
		delete(documented, code)
		return true
	})
	if declared == 0 {
		t.Fatalf("%s declares no codes: the parser looks in the wrong place", path)
	}
	for code := range documented {
		t.Errorf("docs/router.md explains the error code %s, which the router does not send", code)
	}
}
