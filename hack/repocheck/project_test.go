package repocheck

import (
	"testing"

	"github.com/spf13/afero"
	"sigs.k8s.io/kubebuilder/v4/pkg/config/store/yaml"
	_ "sigs.k8s.io/kubebuilder/v4/pkg/config/v3" // registers version 3 of the format
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/resource"
)

func TestKubebuilderAcceptsPROJECT(t *testing.T) {
	store := yaml.New(machinery.Filesystem{FS: afero.NewBasePathFs(afero.NewOsFs(), root)})
	if err := store.Load(); err != nil {
		t.Fatalf("kubebuilder refuses PROJECT: %v", err)
	}
	project := store.Config()
	if got, want := project.GetRepository(), "github.com/routerfleet/routerfleet"; got != want {
		t.Errorf("repository %q, want %q", got, want)
	}
	kind := resource.GVK{Group: "", Domain: project.GetDomain(), Version: "v1alpha1", Kind: "RouterFleet"}
	found, err := project.GetResource(kind)
	if err != nil {
		t.Fatalf("PROJECT does not name %+v: %v", kind, err)
	}
	if err := found.Validate(); err != nil {
		t.Errorf("resource RouterFleet: %v", err)
	}
	if got, want := found.QualifiedGroup(), "routerfleet.io"; got != want {
		t.Errorf("API group %q, want %q", got, want)
	}
	if !found.HasAPI() || !found.HasController() {
		t.Errorf("RouterFleet has API %t and controller %t, want both", found.HasAPI(), found.HasController())
	}
}
