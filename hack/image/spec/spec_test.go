package spec

import (
	"path"
	"regexp"
	"slices"
	"testing"
)

func TestEveryImageIsComplete(t *testing.T) {
	name, port := regexp.MustCompile(`^[a-z]+$`), regexp.MustCompile(`^\d+/tcp$`)
	var names []string
	for _, m := range Images {
		names = append(names, m.Name)
		if !name.MatchString(m.Name) || m.Description == "" {
			t.Errorf("%+v is not complete", m)
		}
		// One `go build` names several programs after the last part of their paths.
		if path.Base(m.Package) != m.Name {
			t.Errorf("the package %s builds no program called %s", m.Package, m.Name)
		}
		for _, p := range m.Ports {
			if !port.MatchString(p) {
				t.Errorf("%s: port %q", m.Name, p)
			}
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("images are not sorted: %v", names)
	}
}

func TestAnUnknownImageIsRefusedWithTheKnownOnes(t *testing.T) {
	if _, err := Find("nothing"); err == nil || !regexp.MustCompile(`manager.*router`).MatchString(err.Error()) {
		t.Errorf("got %v", err)
	}
}

func TestAnUnknownRevisionHasNoLabel(t *testing.T) {
	const label = "org.opencontainers.image.revision"
	if v, ok := Images[0].Labels("1", "")[label]; ok {
		t.Errorf("the label says %q", v)
	}
	if v := Images[0].Labels("1", "abc")[label]; v != "abc" {
		t.Errorf("the label says %q, want abc", v)
	}
}
