// Command lint is golangci-lint with kube-api-linter compiled in.
//
// golangci-lint's own way to add a plugin ("golangci-lint custom") clones its
// repository with git. Importing both as modules gives the same program from
// checksummed sources, in a module of its own so that none of its dependencies
// reach the operator's go.mod.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/golangci/golangci-lint/v2/pkg/commands"
	"github.com/golangci/golangci-lint/v2/pkg/exitcodes"

	_ "sigs.k8s.io/kube-api-linter" // registers the linter "kubeapilinter"
)

// version is what "golangci-lint version" prints; keep it equal to go.mod.
const version = "2.15.0"

func main() {
	if err := commands.Execute(commands.BuildInfo{Version: version, GoVersion: runtime.Version()}); err != nil {
		fmt.Fprintln(os.Stderr, "golangci-lint:", err)
		os.Exit(exitcodes.Failure)
	}
}
