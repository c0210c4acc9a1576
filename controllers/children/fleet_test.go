package children

import (
	"testing"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fleet is the smallest fleet, as it comes out of an API server.
func fleet(changes ...func(*v1alpha1.RouterFleet)) *v1alpha1.RouterFleet {
	f := &v1alpha1.RouterFleet{
		ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "ns", UID: "uid-1"},
		Spec: v1alpha1.RouterFleetSpec{
			Image: "router:1",
			Workers: v1alpha1.WorkersSpec{Plain: &v1alpha1.PlainDiscovery{
				Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "engine"}},
			}},
		},
	}
	f.Spec.Default()
	for _, change := range changes {
		change(f)
	}
	return f
}

func revisionOf(t testing.TB, f *v1alpha1.RouterFleet) Revision {
	t.Helper()
	r, err := RevisionOf(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
