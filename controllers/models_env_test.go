//go:build envtest

package controllers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"
)

// twoModels is a fleet with a canary.
func twoModels(f *v1alpha1.RouterFleet) {
	selector := func(model string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{"model": model}}
	}
	f.Spec.Models = []v1alpha1.ModelSpec{
		{Name: "a", Selector: selector("a")},
		{Name: "b", Selector: selector("b")},
		{Name: "c", Split: []v1alpha1.ModelTarget{{Model: "a", Weight: ptr.To[int32](9)}, {Model: "b", Weight: ptr.To[int32](1)}}},
	}
}

// files are the models files of the namespace, by name.
func (b *bench) files() map[string]corev1.ConfigMap {
	b.Helper()
	var list corev1.ConfigMapList
	if err := b.api.List(b.Context(), &list, client.InNamespace(b.ns), client.HasLabels{v1alpha1.LabelFleet}); err != nil {
		b.Fatal(err)
	}
	out := map[string]corev1.ConfigMap{}
	for _, c := range list.Items {
		out[c.Name] = c
	}
	return out
}

// mounted are the names of the models files that ReplicaSets mount.
func (b *bench) mounted() []string {
	b.Helper()
	var names []string
	for _, rs := range b.sets() {
		for _, v := range rs.Spec.Template.Spec.Volumes {
			if v.ConfigMap != nil && !slices.Contains(names, v.ConfigMap.Name) {
				names = append(names, v.ConfigMap.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func TestAModelsFileIsThereBeforeThePodsThatMountIt(t *testing.T) {
	b := settled(t, twoModels)
	writes, _ := b.op.wire.take()
	file, set := -1, -1
	for i, w := range writes {
		if strings.Contains(w, "/configmaps/demo-models-") && file < 0 {
			file = i
		}
		if strings.HasSuffix(w, "/replicasets") && set < 0 {
			set = i
		}
	}
	if file < 0 || set < 0 || file > set {
		t.Errorf("the file was write %d, the first ReplicaSet %d of\n%s", file, set, strings.Join(writes, "\n"))
	}
	mounted, files := b.mounted(), b.files()
	if len(mounted) != 1 || len(files) != 1 || files[mounted[0]].Name == "" {
		t.Fatalf("mounted are %q, there are %d files", mounted, len(files))
	}
	b.atRest(2)
	if writes, reads := b.op.wire.take(); len(writes)+len(reads) > 0 {
		t.Errorf("at rest: %q %q", writes, reads)
	}
}

// An undo finds the file of the old replicas, which has never gone; the file nobody mounts any more goes.
func TestEveryRevisionHasItsOwnModelsFileAsLongAsItHasReplicas(t *testing.T) {
	b := settled(t, twoModels)
	first := b.mounted()
	uid := b.files()[first[0]].UID
	b.patch("demo", `{"spec":{"image":"router:hang","models":[{"name":"a","selector":{"matchLabels":{"model":"a"}}}]}}`)
	b.eventually("both files are there while both revisions have replicas", func() error {
		if mounted, files := b.mounted(), b.files(); len(mounted) != 2 || len(files) != 2 {
			return fmt.Errorf("mounted are %q, there are %d files", mounted, len(files))
		}
		return nil
	})
	b.patch("demo", `{"spec":{"image":"router:v1","models":[{"name":"a","selector":{"matchLabels":{"model":"a"}}},`+
		`{"name":"b","selector":{"matchLabels":{"model":"b"}}},{"name":"c","split":[{"model":"a","weight":9},{"model":"b","weight":1}]}]}}`)
	b.complete("demo")
	b.eventually("only the first file is left", func() error {
		mounted, files := b.mounted(), b.files()
		if !slices.Equal(mounted, first) || len(files) != 1 {
			return fmt.Errorf("mounted are %q, there are %d files", mounted, len(files))
		}
		return nil
	})
	if b.files()[first[0]].UID != uid {
		t.Error("the file of the first revision was made anew: its replicas mounted it all the time")
	}
	b.patch("demo", `{"spec":{"models":null}}`)
	b.complete("demo")
	b.eventually("a fleet without models has no file", func() error {
		if files := b.files(); len(files) != 0 {
			return fmt.Errorf("%d files", len(files))
		}
		return nil
	})
}

func TestALostModelsFileIsMadeAnew(t *testing.T) {
	b := settled(t, twoModels)
	name := b.mounted()[0]
	lost := b.files()[name]
	if err := b.api.Delete(t.Context(), &lost); err != nil {
		t.Fatal(err)
	}
	b.eventually("the file is back", func() error {
		if now := b.files()[name]; now.UID == "" || now.UID == lost.UID {
			return fmt.Errorf("it is not")
		}
		return nil
	})
}

func TestAForeignModelsFileIsLeftAloneAndNamed(t *testing.T) {
	b := newBench(t)
	b.player.net.setWorkers(2)
	f := &v1alpha1.RouterFleet{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "demo"}}
	f.Spec.Image = "router:v1"
	f.Spec.Workers.Plain = &v1alpha1.PlainDiscovery{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "engine"}}}
	twoModels(f)
	revision, err := children.RevisionOf(f)
	if err != nil {
		t.Fatal(err)
	}
	file, _, err := children.ModelsFile(f, revision) // its name is that of its content
	if err != nil {
		t.Fatal(err)
	}
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: file.Name}, Data: map[string]string{"models.yaml": "theirs"}}
	if err := b.api.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	b.fleet("demo", 2, twoModels)
	b.has("demo", v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonOwnershipConflict)
	if m := messageOf(b.get("demo").Status, v1alpha1.ConditionStalled); !strings.Contains(m, "ConfigMap "+file.Name) {
		t.Errorf("the message does not name the object: %s", m)
	}
	var got corev1.ConfigMap
	if err := b.api.Get(t.Context(), client.ObjectKeyFromObject(foreign), &got); err != nil || got.Data["models.yaml"] != "theirs" || len(got.OwnerReferences) > 0 {
		t.Errorf("the foreign file was touched: %+v %v", got, err)
	}
	if sets := b.sets(); len(sets) > 0 {
		t.Errorf("%s would serve what somebody else's file says", sets[0].Name)
	}
	if err := b.api.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	b.op.wake(keyOf(b.get("demo"))) // it would come by itself after problemRetry
	b.complete("demo")
}
