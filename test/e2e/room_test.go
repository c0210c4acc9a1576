//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

// TestARollThatWaitsForADrainToMakeRoomIsNotCalledHeld: two nodes, one pod of the fleet a node at most. The
// second roll begins while the pod the first one replaced still drains, so its successor finds no node.
func TestARollThatWaitsForADrainToMakeRoomIsNotCalledHeld(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	nodes := s.twoNodes()
	s.startEngines(1)
	tight := []change{replicas(1), set("scheduling.affinity", onePodANode("tight", nodes)), set("drain.preStopSeconds", int64(6))}
	f := s.createFleet("tight", tight...)
	witness := f.witnessConditions()

	f.mustApply(append(tight, image(f.images.routerNext))...)
	f.await("the first roll is over", func() error { return f.settled(f.get()) })
	f.mustApply(tight...)
	noRoom := false
	f.await("the second roll is over", func() error {
		for _, pod := range f.pods() {
			noRoom = noRoom || unschedulable(&pod)
		}
		return f.settled(f.get())
	})
	if !noRoom {
		t.Error("every successor found a node at once: the test did not make the roll wait")
	}
	for _, held := range witness.held(f) {
		t.Errorf("while a drain was to make room the fleet said %s", held)
	}
}

// twoNodes are the names of two nodes that take pods.
func (s *scope) twoNodes() []any {
	s.Helper()
	list, err := s.Client.CoreV1().Nodes().List(s.ctx, metav1.ListOptions{})
	if err != nil {
		s.Fatalf("list nodes: %v", err)
	}
	var names []any
	for _, node := range list.Items {
		if !node.Spec.Unschedulable && len(node.Spec.Taints) == 0 && len(names) < 2 {
			names = append(names, node.Labels[corev1.LabelHostname])
		}
	}
	if len(names) < 2 {
		s.Skipf("needs two nodes that take pods, this cluster has %d", len(names))
	}
	return names
}

// onePodANode is the affinity of a fleet that may use these nodes only, each for one pod.
func onePodANode(fleet string, nodes []any) map[string]any {
	return map[string]any{
		"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
			"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{
				map[string]any{"key": corev1.LabelHostname, "operator": "In", "values": nodes}}}}}},
		"podAntiAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": []any{map[string]any{
			"topologyKey":   corev1.LabelHostname,
			"labelSelector": map[string]any{"matchLabels": map[string]any{v1alpha1.LabelFleet: fleet}}}}},
	}
}

func unschedulable(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return true
		}
	}
	return false
}

// conditionWitness keeps every state in which the fleet said that it waits for a person.
type conditionWitness struct {
	recorder
	complaints []string
}

// witnessConditions starts to listen to what the fleet says.
func (f *fleet) witnessConditions() *conditionWitness {
	f.Helper()
	objects, err := dynamic.NewForConfig(f.Config)
	if err != nil {
		f.Fatalf("build a dynamic client: %v", err)
	}
	kind := schema.GroupVersionResource{Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: "routerfleets"}
	events, err := objects.Resource(kind).Namespace(f.namespace).Watch(f.ctx, metav1.ListOptions{
		ResourceVersion: f.get().ResourceVersion, FieldSelector: "metadata.name=" + f.name,
	})
	if err != nil {
		f.Fatalf("watch fleet %s: %v", f.name, err)
	}
	w := &conditionWitness{}
	f.record(events, &w.recorder, func(event watch.Event) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(event.Object)
		var fleet v1alpha1.RouterFleet
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, &fleet)
		}
		if err != nil {
			w.complaints = append(w.complaints, fmt.Sprintf("something unreadable: %v", err))
			return
		}
		w.listen(&fleet)
	})
	return w
}

func (w *conditionWitness) listen(fleet *v1alpha1.RouterFleet) {
	if c := apimeta.FindStatusCondition(fleet.Status.Conditions, v1alpha1.ConditionRollingOut); c != nil && c.Reason == v1alpha1.ReasonHeld {
		w.complaints = append(w.complaints, "RollingOut=Held: "+c.Message)
	}
	if c := apimeta.FindStatusCondition(fleet.Status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
		w.complaints = append(w.complaints, "Stalled="+c.Reason+": "+c.Message)
	}
}

// held ends the watch and returns the complaints it heard.
func (w *conditionWitness) held(f *fleet) []string {
	f.Helper()
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		f.Fatalf("watch fleet %s: %v", f.name, w.err)
	}
	return w.complaints
}
