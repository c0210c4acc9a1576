//go:build cluster

package main

import (
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func TestEnvtestRunsOnTheSameBinary(t *testing.T) {
	a, err := newApp("", os.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{BinaryAssetsDirectory: a.Bin() + "/kube"}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	version, err := client.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.Major != "1" || version.GitVersion == "v0.0.0-master" {
		t.Errorf("the API server calls itself %+v", version)
	}
}
