package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/routerfleet/routerfleet/hack/image/spec"
)

var hello = spec.Image{Name: "hello", Package: "./hack/image/testdata/hello", Ports: []string{"30000/tcp", "9400/tcp"}, Description: "A test"}

func testOptions(t *testing.T, args ...string) options {
	t.Helper()
	o, err := parseOptions(args, "")
	if err != nil {
		t.Fatal(err)
	}
	o.Images = []spec.Image{hello}
	return o
}

// build builds the test program from the checkout at root, and its image.
func build(t *testing.T, root string, o options) (path string, digest v1.Hash) {
	t.Helper()
	dir := t.TempDir()
	if err := buildPrograms(t.Context(), root, dir, o); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(dir, hello.Name))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "hello.tar")
	digest, err = writeImage(path, hello, program, o)
	if err != nil {
		t.Fatal(err)
	}
	return path, digest
}

// copyCheckout makes a second checkout with what the test program is made of.
func copyCheckout(t *testing.T, root string) string {
	t.Helper()
	second := t.TempDir()
	for _, f := range []string{"go.mod", "go.sum", "internal/version/version.go", "hack/image/testdata/hello/main.go"} {
		b, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(second, f)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return second
}

func checkout(t *testing.T) string {
	t.Helper()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestTheSameSourcesInAnotherFolderGiveTheSameBytes(t *testing.T) {
	root := checkout(t)
	pathA, digestA := build(t, root, testOptions(t))
	pathB, digestB := build(t, copyCheckout(t, root), testOptions(t))
	if digestA != digestB {
		t.Errorf("digests %s and %s", digestA, digestB)
	}
	a, errA := os.ReadFile(pathA)
	b, errB := os.ReadFile(pathB)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if !bytes.Equal(a, b) {
		t.Error("the files differ")
	}
}

func TestAnotherVersionIsAnotherImage(t *testing.T) {
	root := checkout(t)
	_, dev := build(t, root, testOptions(t))
	_, next := build(t, root, testOptions(t, "--tag", "next"))
	if dev == next {
		t.Errorf("both versions have the digest %s", dev)
	}
}

func TestTheProgramIsStaticAndKnowsItsVersion(t *testing.T) {
	o := testOptions(t, "--version", "1.2.3")
	dir := t.TempDir()
	if err := buildPrograms(t.Context(), checkout(t), dir, o); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, hello.Name)
	out, err := exec.Command(path).Output()
	if err != nil || string(out) != "hello 1.2.3\n" {
		t.Errorf("it says %q (%v)", out, err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // only read
	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("it needs %v (%v)", libraries, err)
	}
}

func TestTheConfigSaysWhatTheTableSays(t *testing.T) {
	img, err := newImage(hello, []byte("program"), testOptions(t, "--version", "1.2.3", "--revision", "abc"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(img, validate.Fast); err != nil {
		t.Error(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c.Config.User != spec.User || !slices.Equal(c.Config.Entrypoint, []string{"/hello"}) || c.Config.WorkingDir != "/" {
		t.Errorf("config %+v", c.Config)
	}
	for _, port := range hello.Ports {
		if _, ok := c.Config.ExposedPorts[port]; !ok {
			t.Errorf("port %s is missing", port)
		}
	}
	for label, want := range hello.Labels("1.2.3", "abc") {
		if got := c.Config.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	if !c.Created.Time.Equal(time.Unix(0, 0)) {
		t.Errorf("created %s, want the epoch", c.Created)
	}
}

func TestTheLayerHoldsTheProgramAUserAndATemporaryFolder(t *testing.T) {
	img, err := newImage(hello, []byte("program"), testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatal(len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	got := list(t, r)
	want := []string{"etc/ 0755 0", "etc/passwd 0644 0 " + spec.Passwd, "hello 0755 0 program", "tmp/ 1777 0"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// list renders a tar's entries as name, mode, owner, content.
func list(t *testing.T, r io.Reader) []string {
	t.Helper()
	var entries []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%s %04o %d", h.Name, h.Mode, h.Uid)
		if len(content) > 0 {
			line += " " + string(content)
		}
		entries = append(entries, line)
		if !h.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%s has the time %s", h.Name, h.ModTime)
		}
	}
}

func TestEveryTagNamesTheImageForDockerAndForOCIReaders(t *testing.T) {
	path, digest := build(t, checkout(t), testOptions(t, "--tag", "dev", "--tag", "v1"))
	for _, tag := range []string{"dev", "v1"} {
		ref, err := name.NewTag(hello.Ref(tag))
		if err != nil {
			t.Fatal(err)
		}
		img, err := tarball.ImageFromPath(path, &ref)
		if err != nil {
			t.Fatalf("docker reader, tag %s: %v", tag, err)
		}
		if err := validate.Image(img, validate.Fast); err != nil {
			t.Errorf("docker reader, tag %s: %v", tag, err)
		}
	}
	index, err := layout.ImageIndexFromPath(extract(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index, validate.Fast); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range manifest.Manifests {
		names = append(names, d.Annotations[containerdName])
		if d.Digest != digest {
			t.Errorf("%v has the digest %s, want %s", d.Annotations, d.Digest, digest)
		}
	}
	if want := refs(hello, []string{"dev", "v1"}); !slices.Equal(names, want) {
		t.Errorf("names %v, want %v", names, want)
	}
}

func extract(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // only read
	dir := t.TempDir()
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBadOptionsAreAllReportedAtOnce(t *testing.T) {
	_, err := parseOptions([]string{"--tag", "no tag", "--version", "a b", "nothing"}, "yesterday")
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{`tag "no tag"`, `version "a b"`, `no image "nothing"`, "SOURCE_DATE_EPOCH"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
}

// The library's full validation takes every layer for compressed, so the content
// is checked here.
func TestEveryBlobIsNamedAfterItsContent(t *testing.T) {
	img, err := newImage(hello, []byte("program"), testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	files, err := archiveFiles(img, []string{hello.Ref("dev")})
	if err != nil {
		t.Fatal(err)
	}
	blobs := 0
	for path, content := range files {
		if hex, ok := strings.CutPrefix(path, "blobs/sha256/"); ok {
			blobs++
			if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != hex {
				t.Errorf("%s has the digest %s", path, got)
			}
		}
	}
	if blobs != 3 {
		t.Errorf("%d blobs, want manifest, config and layer", blobs)
	}
}

func TestTheManifestForDockerNamesFilesThatExist(t *testing.T) {
	img, err := newImage(hello, []byte("program"), testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	files, err := archiveFiles(img, []string{hello.Ref("dev")})
	if err != nil {
		t.Fatal(err)
	}
	var manifest []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	for _, f := range append(manifest[0].Layers, manifest[0].Config) {
		if _, ok := files[f]; !ok {
			t.Errorf("%s is not in the archive", f)
		}
	}
}
