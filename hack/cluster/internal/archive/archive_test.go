package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T) (string, []byte) {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	if err := os.WriteFile(source, []byte("program"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "image.tar")
	if err := (Image{Ref: "example.com/a:1", Program: "/a", Source: source}).Write(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return dir, b
}

func unpack(t *testing.T, b []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheSameProgramGivesTheSameBytes(t *testing.T) {
	_, a := write(t)
	dir, b := write(t)
	if !bytes.Equal(a, b) {
		t.Error("two writes differ")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.new*")); len(left) > 0 {
		t.Errorf("drafts left: %v", left)
	}
}

func TestTheManifestNamesWhatTheArchiveHolds(t *testing.T) {
	_, b := write(t)
	files := unpack(t, b)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || manifest[0].RepoTags[0] != "example.com/a:1" {
		t.Fatalf("manifest %+v", manifest)
	}
	var config struct {
		Config struct {
			Entrypoint []string
			User       string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	layer := files[manifest[0].Layers[0]]
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(layer)); config.RootFS.DiffIDs[0] != want {
		t.Errorf("diff id %s, want %s", config.RootFS.DiffIDs[0], want)
	}
	if config.Config.User != User || config.Config.Entrypoint[0] != "/a" {
		t.Errorf("config %+v", config.Config)
	}
	if got := unpack(t, layer)["a"]; string(got) != "program" {
		t.Errorf("the program in the layer is %q", got)
	}
}
