//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

// serving is a list of one model with aliases and a selector for the test's engines.
func serving(aliases ...any) change {
	return set("models", []any{map[string]any{
		"name": modelID, "aliases": aliases,
		"selector": map[string]any{"matchLabels": map[string]any{"app": engineService}},
	}})
}

// TestAListOfModelsReachesTheRoutersAndRollsThemWhenItChanges: real pods mount the file, and a list that nobody reads any
// more is gone.
func TestAListOfModelsReachesTheRoutersAndRollsThemWhenItChanges(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(2)
	f := s.createFleet("models", serving("small"))
	first := f.modelsFiles()
	if len(first) != 1 || !strings.Contains(first[0].Data["models.yaml"], "small") {
		t.Fatalf("the files are %+v", first)
	}
	f.everyRouterAnswers("small", 200)
	f.everyRouterAnswers("tiny", 404)

	f.mustApply(serving("small", "tiny"))
	f.eventually(rollTimeout, "the new list is rolled out", func() error { return f.settled(f.get()) })
	f.everyRouterAnswers("tiny", 200)
	f.eventually(settleTimeout, "only the new list is left", func() error {
		now := f.modelsFiles()
		if len(now) != 1 || now[0].Name == first[0].Name {
			return fmt.Errorf("there are %d files", len(now))
		}
		return nil
	})
}

// modelsFiles are the fleet's ConfigMaps.
func (f *fleet) modelsFiles() []corev1.ConfigMap {
	f.Helper()
	var list corev1.ConfigMapList
	if err := f.client.List(f.ctx, &list, client.InNamespace(f.namespace), client.MatchingLabels{v1alpha1.LabelFleet: f.name}); err != nil {
		f.Fatalf("list the ConfigMaps of fleet %s: %v", f.name, err)
	}
	return list.Items
}

// everyRouterAnswers asks each router for a model, and wants what an engine answers to be of the model it knows.
func (f *fleet) everyRouterAnswers(model string, status int) {
	f.Helper()
	for _, pod := range f.pods() {
		body := fmt.Sprintf(`{"model":%q,"prompt":"hello","max_tokens":1}`, model)
		got := f.post(f.forward(pod.Name)+"/v1/completions", []byte(body))
		var answer struct{ Model string }
		_ = json.Unmarshal(got.body, &answer) // an error has no model
		if got.status != status || status == 200 && answer.Model != modelID {
			f.Errorf("%s asked for %s answers %d %s, want %d", pod.Name, model, got.status, got.body, status)
		}
	}
}
