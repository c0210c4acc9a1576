//go:build envtest

package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// modelRules are the rules of spec.models.
var modelRules = []rule{
	{
		message: "modelID and models exclude each other",
		accept:  func(f *v1alpha1.RouterFleet) { f.Spec.ModelID = "a" },
		reject: func(f *v1alpha1.RouterFleet) {
			f.Spec.ModelID, f.Spec.Models = "a", []v1alpha1.ModelSpec{{Name: "a"}}
		},
	}, {
		message: "names and aliases must be unique",
		accept:  withModels(served("a", "c"), served("b", "d")),
		reject:  withModels(served("a", "c"), served("b", "c")),
	}, {
		message: "a split must lead to names",
		accept:  withModels(served("a", "c"), divided("b", "a", 1)),
		reject:  withModels(served("a", "c"), divided("b", "c", 1)),
	}, {
		message: "each of several models needs a selector",
		accept:  withModels(v1alpha1.ModelSpec{Name: "a"}, divided("b", "a", 1)),
		reject:  withModels(v1alpha1.ModelSpec{Name: "a"}, served("b")),
	}, {
		message: "split needs a weight above 0",
		accept:  withModels(served("a"), divided("b", "a", 1)),
		reject:  withModels(served("a"), divided("b", "a", 0)),
	}, {
		message: "a model whose split does not lead to itself",
		accept: func(f *v1alpha1.RouterFleet) {
			b := divided("b", "b", 1)
			b.Selector = served("b").Selector
			withModels(served("a"), b)(f)
		},
		reject: func(f *v1alpha1.RouterFleet) {
			b := divided("b", "a", 1)
			b.Selector = served("b").Selector
			withModels(served("a"), b)(f)
		},
	}, {
		message: "selector must not be empty: leave it out",
		accept:  withModels(v1alpha1.ModelSpec{Name: "a", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}),
		reject:  withModels(v1alpha1.ModelSpec{Name: "a", Selector: metav1.LabelSelector{MatchLabels: map[string]string{}}}),
	}, {
		message: "tokenizer needs one of path and configMap",
		accept:  withModels(v1alpha1.ModelSpec{Name: "a", Tokenizer: v1alpha1.ModelTokenizer{Path: "/t"}}),
		reject:  withModels(v1alpha1.ModelSpec{Name: "a", Tokenizer: v1alpha1.ModelTokenizer{Path: "/t", ConfigMap: "t"}}),
	}, {
		message: "keys must be label keys",
		accept:  staticLabels(map[string]v1alpha1.LabelValue{"example.com/app_1": "x", "a": ""}),
		reject:  staticLabels(map[string]v1alpha1.LabelValue{"-app": "x"}),
	},
}

// served is a model with a selector.
func served(name string, aliases ...string) v1alpha1.ModelSpec {
	return v1alpha1.ModelSpec{
		Name: name, Aliases: aliases, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"model": name}},
	}
}

// divided is a name whose requests go to one target.
func divided(name, target string, weight int32) v1alpha1.ModelSpec {
	return v1alpha1.ModelSpec{Name: name, Split: []v1alpha1.ModelTarget{{Model: target, Weight: ptr.To(weight)}}}
}

func withModels(models ...v1alpha1.ModelSpec) func(*v1alpha1.RouterFleet) {
	return func(f *v1alpha1.RouterFleet) { f.Spec.Models = models }
}

func staticLabels(labels map[string]v1alpha1.LabelValue) func(*v1alpha1.RouterFleet) {
	return func(f *v1alpha1.RouterFleet) {
		f.Spec.Workers = staticWorkers("http://10.0.0.1:8000")
		f.Spec.Workers.Static[0].Labels = labels
	}
}

func TestModelsThatCannotBeMeantAreRefused(t *testing.T) {
	for what, models := range map[string][]v1alpha1.ModelSpec{
		"without a name":                 {{Aliases: []string{"a"}}},
		"a name with a line break":       {{Name: "a\nb"}},
		"a name with a space at its end": {{Name: "a "}},
		"a name too long":                {{Name: strings.Repeat("n", 254)}},
		"a name twice":                   {served("a"), served("a")},
		"an alias twice in one model":    {served("a", "b", "b")},
		"an alias that is its own name":  {served("a", "a")},
		"an alias that is a name":        {served("a", "b"), served("b")},
		"too many aliases":               {served("a", "1", "2", "3", "4", "5", "6", "7", "8", "9")},
		"too many models":                many(33),
		"a split of a split":             {served("a"), divided("b", "a", 1), divided("c", "b", 1)},
		"a split to nobody":              {served("a"), divided("b", "d", 1)},
		"a weight too high":              {served("a"), divided("b", "a", 1001)},
		"a negative weight":              {served("a"), divided("b", "a", -1)},
		"no weight":                      {served("a"), {Name: "b", Split: []v1alpha1.ModelTarget{{Model: "a"}}}},
		"a target twice": {served("a"), {Name: "b", Split: []v1alpha1.ModelTarget{
			{Model: "a", Weight: ptr.To[int32](1)}, {Model: "a", Weight: ptr.To[int32](2)}}}},
		"a relative path":     {{Name: "a", Tokenizer: v1alpha1.ModelTokenizer{Path: "t/x"}}},
		"a bad ConfigMap":     {{Name: "a", Tokenizer: v1alpha1.ModelTokenizer{ConfigMap: "A_b"}}},
		"a split's tokenizer": {served("a"), {Name: "b", Split: divided("b", "a", 1).Split, Tokenizer: v1alpha1.ModelTokenizer{Path: "/t"}}},
	} {
		f := minimal("models")
		f.Spec.Models = models
		if err := tryCreate(f); err == nil {
			t.Errorf("%s is let through", what)
		}
	}
}

// All limits at once: the rules must also be affordable there.
func TestAFleetMayHaveAllTheModelsThereMayBe(t *testing.T) {
	f := minimal("models")
	f.Spec.Models = many(32)
	last := &f.Spec.Models[31]
	for i := range 8 {
		last.Split = append(last.Split, v1alpha1.ModelTarget{Model: f.Spec.Models[24+i].Name, Weight: ptr.To[int32](1000)})
	}
	if err := tryCreate(f); err != nil {
		t.Fatal(err)
	}
}

// many are models with 8 aliases each and all names as long as they may be.
func many(n int) (models []v1alpha1.ModelSpec) {
	name := func(i, k int) string { return fmt.Sprintf("%s%03d-%d", strings.Repeat("n", 247), i, k) }
	for i := range n {
		m := served(name(i, 0))
		m.Selector.MatchLabels = map[string]string{"model": fmt.Sprint(i)}
		for k := range 8 {
			m.Aliases = append(m.Aliases, name(i, k+1))
		}
		models = append(models, m)
	}
	return models
}

// Static workers without labels are told apart by what they report.
func TestStaticFleetsNeedNoSelectors(t *testing.T) {
	f := minimal("models")
	f.Spec.Workers = staticWorkers("http://10.0.0.1:8000")
	f.Spec.Models = []v1alpha1.ModelSpec{{Name: "a"}, {Name: "b"}}
	if err := tryCreate(f); err != nil {
		t.Error(err)
	}
}
