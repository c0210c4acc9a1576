package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeKind puts a kind on PATH that notes its arguments and its input, and a
// docker that ends with the exit code.
func fakeKind(t *testing.T, dockerExit string) (notes func() string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	for name, script := range map[string]string{
		"kind":   "#!/bin/sh\n{ echo \"kind $*\"; cat; } >> " + log + "\n",
		"docker": "#!/bin/sh\necho docker says no\nexit " + dockerExit + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return func() string {
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

func TestAKindClusterGoesThroughTheSameVerbs(t *testing.T) {
	notes := fakeKind(t, "0")
	t.Setenv("CLUSTER", "kind")
	a := newTestApp(t)
	tar := filepath.Join(t.TempDir(), "router.tar")
	if err := os.WriteFile(tar, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := a.up(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := a.load(t.Context(), []string{tar}); err != nil {
		t.Fatal(err)
	}
	if err := a.downVerb(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"kind create cluster --config - --kubeconfig " + a.Kubeconfig() + " --wait 120s --name " + a.kindName() + "\nkind: Cluster\n",
		"kind load image-archive " + tar + " --name " + a.kindName() + "\n",
	} {
		if !strings.Contains(notes(), want) {
			t.Errorf("%q is missing in\n%s", want, notes())
		}
	}
	if !strings.HasSuffix(notes(), "kind delete cluster --name "+a.kindName()+"\n") {
		t.Errorf("the last command did not delete the cluster:\n%s", notes())
	}
	if _, err := os.Stat(a.State); !os.IsNotExist(err) {
		t.Errorf("the state folder is left (%v)", err)
	}
}

func TestKindIsUsedOnlyWhereItWorksAndIsWanted(t *testing.T) {
	for _, tc := range []struct {
		name, cluster, dockerExit string
		root, want, fails         bool
	}{
		{name: "root, not asked for", dockerExit: "0", root: true},
		{name: "root, asked for", cluster: "kind", dockerExit: "0", root: true, want: true},
		{name: "root, asked for, no Docker", cluster: "kind", dockerExit: "1", root: true, fails: true},
		{name: "a user with Docker", dockerExit: "0", want: true},
		{name: "a user without Docker", dockerExit: "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fakeKind(t, tc.dockerExit)
			t.Setenv("CLUSTER", tc.cluster)
			got, err := useKind(t.Context(), tc.root)
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("got %v, %v", got, err)
			}
			if err != nil && !strings.Contains(err.Error(), "docker says no") {
				t.Errorf("the error hides what Docker said: %v", err)
			}
		})
	}
}
