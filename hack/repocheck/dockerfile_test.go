package repocheck

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// dockerImage is what a stage of the Dockerfile makes of an image's config.
type dockerImage struct {
	base       string
	entrypoint []string
	user       string
	ports      []string // as in "9400/tcp", sorted
	labels     map[string]string
	copies     []copied
}

type copied struct{ stage, from, to string }

// dockerStages parses the Dockerfile with the parser that builds it.
func dockerStages(t *testing.T) []instructions.Stage {
	t.Helper()
	file, err := parser.Parse(strings.NewReader(read(t, "Dockerfile")))
	if err != nil {
		t.Fatal(err)
	}
	stages, _, err := instructions.Parse(file.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	return stages
}

// stageNamed returns the stage that "docker build --target NAME" ends with.
func stageNamed(t *testing.T, name string) instructions.Stage {
	t.Helper()
	stages := dockerStages(t)
	i := slices.IndexFunc(stages, func(s instructions.Stage) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("the Dockerfile has no target %q", name)
	}
	return stages[i]
}

func imageOf(t *testing.T, s instructions.Stage) dockerImage {
	t.Helper()
	image := dockerImage{base: s.BaseName, labels: map[string]string{}}
	for _, command := range s.Commands {
		switch c := command.(type) {
		case *instructions.EntrypointCommand:
			if c.PrependShell {
				t.Errorf("target %s: the entrypoint needs a shell, and the image has none", s.Name)
			}
			image.entrypoint = c.CmdLine
		case *instructions.UserCommand:
			image.user = c.User
		case *instructions.ExposeCommand:
			image.ports = append(image.ports, c.Ports...)
		case *instructions.LabelCommand:
			for _, pair := range c.Labels {
				image.labels[pair.Key] = pair.Value
			}
		case *instructions.CopyCommand:
			for _, from := range c.SourcePaths {
				image.copies = append(image.copies, copied{c.From, from, c.DestPath})
			}
		default:
			t.Errorf("target %s: %s changes the image in a way that this test does not compare", s.Name, command.Name())
		}
	}
	slices.Sort(image.ports)
	return image
}

func TestTheDockerfileBuildsWithTheGoOfTheModule(t *testing.T) {
	want := "golang:" + minor(parseModule(t, "go.mod"))
	if got := stageNamed(t, "build").BaseName; got != want {
		t.Errorf("the build stage is from %s, want %s", got, want)
	}
}

// The environment of the build stage is that of every other build here.
func TestTheDockerfileBuildsStaticReproducibleBinaries(t *testing.T) {
	got := map[string]string{}
	for _, command := range stageNamed(t, "build").Commands {
		if env, ok := command.(*instructions.EnvCommand); ok {
			for _, pair := range env.Env {
				got[pair.Key] = strings.Trim(pair.Value, `"`)
			}
		}
	}
	want := map[string]string{"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -trimpath"}
	if !maps.Equal(got, want) {
		t.Errorf("the build stage's environment is %v, want %v", got, want)
	}
}
