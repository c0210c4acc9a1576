//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

// errorCodeHeader carries the router's own word for what went wrong.
const errorCodeHeader = "X-RouterFleet-Error-Code"

func TestABadManifestIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	cases := []struct {
		name, fleet string
		change      change
		want        []string
	}{
		{"an empty selector", "bad", set("workers.plain.selector", map[string]any{}),
			[]string{"spec.workers.plain.selector", "must not be empty"}},
		{"two service ports of one number", "bad", set("service.ports", []any{
			map[string]any{"name": "http", "port": int64(80)}, map[string]any{"name": "again", "port": int64(80)}}),
			[]string{"spec.service.ports", "unique"}},
		{"the data port moved onto the admin port", "bad", set("routing.extraArgs", []any{"--port=9400"}),
			[]string{"spec.routing.extraArgs"}},
		{"a name of 63 characters", strings.Repeat("n", 63), nil,
			[]string{"metadata.name", "at most 40 characters"}},
		{"a name that no Service can have", "1st", nil,
			[]string{"metadata.name", "starting with a letter"}},
		{"no image", "bad", drop("image"), []string{"spec.image"}},
		{"an unknown field", "bad", set("replcias", int64(3)), []string{"replcias"}},
		{"a negative number of replicas", "bad", replicas(-1), []string{"spec.replicas"}},
		{"an environment variable the router finds itself by", "bad",
			set("podTemplate.env", []any{map[string]any{"name": "POD_NAME", "value": "me"}}), []string{"POD_NAME"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var changes []change
			if c.change != nil {
				changes = append(changes, c.change)
			}
			s := s.in(t)
			err := s.apply(s.fleetManifest(c.fleet, changes...))
			if err == nil {
				t.Fatal("the API server took it")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the refusal does not say %q: %v", want, err)
				}
			}
		})
	}
	var fleets v1alpha1.RouterFleetList
	if err := s.client.List(s.ctx, &fleets, client.InNamespace(s.namespace)); err != nil || len(fleets.Items) != 0 {
		t.Errorf("%d fleets exist after refusals only (%v)", len(fleets.Items), err)
	}
}

func TestABadImageStallsTheRolloutAndLeavesTheOldFleetServing(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(1)
	f := s.createFleet("mistyped", replicas(2))
	before := f.uids()
	witness := f.witnessRoll(2)

	f.mustApply(replicas(2), image("routerfleet.io/router:no-such-tag"))
	f.await("the fleet says that the image cannot be pulled", func() error {
		fleet := f.get()
		return all(
			hasCondition(fleet, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonImagePullFailed),
			hasCondition(fleet, v1alpha1.ConditionAvailable, metav1.ConditionTrue, ""),
			hasCondition(fleet, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRolloutStalled),
		)
	})
	alive := f.uids()
	for uid := range before {
		if !alive[uid] {
			t.Errorf("pod %s of the good revision is gone", uid)
		}
	}
	for _, pod := range f.pods() {
		if before[string(pod.UID)] {
			if err := f.chats(f.forward(pod.Name)); err != nil {
				t.Errorf("pod %s of the good revision does not serve: %v", pod.Name, err)
			}
		}
	}

	// A good spec is all it takes: nobody deletes the stuck pod by hand.
	f.mustApply(replicas(2), image(f.images.routerNext))
	f.eventually(rollTimeout, "the corrected image is rolled out", func() error { return f.settled(f.get()) })
	witness.verdict(f)
	f.everyPodRuns(f.images.routerNext)
	if err := hasCondition(f.get(), v1alpha1.ConditionStalled, metav1.ConditionFalse, ""); err != nil {
		t.Error(err)
	}
}

func TestABadImageIsUndoneByTheOldSpec(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(1)
	f := s.createFleet("undone", replicas(2))
	before := f.uids()
	f.mustApply(replicas(2), image("routerfleet.io/router:no-such-tag"))
	f.await("the fleet is stalled", func() error {
		return hasCondition(f.get(), v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonImagePullFailed)
	})
	f.mustApply(replicas(2))
	f.awaitReady()
	after := f.uids()
	for uid := range before {
		if !after[uid] {
			t.Errorf("undoing a rollout that never began replaced pod %s", uid)
		}
	}
}

func TestABadRequestGetsAnOpenAIErrorAndHarmsNobody(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(1)
	f := s.createFleet("refuses", replicas(1))
	pod := f.pods()[0]
	base := f.forward(pod.Name)
	cases := []struct {
		name, path string
		body       []byte
		status     int
		code       string
	}{
		{"a body that is no JSON", "/v1/chat/completions", []byte(`{"model": "demo-`), 400, "bad_request"},
		{"a body that is empty", "/v1/chat/completions", nil, 400, "bad_request"},
		{"a model nobody serves", "/v1/chat/completions", chatBody("no-such-model"), 404, "model_not_found"},
		{"a body above the limit", "/v1/completions", oversized(), 413, "payload_too_large"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := f.in(t)
			// A way of its own: the rest of a body that the router will not read would stop up the other.
			got := f.post(f.forward(pod.Name)+c.path, c.body)
			e := got.openAIError()
			if got.status != c.status || got.header.Get(errorCodeHeader) != c.code || e.Message == "" || e.Type == "" {
				t.Errorf("got %d %s %s, want %d %s with an OpenAI error", got.status, got.header.Get(errorCodeHeader), clip(string(got.body)), c.status, c.code)
			}
			if strings.Contains(string(got.body), pod.Status.PodIP) || strings.Contains(string(got.body), fmt.Sprint(":", enginePort)) {
				t.Errorf("the error tells clients an address: %s", got.body)
			}
			if err := f.chats(base); err != nil {
				t.Errorf("the next good request: %v", err)
			}
		})
	}
	if after := f.pods()[0]; after.UID != pod.UID || restarts(&after) != 0 {
		t.Errorf("the router was restarted %d times, its pod replaced: %v", restarts(&after), after.UID != pod.UID)
	}
	metrics, err := f.RouterMetrics(f.ctx, f.namespace, pod.Name)
	if err != nil {
		t.Fatal(err)
	}
	worker := f.namespace + "/" + engineName(0)
	if state, ok := metrics.Sum("routerfleet_worker_breaker_state", map[string]string{"worker": worker}); !ok || state != 0 {
		t.Errorf("the breaker of %s is at %v (%v) after bad requests, want 0 (closed)", worker, state, ok)
	}
}

// chatBody is a chat request for a model.
func chatBody(model string) []byte {
	body, err := json.Marshal(map[string]any{
		"model": model, "max_tokens": 4, "messages": []any{map[string]any{"role": "user", "content": "Hello"}},
	})
	if err != nil {
		panic(err)
	}
	return body
}

// oversized is valid JSON, 1 MiB above the router's limit of 8 MiB.
func oversized() []byte {
	var body bytes.Buffer
	fmt.Fprintf(&body, `{"model":%q,"prompt":"`, modelID)
	body.Write(bytes.Repeat([]byte("a"), 9<<20))
	body.WriteString(`"}`)
	return body.Bytes()
}

func restarts(pod *corev1.Pod) int32 {
	sum := int32(0)
	for _, status := range pod.Status.ContainerStatuses {
		sum += status.RestartCount
	}
	return sum
}
