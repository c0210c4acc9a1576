//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/test/e2e/live"
)

const modelID = "demo-model"

// fleet is a RouterFleet of a test.
type fleet struct {
	*scope
	name string
}

// in is the fleet as a subtest uses it.
func (f *fleet) in(t *testing.T) *fleet { return &fleet{scope: f.scope.in(t), name: f.name} }

// change edits the spec of a manifest.
type change func(spec map[string]any)

// set puts a value at a dotted path of the spec. Numbers are int64 or float64, as in JSON.
func set(path string, value any) change {
	return func(spec map[string]any) {
		if err := unstructured.SetNestedField(spec, value, strings.Split(path, ".")...); err != nil {
			panic(fmt.Sprintf("set spec.%s: %v", path, err))
		}
	}
}

func replicas(n int64) change  { return set("replicas", n) }
func image(ref string) change  { return set("image", ref) }
func drop(field string) change { return func(spec map[string]any) { delete(spec, field) } }

// fleetManifest is what a user would write, with small requests and short waits: a test's fleet shares
// two cores with many others.
func (s *scope) fleetManifest(name string, changes ...change) string {
	spec := map[string]any{
		"replicas": int64(2),
		"image":    s.images.router,
		"workers": map[string]any{
			"plain": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": engineService}}},
			"port":  "http",
		},
		"rollout":   map[string]any{"minReadySeconds": int64(1)},
		"drain":     map[string]any{"preStopSeconds": int64(2), "terminationGracePeriodSeconds": int64(60)},
		"resources": map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "32Mi"}},
	}
	for _, c := range changes {
		c(spec)
	}
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(),
		"kind":       "RouterFleet",
		"metadata":   map[string]any{"name": name},
		"spec":       spec,
	})
	if err != nil {
		s.Fatalf("encode the manifest of fleet %s: %v", name, err)
	}
	return string(manifest)
}

// createFleet applies a fleet and waits until it says Ready.
func (s *scope) createFleet(name string, changes ...change) *fleet {
	s.Helper()
	f := &fleet{scope: s, name: name}
	f.mustApply(changes...)
	f.awaitReady()
	return f
}

// mustApply applies the manifest with changes.
func (f *fleet) mustApply(changes ...change) {
	f.Helper()
	if err := f.apply(f.fleetManifest(f.name, changes...)); err != nil {
		f.Fatal(err)
	}
}

// awaitReady waits until the fleet is as its spec says, by its own account.
func (f *fleet) awaitReady() *v1alpha1.RouterFleet {
	f.Helper()
	f.await("fleet "+f.name+" is ready", func() error { return f.settled(f.get()) })
	return f.get()
}

func (f *fleet) get() *v1alpha1.RouterFleet {
	f.Helper()
	var fleet v1alpha1.RouterFleet
	if err := f.client.Get(f.ctx, client.ObjectKey{Namespace: f.namespace, Name: f.name}, &fleet); err != nil {
		f.Fatalf("get fleet %s: %v", f.name, err)
	}
	return &fleet
}

// settled is nil when the status speaks of the current generation and says that everything is there.
func (f *fleet) settled(fleet *v1alpha1.RouterFleet) error {
	want := *fleet.Spec.Replicas
	return all(
		same("status.observedGeneration", fleet.Status.ObservedGeneration, fleet.Generation),
		hasCondition(fleet, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonFleetReady),
		hasCondition(fleet, v1alpha1.ConditionRollingOut, metav1.ConditionFalse, v1alpha1.ReasonComplete),
		same("status.replicas", count(fleet.Status.Replicas), want),
		same("status.readyReplicas", count(fleet.Status.ReadyReplicas), want),
		same("status.availableReplicas", count(fleet.Status.AvailableReplicas), want),
		same("status.updatedReplicas", count(fleet.Status.UpdatedReplicas), want),
		same("status.stableRevision", fleet.Status.StableRevision, fleet.Status.UpdateRevision),
	)
}

// count is -1 for a count that was not reported.
func count(n *int32) int32 {
	if n == nil {
		return -1
	}
	return *n
}

// hasCondition is nil if the condition is planned for the current generation and has this status and,
// unless empty, this reason.
func hasCondition(fleet *v1alpha1.RouterFleet, conditionType string, status metav1.ConditionStatus, reason string) error {
	c := apimeta.FindStatusCondition(fleet.Status.Conditions, conditionType)
	if c == nil {
		return fmt.Errorf("condition %s is absent", conditionType)
	}
	if c.Status != status || (reason != "" && c.Reason != reason) || c.ObservedGeneration != fleet.Generation {
		return fmt.Errorf("condition %s is %s/%s of generation %d (%s), want %s/%s of %d",
			conditionType, c.Status, c.Reason, c.ObservedGeneration, c.Message, status, reason, fleet.Generation)
	}
	return nil
}

// selector finds the pods of the fleet.
func (f *fleet) selector() string { return v1alpha1.LabelFleet + "=" + f.name }

// pods are the fleet's pods that nobody asked to go, oldest first.
func (f *fleet) pods() []corev1.Pod {
	f.Helper()
	pods, err := f.Pods(f.ctx, f.namespace, f.selector())
	if err != nil {
		f.Fatal(err)
	}
	sort.Slice(pods, func(i, j int) bool {
		a, b := &pods[i], &pods[j]
		if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
			return a.CreationTimestamp.Before(&b.CreationTimestamp)
		}
		return a.Name < b.Name
	})
	return pods
}

// uids are the identities of the fleet's pods.
func (f *fleet) uids() map[string]bool {
	f.Helper()
	uids := map[string]bool{}
	for _, pod := range f.pods() {
		uids[string(pod.UID)] = true
	}
	return uids
}

// target is where clients of the cluster reach the fleet.
func (f *fleet) target() string { return fmt.Sprintf("http://%s:%d", f.name, live.RouterPort) }

// routers asks every router of the fleet for its metrics and joins what check says.
func (f *fleet) routers(check func(live.Metrics) error) error {
	var problems []error
	for _, pod := range f.pods() {
		metrics, err := f.RouterMetrics(f.ctx, f.namespace, pod.Name)
		if err == nil {
			err = check(metrics)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("router %s: %w", pod.Name, err))
		}
	}
	return all(problems...)
}

// inRotation is nil when the router sends requests to exactly n engines.
func inRotation(n int) func(live.Metrics) error {
	return func(m live.Metrics) error {
		got, ok := m.Sum("routerfleet_workers", map[string]string{"state": stateInRotation})
		if !ok {
			return fmt.Errorf("no series routerfleet_workers{state=%q}", stateInRotation)
		}
		return same("engines in rotation", int(got), n)
	}
}

// stateInRotation is the label of the gauge of workers that get requests.
const stateInRotation = "in_rotation"

// scrapePeriod is the time between two looks at a router whose reaction is measured.
const scrapePeriod = 50 * time.Millisecond

// follow watches every router from the moment told on until it satisfies check, and fails the test if one
// still did not in a scrape that began more than limit after told. A scrape takes its time on a busy
// machine, so when a router followed is known to lie between two moments; it returns the later one of the
// slowest router, as time since told.
func (f *fleet) follow(what string, told time.Time, limit time.Duration, check func(live.Metrics) error) time.Duration {
	f.Helper()
	pods := f.pods()
	took, late := make([]time.Duration, len(pods)), make([]error, len(pods))
	var routers sync.WaitGroup
	for i, pod := range pods {
		routers.Go(func() { took[i], late[i] = f.followOne(pod.Name, told, limit, check) })
	}
	routers.Wait()
	if err := all(late...); err != nil {
		f.Errorf("%s: %v", what, err)
	}
	return slices.Max(took)
}

func (f *fleet) followOne(pod string, told time.Time, limit time.Duration, check func(live.Metrics) error) (took time.Duration, late error) {
	tick := time.NewTicker(scrapePeriod)
	defer tick.Stop()
	for {
		began := time.Since(told)
		metrics, err := f.RouterMetrics(f.ctx, f.namespace, pod)
		if err == nil {
			err = check(metrics)
		}
		switch took = time.Since(told); {
		case err == nil:
			return took, late
		case took > settleTimeout:
			return took, fmt.Errorf("router %s: %w after %s", pod, err, took.Round(time.Millisecond))
		case began > limit && late == nil:
			late = fmt.Errorf("router %s: still %w %s after the change", pod, err, began.Round(time.Millisecond))
		}
		select {
		case <-f.ctx.Done():
			return took, errors.Join(late, f.ctx.Err())
		case <-tick.C:
		}
	}
}
