// Package archive writes an image of one static program as a docker-archive tar,
// which containerd, Docker and kind load.
//
// It serves the two images the cluster itself runs, with the standard library
// alone, so that building this program compiles nothing else. The project's
// images are made by hack/image.
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
	"runtime"
)

// User is the user and group the image's program runs as.
const User = "65532:65532"

// Image is an image of one program, which is also its entrypoint.
type Image struct {
	Ref     string // full name with tag
	Program string // path of the program in the image
	Source  string // path of the program on this machine
}

type file struct {
	name    string
	mode    int64
	content []byte // nil for a directory
}

// Write writes the image to a file. The same program gives the same bytes.
func (m Image) Write(path string) error {
	program, err := os.ReadFile(m.Source)
	if err != nil {
		return fmt.Errorf("read the program of image %s: %w", m.Ref, err)
	}
	layer, err := pack([]file{
		{name: "etc/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/:/\nnonroot:x:65532:65532:nonroot:/:/\n")},
		{name: "tmp/", mode: 0o1777},
		{name: filepath.Base(m.Program), mode: 0o755, content: program},
	})
	if err != nil {
		return fmt.Errorf("pack image %s: %w", m.Ref, err)
	}
	config, err := m.config(layer)
	if err != nil {
		return err
	}
	image, err := m.bundle(config, layer)
	if err != nil {
		return err
	}
	return writeAtomically(path, image)
}

func (m Image) config(layer []byte) ([]byte, error) {
	return json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{m.Program}, "User": User, "WorkingDir": "/"},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
}

func (m Image) bundle(config, layer []byte) ([]byte, error) {
	configName := digest(config) + ".json"
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": configName, "RepoTags": []string{m.Ref}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return nil, err
	}
	return pack([]file{
		{name: configName, mode: 0o644, content: config},
		{name: "layer.tar", mode: 0o644, content: layer},
		{name: "manifest.json", mode: 0o644, content: manifest},
	})
}

func pack(files []file) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		if f.content == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func digest(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// writeAtomically never leaves half a file under the final name.
func writeAtomically(path string, content []byte) error {
	draft, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(draft.Name()) }() // fails once renamed
	if _, err := io.Copy(draft, bytes.NewReader(content)); err != nil {
		_ = draft.Close() // the copy's error says more
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := draft.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(draft.Name(), path)
}
