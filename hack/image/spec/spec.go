// Package spec describes the project's images, each once. The image builder
// makes them from this table, and a test compares the Dockerfile with it.
package spec

import (
	"fmt"
	"strings"
)

// Every image has these in common.
const (
	// Registry is the first part of every image's name. Nothing listens there:
	// images are loaded into clusters as files.
	Registry = "routerfleet.io"
	// User and group that programs run as, by number so that a kubelet can see
	// that it is not root.
	User = "65532:65532"
	// Passwd is the content of /etc/passwd: a name for the user.
	Passwd = "nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
	// WorkingDir is where programs start.
	WorkingDir = "/"
	// Source is where the code is.
	Source = "https://github.com/routerfleet/routerfleet"
	// Licenses is an SPDX expression.
	Licenses = "Apache-2.0"
	// VersionVariable is stamped by the linker.
	VersionVariable = "github.com/routerfleet/routerfleet/internal/version.Version"
)

// Image describes one image: a static program, /etc/passwd and /tmp.
type Image struct {
	Name        string   // last part of the image's name, and name of the program
	Package     string   // main package, relative to the repository
	Ports       []string // "30000/tcp": what it listens on by default
	Description string
	Shipped     bool // false for what only tests and the demo run
}

// Images lists all images, sorted by name.
var Images = []Image{
	{
		Name: "enginesim", Package: "./test/enginesim/cmd/enginesim", Ports: []string{"8000/tcp"},
		Description: "Engine double of RouterFleet: an OpenAI-style server with a paged prefix cache and a clock, without a model",
	},
	{
		Name: "loadgen", Package: "./test/loadgen/cmd/loadgen",
		Description: "Load generator of RouterFleet: replays a conversation trace against a router",
	},
	{
		Name: "manager", Package: "./cmd/manager", Shipped: true,
		Description: "Operator of RouterFleet: runs fleets of KV-cache-aware LLM routers on Kubernetes",
	},
	{
		Name: "router", Package: "./cmd/router", Ports: []string{"30000/tcp", "9400/tcp"}, Shipped: true,
		Description: "Router of RouterFleet: forwards OpenAI-style traffic to the engine that holds the prompt's prefix",
	},
}

// Find returns the image of a name.
func Find(name string) (Image, error) {
	names := make([]string, len(Images))
	for i, m := range Images {
		if m.Name == name {
			return m, nil
		}
		names[i] = m.Name
	}
	return Image{}, fmt.Errorf("there is no image %q: there are %s", name, strings.Join(names, ", "))
}

// Program is the path of the program in the image.
func (m Image) Program() string { return "/" + m.Name }

// Entrypoint starts the program; arguments come from whoever runs it.
func (m Image) Entrypoint() []string { return []string{m.Program()} }

// Ref is the image's full name with a tag.
func (m Image) Ref(tag string) string { return Registry + "/" + m.Name + ":" + tag }

// Labels are the image's annotations by the OCI's names. An unknown revision has
// no label.
func (m Image) Labels(version, revision string) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       m.Name,
		"org.opencontainers.image.description": m.Description,
		"org.opencontainers.image.source":      Source,
		"org.opencontainers.image.licenses":    Licenses,
		"org.opencontainers.image.version":     version,
	}
	if revision != "" {
		labels["org.opencontainers.image.revision"] = revision
	}
	return labels
}
