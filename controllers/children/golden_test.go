package children

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

// A fleet in, every child out. The files also pin the revision hashes: a diff in
// one means that upgrading the operator rolls fleets, unless RenderVersion rose.
func TestChildrenEqualTheGoldenFiles(t *testing.T) {
	fleets, err := filepath.Glob("testdata/*/fleet.yaml")
	if err != nil || len(fleets) == 0 {
		t.Fatalf("found %d fleets, %v", len(fleets), err)
	}
	for _, path := range fleets {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			got := renderAll(t, readFleet(t, path))
			golden := filepath.Join(filepath.Dir(path), "children.golden.yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("children differ (-golden +got); go test -update writes them:\n%s", diff)
			}
		})
	}
}

func readFleet(t testing.TB, path string) *v1alpha1.RouterFleet {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &v1alpha1.RouterFleet{}
	if err := yaml.UnmarshalStrict(raw, f); err != nil {
		t.Fatal(err)
	}
	return f
}

// renderAll is every child as a stream of documents, in the order they are
// applied.
func renderAll(t testing.TB, f *v1alpha1.RouterFleet) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, object := range allOf(t, f) {
		document, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "---\n%s", document)
	}
	return out.Bytes()
}

// allOf is every child. The tokens Secret is filled from a reader of zeroes.
func allOf(t testing.TB, f *v1alpha1.RouterFleet) []any {
	t.Helper()
	r := revisionOf(t, f)
	rs, err := ReplicaSet(f, r, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := Tokens(f, nil, zeroes{})
	if err != nil {
		t.Fatal(err)
	}
	objects := []any{}
	for _, child := range Steady(f) {
		objects = append(objects, child.Apply)
	}
	objects = append(objects, secret, ControllerRevision(f, r, 1))
	models, has, err := ModelsFile(f, r)
	if err != nil {
		t.Fatal(err)
	}
	if has {
		objects = append(objects, models.Apply)
	}
	return append(objects, rs)
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Map order changes with every iteration: a thousand renders see many of them.
func TestRenderingIsTheSameBytesAThousandTimes(t *testing.T) {
	f := readFleet(t, "testdata/production/fleet.yaml")
	encode := func() []byte { // not YAML, which takes longer than everything else
		raw, err := json.Marshal(allOf(t, f))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	want := encode()
	for i := range 1000 {
		if got := encode(); !bytes.Equal(want, got) {
			t.Fatalf("render %d differs:\n%s", i, cmp.Diff(string(want), string(got)))
		}
	}
}

func TestRenderingLeavesTheFleetAlone(t *testing.T) {
	f := readFleet(t, "testdata/production/fleet.yaml")
	before := f.DeepCopy()
	renderAll(t, f)
	if diff := cmp.Diff(before, f); diff != "" {
		t.Errorf("the caller's fleet, maybe of a shared cache, was changed:\n%s", diff)
	}
}
