package npm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheLockPinsEveryPackageByItsHash(t *testing.T) {
	var file struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	if err := json.Unmarshal(lock, &file); err != nil {
		t.Fatal(err)
	}
	for name, p := range file.Packages {
		if name != "" && (p.Version == "" || !strings.HasPrefix(p.Integrity, "sha512-")) {
			t.Errorf("%s has version %q and hash %q", name, p.Version, p.Integrity)
		}
	}
	if len(file.Packages) < 5 {
		t.Errorf("%d packages are locked", len(file.Packages))
	}
}

// fakeNPM puts a program of that name alone on PATH.
func fakeNPM(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "npm"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/bin:/usr/bin")
}

func TestAFailedInstallSaysWhatToDoAndLeavesNothing(t *testing.T) {
	fakeNPM(t, "echo ENOTFOUND; exit 1")
	done := filepath.Join(t.TempDir(), "npm", "abc")
	err := install(t.Context(), done)
	for _, want := range []string{"ENOTFOUND", "hack/ci/install-tools.sh", "npm config get registry"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(done)); err != nil || len(left) != 0 {
		t.Errorf("%v is left (%v)", left, err)
	}
}

func TestTwoInstallsAtOnceLeaveOneFolder(t *testing.T) {
	fakeNPM(t, "mkdir node_modules; cp package.json node_modules/x")
	done := filepath.Join(t.TempDir(), "npm", "abc")
	for range 2 { // the second is one that began before the first was done
		if err := install(t.Context(), done); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(Folder(done).File("x")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(done)); err != nil || len(left) != 1 {
		t.Errorf("%v is left (%v)", left, err)
	}
}

func TestTheRepositoryIsFoundFromItsFolders(t *testing.T) {
	root, err := Repository()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "test", "npm", "npm_test.go")); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	if root, err := Repository(); err == nil {
		t.Errorf("a folder outside is in %s", root)
	}
}
