package children

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/router/models"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
)

func modelsFileOf(t testing.TB, f *v1alpha1.RouterFleet) *corev1ac.ConfigMapApplyConfiguration {
	t.Helper()
	child, has, err := ModelsFile(f, revisionOf(t, f))
	if err != nil || !has {
		t.Fatalf("has %v, %v", has, err)
	}
	if child.Name != *child.Apply.(*corev1ac.ConfigMapApplyConfiguration).Name {
		t.Errorf("the child is called %s and makes %s", child.Name, *child.Apply.(*corev1ac.ConfigMapApplyConfiguration).Name)
	}
	return child.Apply.(*corev1ac.ConfigMapApplyConfiguration)
}

func llama(f *v1alpha1.RouterFleet) { f.Spec.Models = []v1alpha1.ModelSpec{{Name: "llama"}} }

// The operator and the router have a type each for the file; it is the same file.
func TestTheRouterReadsTheModelsFileThatIsRendered(t *testing.T) {
	f := readFleet(t, "testdata/models/fleet.yaml")
	set, err := models.Parse([]byte(modelsFileOf(t, f).Data[modelsKey]))
	if err != nil {
		t.Fatal(err)
	}
	want := []models.Spec{
		{Name: "llama-3", Aliases: []string{"gpt-4o-mini", "small $(HOME)"}, Split: []models.Target{{Model: "llama-3-v1", Weight: 95}, {Model: "llama-3-v2", Weight: 5}}},
		{Name: "llama-3-v1", Selector: "app=llama,track=stable", Tokenizer: models.Tokenizer{Path: "/etc/routerfleet/tokenizers/llama-3.tokenizer"}},
		{Name: "llama-3-v2", Selector: "app in (llama),track in (canary,next)", Tokenizer: models.Tokenizer{Path: "/etc/routerfleet/tokenizers/llama-3.tokenizer"}},
		{Name: "qwen/qwen2-7b", Selector: "app=qwen", Tokenizer: models.Tokenizer{Path: "/tokenizers/qwen"}},
	}
	if diff := cmp.Diff(want, set.Specs()); diff != "" {
		t.Error(diff)
	}
	if got := set.Take(map[string]string{"app": "llama", "track": "canary"}); !slices.Equal(got, []string{"llama-3-v2"}) {
		t.Errorf("the labels of the static worker are for %q", got)
	}
	for i := range f.Spec.Models {
		if m := &f.Spec.Models[i]; m.IsServed() != set.Names(m.Name) {
			t.Errorf("operator and router disagree whether %s has workers", m.Name)
		}
	}
}

// What the schema lets through at its limits the router takes, too.
func TestTheRouterReadsTheLargestModelsFileThereMayBe(t *testing.T) {
	f := fleet()
	for i := range 32 {
		m := v1alpha1.ModelSpec{Name: fmt.Sprintf("%s%03d", strings.Repeat("n", 250), i)}
		for k := range 8 {
			m.Aliases = append(m.Aliases, fmt.Sprintf("%s%03d-%d", strings.Repeat("a", 248), i, k))
		}
		m.Tokenizer.Path = "/" + strings.Repeat("p", 1023)
		f.Spec.Models = append(f.Spec.Models, m)
	}
	for i := range 8 {
		f.Spec.Models[0].Split = append(f.Spec.Models[0].Split, v1alpha1.ModelTarget{Model: f.Spec.Models[i].Name, Weight: ptr.To[int32](1000)})
	}
	if _, err := models.Parse([]byte(modelsFileOf(t, f).Data[modelsKey])); err != nil {
		t.Error(err)
	}
}

func TestAModelsFileIsNamedAfterItsContent(t *testing.T) {
	one := modelsFileOf(t, fleet(llama))
	again := modelsFileOf(t, fleet(llama, func(f *v1alpha1.RouterFleet) { f.Spec.Image = "router:2" }))
	if *one.Name != *again.Name {
		t.Error("another image gives the same file another name")
	}
	for what, change := range map[string]func(*v1alpha1.ModelSpec){
		"an alias":    func(m *v1alpha1.ModelSpec) { m.Aliases = []string{"a"} },
		"a selector":  func(m *v1alpha1.ModelSpec) { m.Selector.MatchLabels = map[string]string{"a": "b"} },
		"a tokenizer": func(m *v1alpha1.ModelSpec) { m.Tokenizer.Path = "/t" },
		"a split": func(m *v1alpha1.ModelSpec) {
			m.Split = []v1alpha1.ModelTarget{{Model: "llama", Weight: ptr.To[int32](1)}}
		},
	} {
		changed := fleet(llama, func(f *v1alpha1.RouterFleet) { change(&f.Spec.Models[0]) })
		if file := modelsFileOf(t, changed); *file.Name == *one.Name {
			t.Errorf("%s changes the file and not its name", what)
		}
		if revisionOf(t, changed).Hash == revisionOf(t, fleet(llama)).Hash {
			t.Errorf("%s makes no new revision", what)
		}
	}
	if !ptr.Deref(one.Immutable, false) {
		t.Error("the file may be changed under the pods that read it")
	}
	if _, has, err := ModelsFile(fleet(), revisionOf(t, fleet())); has || err != nil {
		t.Errorf("without models: has %v, %v", has, err)
	}
}

func TestThePodMountsTheFileItsArgumentsName(t *testing.T) {
	f := readFleet(t, "testdata/models/fleet.yaml")
	pod := podOf(t, f)
	sources, mounts := map[string]string{}, map[string]string{}
	for _, v := range pod.Spec.Volumes {
		if v.ConfigMap != nil {
			sources[v.Name] = v.ConfigMap.Name
		}
	}
	for _, m := range router(pod).VolumeMounts {
		if source := sources[m.Name]; source != "" {
			mounts[m.MountPath] = source
			if !m.ReadOnly {
				t.Errorf("%s may be written", m.MountPath)
			}
		}
	}
	want := map[string]string{
		"/etc/routerfleet/models":                       *modelsFileOf(t, f).Name,
		"/etc/routerfleet/tokenizers/llama-3.tokenizer": "llama-3.tokenizer", // once for two models
	}
	if diff := cmp.Diff(want, mounts); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(router(pod).Args, "--models-file=/etc/routerfleet/models/models.yaml") {
		t.Errorf("arguments %q", router(pod).Args)
	}
	if !slices.Contains(router(pod).Args, "--worker-labels=spare=app=llama,track=canary") {
		t.Errorf("arguments %q", router(pod).Args)
	}
	for _, arg := range router(podOf(t, fleet())).Args {
		if strings.HasPrefix(arg, "--models-file") {
			t.Errorf("without models: %s", arg)
		}
	}
}

func TestASelectorThatIsNoneIsAnErrorForTheUser(t *testing.T) {
	f := fleet(llama, func(f *v1alpha1.RouterFleet) {
		f.Spec.Models[0].Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Maybe"}}
	})
	if _, err := RevisionOf(f); err == nil || !strings.Contains(err.Error(), "models[0].selector") {
		t.Errorf("got %v", err)
	}
}

func TestOnlyOurOwnModelsFilesAreTakenForSome(t *testing.T) {
	f := fleet()
	owner := func(uid string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "RouterFleet", Name: "demo", UID: f.UID, Controller: ptr.To(uid == "ours")}}
	}
	for name, c := range map[string]struct {
		object metav1.ObjectMeta
		want   bool
	}{
		"ours":            {metav1.ObjectMeta{Name: "demo-models-abc", OwnerReferences: owner("ours")}, true},
		"of another name": {metav1.ObjectMeta{Name: "demo-settings", OwnerReferences: owner("ours")}, false},
		"of somebody":     {metav1.ObjectMeta{Name: "demo-models-abc"}, false},
		"not controlled":  {metav1.ObjectMeta{Name: "demo-models-abc", OwnerReferences: owner("")}, false},
	} {
		if got := IsModelsFile(f, &c.object); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
