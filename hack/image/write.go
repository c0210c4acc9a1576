package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/routerfleet/routerfleet/hack/image/spec"
)

// Annotations of an index entry by which readers learn the image's name:
// containerd prefers the first, the OCI layout defines the second.
const (
	containerdName = "io.containerd.image.name"
	ociRefName     = "org.opencontainers.image.ref.name"
)

// writeImage writes one image under all its tags and returns its digest.
func writeImage(path string, m spec.Image, program []byte, o options) (v1.Hash, error) {
	img, err := newImage(m, program, o)
	if err != nil {
		return v1.Hash{}, err
	}
	files, err := archiveFiles(img, refs(m, o.Tags))
	if err != nil {
		return v1.Hash{}, err
	}
	digest, err := img.Digest()
	if err != nil {
		return v1.Hash{}, err
	}
	return digest, writeFile(path, files)
}

// newImage makes the image in memory: programs are some tens of megabytes.
func newImage(m spec.Image, program []byte, o options) (v1.Image, error) {
	content, err := pack([]entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, content: []byte(spec.Passwd)},
		{name: m.Name, mode: 0o755, content: program},
		{name: "tmp/", mode: 0o1777},
	}, o.Created)
	if err != nil {
		return nil, fmt.Errorf("pack the layer: %w", err)
	}
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{
		Layer:   static.NewLayer(content, types.OCIUncompressedLayer),
		History: v1.History{Created: v1.Time{Time: o.Created}, CreatedBy: "hack/image"},
	})
	if err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, configure(config.DeepCopy(), m, o))
}

func configure(c *v1.ConfigFile, m spec.Image, o options) *v1.ConfigFile {
	c.Architecture, c.OS = o.Arch, "linux"
	c.Created = v1.Time{Time: o.Created}
	c.Config = v1.Config{
		User:       spec.User,
		Entrypoint: m.Entrypoint(),
		WorkingDir: spec.WorkingDir,
		Env:        []string{"PATH=/"},
		Labels:     m.Labels(o.Version, o.Revision),
	}
	for _, p := range m.Ports {
		if c.Config.ExposedPorts == nil {
			c.Config.ExposedPorts = map[string]struct{}{}
		}
		c.Config.ExposedPorts[p] = struct{}{}
	}
	return c
}

// archiveFiles are the files of a tar that is an OCI layout (oci-layout,
// index.json) and a docker archive (manifest.json) over the same blobs.
func archiveFiles(img v1.Image, names []string) (map[string][]byte, error) {
	files, layers, err := blobs(img)
	if err != nil {
		return nil, err
	}
	index, err := layoutIndex(img, names).RawManifest()
	if err != nil {
		return nil, fmt.Errorf("describe the image: %w", err)
	}
	config, err := img.ConfigName()
	if err != nil {
		return nil, err
	}
	docker, err := json.Marshal([]map[string]any{{"Config": blobPath(config), "RepoTags": names, "Layers": layers}})
	if err != nil {
		return nil, err
	}
	files["oci-layout"] = []byte(`{"imageLayoutVersion":"1.0.0"}`)
	files["index.json"] = index
	files["manifest.json"] = docker
	return files, nil
}

// blobs are manifest, config and layers, by their paths in the archive.
func blobs(img v1.Image) (files map[string][]byte, layerPaths []string, err error) {
	manifest, err1 := img.RawManifest()
	digest, err2 := img.Digest()
	config, err3 := img.RawConfigFile()
	configName, err4 := img.ConfigName()
	layers, err5 := img.Layers()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, nil, fmt.Errorf("read the image: %w", err)
	}
	files = map[string][]byte{blobPath(digest): manifest, blobPath(configName): config}
	for _, l := range layers {
		content, hash, err := readLayer(l)
		if err != nil {
			return nil, nil, fmt.Errorf("read a layer: %w", err)
		}
		files[blobPath(hash)] = content
		layerPaths = append(layerPaths, blobPath(hash))
	}
	return files, layerPaths, nil
}

func readLayer(l v1.Layer) ([]byte, v1.Hash, error) {
	hash, err := l.Digest()
	if err != nil {
		return nil, hash, err
	}
	r, err := l.Compressed() // as the manifest names it, which here is not compressed
	if err != nil {
		return nil, hash, err
	}
	content, err := io.ReadAll(r)
	return content, hash, errors.Join(err, r.Close())
}

func blobPath(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// layoutIndex lists the image once for each name.
func layoutIndex(img v1.Image, names []string) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, n := range names {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Annotations: map[string]string{containerdName: n, ociRefName: n[strings.LastIndexByte(n, ':')+1:]},
		}})
	}
	return index
}

type entry struct {
	name    string // a folder's ends with a slash
	mode    int64
	content []byte
}

// pack writes a tar with fixed owners and times, sorted by name.
func pack(entries []entry, at time.Time) ([]byte, error) {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.content)), ModTime: at}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// writeFile packs the files and renames the result into place, so that nobody
// loads half an image.
func writeFile(path string, files map[string][]byte) error {
	var entries []entry
	for _, name := range slices.Sorted(maps.Keys(files)) {
		entries = append(entries, entry{name: name, mode: 0o644, content: files[name]})
	}
	content, err := pack(entries, time.Unix(0, 0))
	if err != nil {
		return err
	}
	draft, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(draft.Name()) }() // it is gone once renamed
	_, err = draft.Write(content)
	if err := errors.Join(err, draft.Chmod(0o644), draft.Close()); err != nil {
		return err
	}
	return os.Rename(draft.Name(), path)
}
