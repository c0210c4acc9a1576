package kubebin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/routerfleet/routerfleet/hack/cluster/internal/archive"
	"github.com/routerfleet/routerfleet/hack/cluster/internal/layout"
)

// Programs are the names of the multi-call binary hack/kube; each is a symlink.
var Programs = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl", "netpol"}

// Image tars beside the programs they hold.
const (
	PauseTar = "pause.tar"
	DNSTar   = "coredns.tar"
)

// goFlags are those of the whole repository: another set would compile
// everything a second time.
const goFlags = "-buildvcs=false -trimpath"

var kubernetesVersion = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)$`)

// toolchain is the Go command that builds the artifacts.
type toolchain struct{ path, version string }

func findToolchain(ctx context.Context, root string) (toolchain, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		path = "go" // running it says what is missing
	}
	cmd := exec.CommandContext(ctx, path, "env", "GOVERSION", "GOOS", "GOARCH")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return toolchain{}, fmt.Errorf("run %s env (Go 1.26 or later must be installed: https://go.dev/dl): %w", path, err)
	}
	return toolchain{path, strings.Join(strings.Fields(string(out)), " ")}, nil
}

// build runs `go build` in dir, and writes the static program to out.
func (t toolchain) build(ctx context.Context, dir, pkg, ldflags, out string) error {
	cmd := exec.CommandContext(ctx, t.path, "build", "-ldflags", ldflags, "-o", out, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+goFlags, "GOWORK=off")
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s in %s: %w\n%s", pkg, dir, err, b)
	}
	return nil
}

// All returns the cluster's artifacts in the order of their use: envtest needs
// the first alone.
func All(ctx context.Context, root string) ([]Artifact, error) {
	t, err := findToolchain(ctx, root)
	if err != nil {
		return nil, err
	}
	kube, err := kubeArtifact(t, root)
	if err != nil {
		return nil, err
	}
	return []Artifact{kube, dnsArtifact(t, root)}, nil
}

func kubeArtifact(t toolchain, root string) (Artifact, error) {
	dir := filepath.Join(root, "hack", "kube")
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return Artifact{}, err
	}
	ldflags, err := versionFlags(string(mod))
	if err != nil {
		return Artifact{}, fmt.Errorf("%s: %w", filepath.Join(dir, "go.mod"), err)
	}
	return Artifact{
		Name:    "kube",
		Sources: []string{"hack/kube/*.go", "hack/kube/go.mod", "hack/kube/go.sum", "hack/cluster/pause/*.go"},
		Flags:   append([]string{t.version, goFlags, ldflags}, Programs...),
		Outputs: append([]string{"hyper", PauseTar}, Programs...),
		Cost:    "Kubernetes from source, about 10 minutes on two cores the first time, 20 s with a warm build cache",
		Build: func(ctx context.Context, out string) error {
			if err := t.build(ctx, dir, ".", ldflags, filepath.Join(out, "hyper")); err != nil {
				return err
			}
			if err := t.build(ctx, root, "./hack/cluster/pause", "-s -w", filepath.Join(out, "pause")); err != nil {
				return err
			}
			pause := archive.Image{Ref: layout.PauseImage, Program: "/pause", Source: filepath.Join(out, "pause")}
			return errors.Join(pause.Write(filepath.Join(out, PauseTar)), linkPrograms(out))
		},
	}, nil
}

func linkPrograms(dir string) error {
	for _, p := range Programs {
		if err := os.Symlink("hyper", filepath.Join(dir, p)); err != nil {
			return err
		}
	}
	return nil
}

// versionFlags stamps the Kubernetes version of go.mod into the binary, which
// would otherwise call itself v0.0.0-master.
func versionFlags(mod string) (string, error) {
	m := kubernetesVersion.FindStringSubmatch(mod)
	if m == nil {
		return "", errors.New("no line requires k8s.io/kubernetes")
	}
	const pkg = " -X k8s.io/component-base/version."
	return "-s -w" + pkg + "gitVersion=" + m[1] + pkg + "gitMajor=" + m[2] + pkg + "gitMinor=" + m[3], nil
}

func dnsArtifact(t toolchain, root string) Artifact {
	dir := filepath.Join(root, "hack", "coredns")
	return Artifact{
		Name:    "coredns",
		Sources: []string{"hack/coredns/*.go", "hack/coredns/go.mod", "hack/coredns/go.sum"},
		Flags:   []string{t.version, goFlags},
		Outputs: []string{DNSTar},
		Cost:    "about a minute the first time",
		Build: func(ctx context.Context, out string) error {
			program := filepath.Join(out, "coredns")
			if err := t.build(ctx, dir, ".", "-s -w", program); err != nil {
				return err
			}
			dns := archive.Image{Ref: layout.DNSImage, Program: "/coredns", Source: program}
			return dns.Write(filepath.Join(out, DNSTar))
		},
	}
}

// CacheState is where Go's caches are, and whether an earlier build filled them.
type CacheState struct {
	Build, Modules string
	Warm           bool
}

// Caches asks the Go command. The caches count as warm once the sources of
// Kubernetes are there: nothing else of the project brings those.
func Caches(ctx context.Context, root string) (CacheState, error) {
	t, err := findToolchain(ctx, root)
	if err != nil {
		return CacheState{}, err
	}
	cmd := exec.CommandContext(ctx, t.path, "env", "GOCACHE", "GOMODCACHE")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return CacheState{}, fmt.Errorf("ask for the Go caches: %w", err)
	}
	lines := strings.Split(string(out), "\n")
	if len(lines) < 2 {
		return CacheState{}, fmt.Errorf("go env printed %q instead of two folders", out)
	}
	s := CacheState{Build: lines[0], Modules: lines[1]}
	sources, err := filepath.Glob(filepath.Join(s.Modules, "k8s.io", "kubernetes@*"))
	s.Warm = err == nil && len(sources) > 0
	return s, nil
}
