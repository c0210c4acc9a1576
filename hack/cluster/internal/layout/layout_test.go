package layout

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTwoStateFoldersShareNoName(t *testing.T) {
	dir := t.TempDir()
	a, errA := New("/repo", filepath.Join(dir, "a"))
	b, errB := New("/repo", filepath.Join(dir, "b"))
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if a.ID() == b.ID() || a.Cgroup() == b.Cgroup() || a.Mark() == b.Mark() {
		t.Errorf("clusters %v and %v share a name", a, b)
	}
}

func TestOneStateFolderHasOneNameThroughASymlink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	direct, err := New("/repo", filepath.Join(dir, "real", "state"))
	if err != nil {
		t.Fatal(err)
	}
	linked, err := New("/repo", filepath.Join(dir, "link", "state"))
	if err != nil {
		t.Fatal(err)
	}
	if direct != linked {
		t.Errorf("got %v through the link, want %v", linked, direct)
	}
}

func TestStateFoldersThatDownMustNotRemoveAreRefused(t *testing.T) {
	root := t.TempDir()
	for _, state := range []string{root, filepath.Dir(root), "/run/cluster", "/tmp/a,b"} {
		if _, err := New(root, state); err == nil {
			t.Errorf("New accepted the state folder %s", state)
		}
	}
}

func TestTheRepositoryIsFoundFromAnyFolderInside(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root, err := FindRoot(wd)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(wd, root) {
		t.Errorf("root %s does not hold %s", root, wd)
	}
	if _, err := FindRoot("/"); err == nil {
		t.Error("FindRoot found a repository at /")
	}
}
