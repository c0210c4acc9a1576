package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/routerfleet/routerfleet/hack/image/spec"
)

// buildFlags are those of the whole repository, so that the build cache serves
// tests and images alike. -trimpath keeps the folder's name out of the programs.
const buildFlags = "-buildvcs=false -trimpath"

// buildPrograms builds the programs of all images with one command, which
// compiles what they share once.
func buildPrograms(ctx context.Context, root, dir string, o options) error {
	args := []string{"build", "-ldflags", "-s -w -X " + spec.VersionVariable + "=" + o.Version, "-o", dir + string(filepath.Separator)}
	for _, m := range o.Images {
		args = append(args, m.Package)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+o.Arch, "GOFLAGS="+buildFlags, "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}
