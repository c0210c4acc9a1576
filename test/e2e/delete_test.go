//go:build e2e

package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

// goneTimeout covers the drain of the routers: preStop, the linger and the kubelet's way.
const goneTimeout = 2 * time.Minute

func TestADeletedFleetLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	s.startEngines(1)
	f := s.createFleet("leaves", replicas(2))
	stranger := s.createFleet("stays", replicas(1))
	left := s.descendants(f.get().UID)
	if len(left) < 10 {
		t.Fatalf("only %d objects belong to the fleet, the search must be wrong: %v", len(left), left)
	}
	before := s.descendants(stranger.get().UID)

	s.mustKubectl("delete", "rf/"+f.name, "--wait=false")
	took := s.eventually(goneTimeout, "everything of the fleet is gone", func() error {
		var alive []error
		for uid, name := range s.allObjects() {
			if _, was := left[uid]; was {
				alive = append(alive, errors.New(name+" is still there"))
			}
		}
		return errors.Join(alive...)
	})
	t.Logf("%d objects gone %s after the deletion", len(left), took.Round(100*time.Millisecond))
	if after := s.descendants(stranger.get().UID); len(after) != len(before) {
		t.Errorf("another fleet of the namespace had %d objects and has %d", len(before), len(after))
	}
	stranger.awaitReady()
}

// descendants are the uids and names of an object and of all that it owns, directly or not.
func (s *scope) descendants(root types.UID) map[types.UID]string {
	s.Helper()
	objects := s.listEverything()
	found := map[types.UID]string{}
	for grew := true; grew; {
		grew = false
		for _, object := range objects {
			if _, known := found[object.GetUID()]; known {
				continue
			}
			owned := slices.ContainsFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
				_, ours := found[ref.UID]
				return ours
			})
			if owned || object.GetUID() == root {
				found[object.GetUID()], grew = object.GetKind()+"/"+object.GetName(), true
			}
		}
	}
	return found
}

func (s *scope) allObjects() map[types.UID]string {
	s.Helper()
	found := map[types.UID]string{}
	for _, object := range s.listEverything() {
		found[object.GetUID()] = object.GetKind() + "/" + object.GetName()
	}
	return found
}

// listEverything lists every object of every kind of the namespace, kinds the tests never heard of
// included. Events are left out: they tell of the dead and expire by themselves.
func (s *scope) listEverything() []unstructured.Unstructured {
	s.Helper()
	kinds, err := s.Client.Discovery().ServerPreferredNamespacedResources()
	if err != nil {
		s.Fatalf("discover the kinds of the cluster: %v", err)
	}
	objects, err := dynamic.NewForConfig(s.Config)
	if err != nil {
		s.Fatalf("build a dynamic client: %v", err)
	}
	var all []unstructured.Unstructured
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, kinds) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			s.Fatalf("parse %q: %v", list.GroupVersion, err)
		}
		for _, kind := range list.APIResources {
			if kind.Name == "events" || strings.Contains(kind.Name, "/") {
				continue
			}
			found, err := objects.Resource(version.WithResource(kind.Name)).Namespace(s.namespace).List(s.ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				s.Fatalf("list %s: %v", kind.Name, err)
			}
			all = append(all, found.Items...)
		}
	}
	if len(all) == 0 {
		s.Fatalf("nothing at all in namespace %s: the search is broken", s.namespace)
	}
	return all
}
