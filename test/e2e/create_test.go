//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/test/e2e/live"
)

func TestAnAppliedFleetServesRequests(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(2)
	f := s.createFleet("serves", replicas(2))

	t.Run("status says how many routers and engines there are", func(t *testing.T) { f.in(t).tellsTheTruth(t) })
	t.Run("every router is a pod that knows itself", func(t *testing.T) { f.in(t).podsKnowThemselves(t) })
	t.Run("children belong to the fleet and grant least rights", func(t *testing.T) { f.in(t).childrenAreLeast(t) })
	for _, pod := range f.pods() {
		base := f.forward(pod.Name)
		t.Run(fmt.Sprintf("router of slot %s serves OpenAI clients", pod.Labels[v1alpha1.LabelSlot]), func(t *testing.T) {
			servesClients(t, f.ctx, openAI(base))
		})
	}
}

func (f *fleet) tellsTheTruth(t *testing.T) {
	fleet := f.get()
	if err := all(
		hasCondition(fleet, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonMinimumReplicasAvailable),
		hasCondition(fleet, v1alpha1.ConditionWorkersDiscovered, metav1.ConditionTrue, v1alpha1.ReasonWorkersFound),
		hasCondition(fleet, v1alpha1.ConditionReconciling, metav1.ConditionFalse, ""),
		hasCondition(fleet, v1alpha1.ConditionStalled, metav1.ConditionFalse, ""),
		same("rows of status.replicasDetail", len(fleet.Status.ReplicasDetail), 2),
	); err != nil {
		t.Error(err)
	}
	if w := fleet.Status.Workers; w == nil || count(w.Discovered) != 2 {
		t.Errorf("status.workers is %+v, want 2 discovered", w)
	}
	table, err := f.kubectl("get", "rf", f.name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if got, want := strings.Fields(lines[0]), []string{"NAME", "DESIRED", "READY", "UPDATED", "AVAILABLE", "ROLLOUT", "AGE"}; strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("kubectl get rf has columns %v, want %v", got, want)
	}
	if row := strings.Fields(lines[len(lines)-1]); strings.Join(row[:len(row)-1], " ") != "serves 2 2 2 True Complete" {
		t.Errorf("kubectl get rf says %v, want serves 2 2 2 True Complete", row)
	}
}

func (f *fleet) podsKnowThemselves(t *testing.T) {
	pods := f.pods()
	if slots := slotsOf(pods); len(slots) != 2 || slots["0"] != 1 || slots["1"] != 1 {
		t.Errorf("pods a slot: %v, want one in 0 and one in 1", slots)
	}
	want := map[string]string{
		"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_IP": "status.podIP", "POD_UID": "metadata.uid",
		"ROUTERFLEET_REVISION": "metadata.labels['" + v1alpha1.LabelRevision + "']",
		"ROUTERFLEET_SLOT":     "metadata.labels['" + v1alpha1.LabelSlot + "']",
	}
	for _, pod := range pods {
		got := map[string]string{}
		for _, env := range pod.Spec.Containers[0].Env {
			if env.ValueFrom != nil && env.ValueFrom.FieldRef != nil {
				got[env.Name] = env.ValueFrom.FieldRef.FieldPath
			}
		}
		for name, path := range want {
			if got[name] != path {
				t.Errorf("pod %s learns %s from %q, want %q", pod.Name, name, got[name], path)
			}
		}
		if pod.Labels[v1alpha1.LabelRevision] != f.get().Status.UpdateRevision {
			t.Errorf("pod %s is of revision %q, status says %q", pod.Name, pod.Labels[v1alpha1.LabelRevision], f.get().Status.UpdateRevision)
		}
		if owner := metav1.GetControllerOf(&pod); owner == nil || owner.Kind != "ReplicaSet" {
			t.Errorf("pod %s is controlled by %v, want a ReplicaSet", pod.Name, owner)
		}
	}
}

func (f *fleet) childrenAreLeast(t *testing.T) {
	uid := f.get().UID
	router := client.ObjectKey{Namespace: f.namespace, Name: f.name + "-router"}
	peers := client.ObjectKey{Namespace: f.namespace, Name: f.name + "-peers"}
	var role rbacv1.Role
	children := map[client.ObjectKey]client.Object{router: &role, peers: &corev1.Service{}}
	for key, object := range children {
		f.ownedChild(t, key, object, uid)
	}
	f.ownedChild(t, router, &corev1.ServiceAccount{}, uid)
	f.ownedChild(t, router, &rbacv1.RoleBinding{}, uid)
	f.ownedChild(t, client.ObjectKey{Namespace: f.namespace, Name: f.name}, &corev1.Service{}, uid)
	f.ownedChild(t, client.ObjectKey{Namespace: f.namespace, Name: f.name + "-tokens"}, &corev1.Secret{}, uid)

	granted := sets.New[string]()
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted.Insert(strings.Join(rule.APIGroups, ",") + "/" + resource + ":" + verb)
			}
		}
	}
	want := sets.New("discovery.k8s.io/endpointslices:get", "discovery.k8s.io/endpointslices:list", "discovery.k8s.io/endpointslices:watch")
	if !granted.Equal(want) {
		t.Errorf("the routers' role grants %v, want %v", sets.List(granted), sets.List(want))
	}
	// What the role says is one thing, what the API server lets the account do another.
	out, _ := f.kubectl("auth", "can-i", "get", "secrets", "--as=system:serviceaccount:"+f.namespace+":"+router.Name)
	if strings.TrimSpace(out) != "no" {
		t.Errorf("may a router read secrets: %q, want no", out)
	}
}

// ownedChild reads a child and checks that the fleet controls it, so that deletion takes it along.
func (f *fleet) ownedChild(t *testing.T, key client.ObjectKey, object client.Object, owner any) {
	t.Helper()
	if err := f.client.Get(f.ctx, key, object); err != nil {
		t.Errorf("get %T %s: %v", object, key, err)
		return
	}
	if ref := metav1.GetControllerOf(object); ref == nil || ref.Kind != "RouterFleet" || ref.UID != owner {
		t.Errorf("%T %s is controlled by %v, want RouterFleet %v", object, key, ref, owner)
	}
}

// servesClients asks for everything a client of this release may ask for.
func servesClients(t *testing.T, ctx context.Context, c openai.Client) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	models, err := c.Models.List(ctx)
	if err != nil || len(models.Data) != 1 || models.Data[0].ID != modelID {
		t.Errorf("list models: %v, %v; want %s", models, err, modelID)
	}
	chat := openai.ChatCompletionNewParams{
		Model:     modelID,
		Messages:  []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Name three harbours.")},
		MaxTokens: openai.Int(6),
	}
	whole, err := c.Chat.Completions.New(ctx, chat)
	if err != nil || len(whole.Choices) != 1 || whole.Choices[0].Message.Content == "" || whole.Usage.CompletionTokens != 6 {
		t.Errorf("chat completion: %+v, %v; want text of 6 tokens", whole, err)
	}
	prompt := openai.CompletionNewParams{
		Model: modelID, MaxTokens: openai.Int(6),
		Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfTokens: []int64{101, 102, 103, 104, 105}},
	}
	completion, err := c.Completions.New(ctx, prompt)
	if err != nil || len(completion.Choices) != 1 || completion.Usage.PromptTokens != 5 {
		t.Errorf("completion of token ids: %+v, %v; want one choice for 5 prompt tokens", completion, err)
	}
	streams(t, ctx, c, chat)
}

// streams reads a streamed chat to its end: every token an event, a finish reason last.
func streams(t *testing.T, ctx context.Context, c openai.Client, chat openai.ChatCompletionNewParams) {
	stream := c.Chat.Completions.NewStreaming(ctx, chat)
	defer stream.Close()
	texts, finish := 0, ""
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			if choice.Delta.Content != "" {
				texts++
			}
			if choice.FinishReason != "" {
				finish = choice.FinishReason
			}
		}
	}
	if err := stream.Err(); err != nil {
		t.Errorf("stream a chat: %v", err)
	}
	if texts < 2 || finish != "length" {
		t.Errorf("streamed %d pieces of text and finished with %q, want several and length", texts, finish)
	}
}

func TestRequestsOfOneFleetReachEveryEngine(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(3)
	f := s.createFleet("spreads", replicas(1), set("routing", map[string]any{"policy": "RoundRobin"}))
	base := f.forward(f.pods()[0].Name)
	for range 9 {
		if err := f.chats(base); err != nil {
			t.Fatal(err)
		}
	}
	// The last answer is counted when its client has it already.
	f.await("round robin has sent 3 of 9 requests to each engine", func() error {
		return f.routers(func(m live.Metrics) error {
			for i := range 3 {
				worker := f.namespace + "/" + engineName(i)
				got, _ := m.Sum("routerfleet_worker_requests_total", map[string]string{"worker": worker, "outcome": "success"})
				if got != 3 {
					return fmt.Errorf("%v to %s: %v", got, worker, m.By("routerfleet_worker_requests_total", "worker"))
				}
			}
			return nil
		})
	})
}

func TestEveryRouterTellsItsPodAndRevisionAtBootstrapStatus(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(1)
	f := s.createFleet("tells", replicas(1))
	pod := f.pods()[0]

	if _, err := f.PodGet(f.ctx, f.namespace, pod.Name, live.RouterAdminPort, "/internal/bootstrap"); err == nil {
		t.Error("/internal/bootstrap answers without a token")
	}
	var tokens corev1.Secret
	if err := f.client.Get(f.ctx, client.ObjectKey{Namespace: f.namespace, Name: f.name + "-tokens"}, &tokens); err != nil {
		t.Fatal(err)
	}
	status, body := f.adminGet(pod.Name, "/internal/bootstrap", string(tokens.Data["view"]))
	var got struct {
		PodUID   string `json:"podUID"`
		Revision string `json:"revision"`
		Workers  struct {
			Discovered int `json:"discovered"`
		} `json:"workers"`
	}
	if err := json.Unmarshal(body, &got); err != nil || status != 200 {
		t.Fatalf("/internal/bootstrap with the view token answers %d %s (%v)", status, body, err)
	}
	if got.PodUID != string(pod.UID) || got.Revision != pod.Labels[v1alpha1.LabelRevision] || got.Workers.Discovered != 1 {
		t.Errorf("/internal/bootstrap tells %s, want pod %s, revision %s and 1 worker", body, pod.UID, pod.Labels[v1alpha1.LabelRevision])
	}
}

func TestEverySampleIsTakenByTheAPIServer(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	samples, err := filepath.Glob(filepath.Join(s.Root, "config", "samples", "*.yaml"))
	if err != nil || len(samples) < 2 {
		t.Fatalf("find the samples: %v, %v", samples, err)
	}
	for _, sample := range samples {
		if filepath.Base(sample) == "kustomization.yaml" {
			continue
		}
		t.Run(filepath.Base(sample), func(t *testing.T) {
			if _, err := s.kubectl("apply", "--server-side", "--dry-run=server", "-f", sample); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestADeletedChildComesBack(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(1)
	f := s.createFleet("mends", replicas(1))
	pod := f.pods()[0].UID
	children := map[string]client.Object{
		f.name:             &corev1.Service{},
		f.name + "-peers":  &corev1.Service{},
		f.name + "-router": &rbacv1.Role{},
	}
	for name, child := range children {
		key := client.ObjectKey{Namespace: f.namespace, Name: name}
		if err := f.client.Get(f.ctx, key, child); err != nil {
			t.Fatal(err)
		}
		old := child.GetUID()
		if err := f.client.Delete(f.ctx, child); err != nil {
			t.Fatal(err)
		}
		f.await(fmt.Sprintf("%T %s is back", child, name), func() error {
			if err := f.client.Get(f.ctx, key, child); err != nil {
				return err
			}
			if child.GetUID() == old {
				return fmt.Errorf("it is the old one still")
			}
			return nil
		})
	}
	f.awaitReady()
	if got := f.pods()[0].UID; got != pod {
		t.Errorf("mending the children replaced pod %s", pod)
	}
}
