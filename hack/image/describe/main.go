// Command describe prints the table of images as JSON, for checks that live in
// other modules (hack/repocheck compares the Dockerfile with it).
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/routerfleet/routerfleet/hack/image/spec"
)

// description is an image with what its config says.
type description struct {
	spec.Image
	Entrypoint []string
	User       string
	WorkingDir string
	Labels     map[string]string // of version "VERSION", without a revision
	Passwd     string
}

func main() {
	var all []description
	for _, image := range spec.Images {
		all = append(all, description{
			Image: image, Entrypoint: image.Entrypoint(), User: spec.User, WorkingDir: spec.WorkingDir,
			Labels: image.Labels("VERSION", ""), Passwd: spec.Passwd,
		})
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(all); err != nil {
		fmt.Fprintln(os.Stderr, "describe:", err)
		os.Exit(1)
	}
}
