//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// restWindow is how long a settled fleet is looked at: longer than every period of the operator that
// is shorter than five minutes, the 10 s of worker counts and the 30 s of introspection included.
const restWindow = 35 * time.Second

// atRest are the kinds a fleet consists of, its events included: an event is a write.
var atRest = []schema.GroupVersionResource{
	{Group: "routerfleet.io", Version: "v1alpha1", Resource: "routerfleets"},
	{Group: "apps", Version: "v1", Resource: "replicasets"},
	{Group: "apps", Version: "v1", Resource: "controllerrevisions"},
	{Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "serviceaccounts"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	{Group: "events.k8s.io", Version: "v1", Resource: "events"},
}

func TestASettledFleetWritesNothing(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(2)
	f := s.createFleet("rests", replicas(2))
	f.await("the fleet says that its routers read both engines' events", func() error { return f.saysSubscribed(2) })
	// The last events of the start may be on their way; what counts begins when all is quiet.
	quiet := &writes{}
	s.watchWrites(quiet)
	s.await("the start is over", func() error { return quiet.silentFor(3 * time.Second) })

	seen := &writes{}
	s.watchWrites(seen)
	window, cancel := context.WithTimeout(s.ctx, restWindow)
	defer cancel()
	<-window.Done()
	if s.ctx.Err() != nil {
		t.Fatal("the test ran out of time")
	}
	if got := seen.all(); len(got) > 0 {
		t.Errorf("a settled fleet was written to %d times in %s:\n%s", len(got), restWindow, strings.Join(got, "\n"))
	}

	// The witness is awake: it sees the first thing that does happen.
	s.mustKubectl("scale", "rf/"+f.name, "--replicas=3")
	s.await("the watch sees a write", func() error {
		if len(seen.all()) == 0 {
			return fmt.Errorf("none seen")
		}
		return nil
	})
	f.awaitReady()
}

// writes are changes that watches were told of.
type writes struct {
	mu    sync.Mutex // guards all below
	lines []string
	last  time.Time
}

func (w *writes) add(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines, w.last = append(w.lines, line), time.Now()
}

func (w *writes) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.lines...)
}

// silentFor is nil once nothing was seen for d. It starts to count at its first call.
func (w *writes) silentFor(d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last.IsZero() {
		w.last = time.Now()
	}
	if silent := time.Since(w.last); silent < d {
		return fmt.Errorf("silent for %s only, last: %v", silent.Round(time.Millisecond), w.lines[max(0, len(w.lines)-1):])
	}
	return nil
}

// watchWrites tells w of every change to the namespace's objects from now on.
func (s *scope) watchWrites(w *writes) {
	s.Helper()
	objects, err := dynamic.NewForConfig(s.Config)
	if err != nil {
		s.Fatalf("build a dynamic client: %v", err)
	}
	for _, kind := range atRest {
		client := objects.Resource(kind).Namespace(s.namespace)
		list, err := client.List(s.ctx, metav1.ListOptions{})
		if err != nil {
			s.Fatalf("list %s: %v", kind.Resource, err)
		}
		events, err := client.Watch(s.ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			s.Fatalf("watch %s: %v", kind.Resource, err)
		}
		s.record(events, &recorder{}, func(event watch.Event) {
			if object, ok := event.Object.(*unstructured.Unstructured); ok {
				w.add(fmt.Sprintf("%s %s %s/%s rv %s by %s", time.Now().Format("15:04:05.000"), event.Type,
					kind.Resource, object.GetName(), object.GetResourceVersion(), lastManager(object)))
			}
		})
	}
}

// lastManager is who wrote the object last, as far as its managed fields tell.
func lastManager(object *unstructured.Unstructured) string {
	manager, at := "?", time.Time{}
	for _, entry := range object.GetManagedFields() {
		if entry.Time != nil && !entry.Time.Time.Before(at) {
			manager, at = entry.Manager, entry.Time.Time
		}
	}
	return manager
}
