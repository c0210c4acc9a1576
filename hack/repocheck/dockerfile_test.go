package repocheck

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
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
	workingDir string
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
		case *instructions.WorkdirCommand:
			image.workingDir = c.Path
		case *instructions.ArgCommand:
			// VERSION, for the label.
		case *instructions.LabelCommand:
			for _, pair := range c.Labels {
				image.labels[pair.Key] = strings.ReplaceAll(strings.Trim(pair.Value, `"`), "$", "")
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

// described is an entry of hack/image's table, as hack/image/describe prints it.
type described struct {
	Name       string
	Package    string
	Ports      []string
	Shipped    bool
	Entrypoint []string
	User       string
	WorkingDir string
	Labels     map[string]string
	Passwd     string
}

func describedImages(t *testing.T) []described {
	t.Helper()
	cmd := exec.Command("go", "run", "./hack/image/describe")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("print the table of images: %v", err)
	}
	var all []described
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// Two ways to the same image must end in the same image: what a deployment relies
// on (user, entrypoint, ports) may not depend on who built it.
func TestTheDockerfileMakesTheShippedImagesOfTheImageBuilder(t *testing.T) {
	shipped := 0
	for _, want := range describedImages(t) {
		if !want.Shipped {
			continue
		}
		shipped++
		got := imageOf(t, stageNamed(t, want.Name))
		if got.base != "scratch" {
			t.Errorf("%s: from %s, want scratch", want.Name, got.base)
		}
		if !slices.Equal(got.entrypoint, want.Entrypoint) {
			t.Errorf("%s: entrypoint %q, want %q", want.Name, got.entrypoint, want.Entrypoint)
		}
		if got.user != want.User || got.workingDir != want.WorkingDir {
			t.Errorf("%s: user %s in %s, want %s in %s", want.Name, got.user, got.workingDir, want.User, want.WorkingDir)
		}
		slices.Sort(want.Ports)
		if !slices.Equal(got.ports, want.Ports) {
			t.Errorf("%s: ports %q, want %q", want.Name, got.ports, want.Ports)
		}
		if !maps.Equal(got.labels, want.Labels) {
			t.Errorf("%s: labels\n%q, want\n%q", want.Name, got.labels, want.Labels)
		}
		wantCopies := []copied{{"build", "/rootfs/", "/"}, {"build", "/out/" + want.Name, "/" + want.Name}}
		if !slices.Equal(got.copies, wantCopies) {
			t.Errorf("%s: copies %v, want %v", want.Name, got.copies, wantCopies)
		}
		if !strings.Contains(buildScript(t), want.Package) {
			t.Errorf("the build stage does not build %s", want.Package)
		}
		if !strings.Contains(buildScript(t), "'"+strings.TrimSpace(want.Passwd)+"' > /rootfs/etc/passwd") {
			t.Errorf("the build stage does not write the /etc/passwd of %s: %q", want.Name, want.Passwd)
		}
	}
	if shipped == 0 {
		t.Error("hack/image ships no image: the table was not read")
	}
}

// buildScript is the text of the build stage's RUN commands.
func buildScript(t *testing.T) string {
	t.Helper()
	var script strings.Builder
	for _, command := range stageNamed(t, "build").Commands {
		if run, ok := command.(*instructions.RunCommand); ok {
			script.WriteString(strings.Join(run.CmdLine, " ") + "\n")
		}
	}
	return script.String()
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
