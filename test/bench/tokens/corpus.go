package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/routerfleet/routerfleet/test/npm"
)

// The texts.
const (
	prose = "prose" // docs/**/*.md
	code  = "code"  // router/**/*.go
)

// maxCorpus bounds the bytes of a corpus: more than a processor's nearest caches, less than a second of encoding.
const maxCorpus = 1 << 20

// corpus reads the texts of a kind, each file one text.
func corpus(kind string) (texts []string, err error) {
	folder, ending := "docs", ".md"
	if kind == code {
		folder, ending = "router", ".go"
	}
	root, err := npm.Repository()
	if err != nil {
		return nil, err
	}
	total := 0
	err = filepath.WalkDir(filepath.Join(root, folder), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ending) || total > maxCorpus {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		texts, total = append(texts, string(text)), total+len(text)
		return nil
	})
	if err == nil && total < maxCorpus/10 {
		err = fmt.Errorf("%d bytes of %s in %s are too few to measure with", total, kind, folder)
	}
	return texts, err
}
