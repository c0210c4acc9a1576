package children

import (
	"bytes"
	"testing"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

// Whatever a user may write: what a revision stores means the same as what it
// was made from, and storing it again gives the same bytes.
func TestRandomSpecsSurviveTheirRevision(t *testing.T) {
	for seed := range int64(300) {
		spec := randomSpec(seed)
		data, err := canonical(rolloutRelevant(spec))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		back, err := expand(data)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again, err := canonical(rolloutRelevant(back))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !bytes.Equal(data, again) {
			t.Fatalf("seed %d: stored\n%s\nread back and stored again\n%s", seed, data, again)
		}
	}
}

func randomSpec(seed int64) v1alpha1.RouterFleetSpec {
	quantities := []string{"1", "1000m", "2048Mi", "2Gi", "0.5", "1e3", "0", "1536Ki", "3n"}
	fill := randfill.NewWithSeed(seed).NilChance(0.6).NumElements(0, 2).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse(quantities[c.Intn(len(quantities))])
		},
		func(p *intstr.IntOrString, c randfill.Continue) {
			*p = intstr.FromString("http")
			if c.Bool() {
				*p = intstr.FromInt32(c.Int31n(65535) + 1)
			}
		},
		// The metadata of a volume claim template: API servers fill its times, not users.
		func(*metav1.ObjectMeta, randfill.Continue) {},
	)
	var spec v1alpha1.RouterFleetSpec
	fill.Fill(&spec)
	if seed%2 == 0 {
		spec.Drain, spec.Resources = v1alpha1.DrainSpec{}, corev1.ResourceRequirements{}
	}
	if plain := spec.Workers.Plain; plain != nil {
		plain.Selector = metav1.LabelSelector{MatchLabels: map[string]string{"app": "engine"}} // never empty, by schema
	}
	spec.Default()
	return spec
}
