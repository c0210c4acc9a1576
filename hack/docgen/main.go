// Command docgen writes the reference pages that are generated from code, so that they cannot disagree with it:
//
//	go run ./hack/docgen          writes every page
//	go run ./hack/docgen --check  fails when a page is not what the code says
//
// A page is one entry of the table below and one file beside this one. Run it from the root of the repository.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// page is one generated file.
type page struct {
	path  string // from the root of the repository
	write func(io.Writer) error
}

var pages = []page{
	{"docs/reference/api.md", apiReference},
	{"docs/reference/manager-flags.md", managerFlags},
	{"docs/reference/router-flags.md", routerFlags},
}

func main() {
	check := flag.Bool("check", false, "fail when a page differs instead of writing it")
	flag.Parse()
	if err := run(".", *check); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

// run writes or checks the pages below root and reports every page that is wrong.
func run(root string, check bool) error {
	var faults []error
	for _, p := range pages {
		var text bytes.Buffer
		if err := p.write(&text); err != nil {
			faults = append(faults, fmt.Errorf("generate %s: %w", p.path, err))
			continue
		}
		faults = append(faults, settle(filepath.Join(root, p.path), text.Bytes(), check))
	}
	return errors.Join(faults...)
}

func settle(path string, want []byte, check bool) error {
	if !check {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, want, 0o644)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s is not what the code says: run go run ./hack/docgen", path)
	}
	return nil
}
