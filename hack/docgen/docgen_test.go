package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheReferencePagesAreWhatTheCodeSays(t *testing.T) {
	if err := run("../..", true); err != nil {
		t.Error(err)
	}
}

func TestACheckSeesAChangedAndAMissingPage(t *testing.T) {
	root := t.TempDir()
	if err := run(root, true); err == nil {
		t.Error("missing pages were accepted")
	}
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err != nil {
		t.Errorf("pages just written: %v", err)
	}
	path := filepath.Join(root, pages[0].path)
	if err := os.WriteFile(path, []byte("edited"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err == nil || !strings.Contains(err.Error(), pages[0].path) {
		t.Errorf("an edited page: %v", err)
	}
}
