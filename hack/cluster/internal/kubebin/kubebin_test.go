package kubebin

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

type repo struct {
	root, bin string
	builds    atomic.Int32
	fail      error
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	r := &repo{root: t.TempDir()}
	r.bin = filepath.Join(r.root, "bin")
	r.write(t, "main.go", "one")
	return r
}

func (r *repo) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.root, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (r *repo) artifact(flags ...string) Artifact {
	return Artifact{
		Name: "kube", Sources: []string{"*.go"}, Flags: flags, Outputs: []string{"program"},
		Build: func(_ context.Context, dir string) error {
			r.builds.Add(1)
			if r.fail != nil {
				return r.fail
			}
			return os.WriteFile(filepath.Join(dir, "program"), nil, 0o755)
		},
	}
}

func (r *repo) ensure(t *testing.T, a Artifact) string {
	t.Helper()
	dir, err := a.Ensure(t.Context(), r.root, r.bin, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestNothingIsBuiltTwice(t *testing.T) {
	r := newRepo(t)
	first, second := r.ensure(t, r.artifact()), r.ensure(t, r.artifact())
	if first != second || r.builds.Load() != 1 {
		t.Errorf("%d builds into %s and %s, want one", r.builds.Load(), first, second)
	}
}

func TestConcurrentCallersWaitForOneBuild(t *testing.T) {
	r := newRepo(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := r.artifact().Ensure(t.Context(), r.root, r.bin, io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := r.builds.Load(); n != 1 {
		t.Errorf("%d builds, want one", n)
	}
}

func TestAChangedSourceOrFlagReplacesTheOldResult(t *testing.T) {
	r := newRepo(t)
	dirs := map[string]bool{r.ensure(t, r.artifact()): true}
	r.write(t, "main.go", "two")
	dirs[r.ensure(t, r.artifact())] = true
	r.write(t, "other.go", "")
	dirs[r.ensure(t, r.artifact())] = true
	last := r.ensure(t, r.artifact("-race"))
	dirs[last] = true
	if len(dirs) != 4 {
		t.Errorf("four different inputs gave %d results: %v", len(dirs), dirs)
	}
	left, err := filepath.Glob(filepath.Join(r.bin, "kube-*"))
	if err != nil || len(left) != 1 || left[0] != last {
		t.Errorf("%v is left, want only %s (%v)", left, last, err)
	}
	if target, err := os.Readlink(filepath.Join(r.bin, "kube")); target != filepath.Base(last) {
		t.Errorf("the link points to %s, want %s (%v)", target, last, err)
	}
}

func TestPruningSparesWhatIsNotOurs(t *testing.T) {
	r := newRepo(t)
	for _, name := range []string{"kubelet-notes", "kube-abc.txt", "coredns-0123456789ab"} {
		if err := os.MkdirAll(filepath.Join(r.bin, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.ensure(t, r.artifact())
	for _, name := range []string{"kubelet-notes", "kube-abc.txt", "coredns-0123456789ab"} {
		if _, err := os.Stat(filepath.Join(r.bin, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestAFailedBuildLeavesNothingAndIsTriedAgain(t *testing.T) {
	r := newRepo(t)
	r.fail = errors.New("disk full")
	if _, err := r.artifact().Ensure(t.Context(), r.root, r.bin, io.Discard); !errors.Is(err, r.fail) {
		t.Errorf("got %v, want %v", err, r.fail)
	}
	if r.artifact().Present(r.root, r.bin) {
		t.Error("the failed build counts as present")
	}
	for _, pattern := range []string{"kube*", ".kube-*"} {
		if left, _ := filepath.Glob(filepath.Join(r.bin, pattern)); len(left) > 0 {
			t.Errorf("left after the failure: %v", left)
		}
	}
	r.fail = nil
	r.ensure(t, r.artifact())
}

func TestWaitingForABuildEndsWithTheContext(t *testing.T) {
	r := newRepo(t)
	if err := os.MkdirAll(r.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(t.Context(), filepath.Join(r.bin, ".kube.lock"), func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	var said strings.Builder
	cancel()
	if _, err := r.artifact().Ensure(ctx, r.root, r.bin, &said); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a cancelled context", err)
	}
	if !strings.Contains(said.String(), "waiting") {
		t.Errorf("nobody was told about the wait: %q", said.String())
	}
}

func TestTheKubernetesVersionComesFromTheModuleFile(t *testing.T) {
	got, err := versionFlags("require (\n\tk8s.io/kubectl v0.0.0\n\tk8s.io/kubernetes v1.37.2\n)\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gitVersion=v1.37.2", "gitMajor=1", "gitMinor=37"} {
		if !strings.Contains(got, want) {
			t.Errorf("flags %q lack %s", got, want)
		}
	}
	if _, err := versionFlags("module x\n"); err == nil {
		t.Error("a module file without Kubernetes was accepted")
	}
}

func TestTheArtifactsOfThisCheckoutCanBeNamed(t *testing.T) {
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	all, err := All(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if _, err := a.Hash(root); err != nil {
			t.Error(err)
		}
	}
}
