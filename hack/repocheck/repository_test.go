package repocheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the repository, seen from this package.
const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// files returns the repository's files with the suffix, relative to the root, in
// lexical order. Build output, cluster state and test data are not the project's.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && relative != "." && (name == "bin" || name == "testdata" || name == ".git" || name == ".cluster") {
			return filepath.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(name, suffix) {
			found = append(found, relative)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("the repository has no file that ends in %q: the walk is broken", suffix)
	}
	return found
}
