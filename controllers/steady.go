package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"
)

// intents remembers what was applied: hash of the intent and resourceVersion of the object after it. An apply is a
// request even when nothing changes; with both equal there is nothing to send. It is a saving, never a truth: losing it
// costs one request a child.
type intents struct {
	mu   sync.Mutex
	sent map[intentKey]intent
}

type intentKey struct {
	fleet      types.NamespacedName
	uid        types.UID
	kind, name string
}

type intent struct {
	hash    [sha256.Size]byte
	version string
}

func newIntents() *intents { return &intents{sent: map[intentKey]intent{}} }

func intentOf(f *v1alpha1.RouterFleet, kind, name string) intentKey {
	return intentKey{fleet: keyOf(f), uid: f.UID, kind: kind, name: name}
}

// agrees tells whether this intent was sent and the object is the one it left behind. A cache that still shows an older
// object says nothing new.
func (s *intents) agrees(key intentKey, hash [sha256.Size]byte, version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.sent[key]
	return known && was.hash == hash && (was.version == version || older(version, was.version))
}

func (s *intents) store(key intentKey, i intent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent[key] = i
}

// moved notes that we changed an object ourselves, beside its intent.
func (s *intents) moved(key intentKey, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, known := s.sent[key]; known {
		s.sent[key] = intent{hash: was.hash, version: version}
	}
}

func (s *intents) forget(fleet types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.sent {
		if key.fleet == fleet {
			delete(s.sent, key)
		}
	}
}

// blank gives an empty object of a child's kind, to read into.
func blank(kind string) (client.Object, error) {
	switch kind {
	case "ConfigMap":
		return &corev1.ConfigMap{}, nil
	case "ServiceAccount":
		return &corev1.ServiceAccount{}, nil
	case "Service":
		return &corev1.Service{}, nil
	case "Role":
		return &rbacv1.Role{}, nil
	case "RoleBinding":
		return &rbacv1.RoleBinding{}, nil
	case "ControllerRevision":
		return &appsv1.ControllerRevision{}, nil
	default:
		return nil, fmt.Errorf("bug: a child of kind %s cannot be read", kind)
	}
}

// applyChild sends an intent unless it was sent and nothing changed since. It tells whether anything was sent. An object
// that the fleet does not control is refused with errForeign.
func (r *Reconciler) applyChild(ctx context.Context, f *v1alpha1.RouterFleet, child children.Child) (bool, error) {
	raw, err := json.Marshal(child.Apply)
	if err != nil {
		return false, fmt.Errorf("write intent: %w", err)
	}
	key := intentOf(f, child.Kind, child.Name)
	hash := sha256.Sum256(raw)
	live, err := r.readChild(ctx, f, child)
	if err != nil {
		return false, err
	}
	if live != nil && r.intents.agrees(key, hash, live.GetResourceVersion()) {
		return false, nil
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		return false, fmt.Errorf("write intent: %w", err)
	}
	err = r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)
	if err != nil {
		return false, fmt.Errorf("apply: %w", err)
	}
	r.intents.store(key, intent{hash: hash, version: object.GetResourceVersion()})
	return true, nil
}

// readChild gives the object of a child's name, nil if there is none. The cache holds our labels only: what it does not
// show may still exist and belong to somebody, so the API server is asked before anything is created.
func (r *Reconciler) readChild(ctx context.Context, f *v1alpha1.RouterFleet, child children.Child) (client.Object, error) {
	object, err := blank(child.Kind)
	if err != nil {
		return nil, err
	}
	key := client.ObjectKey{Namespace: f.Namespace, Name: child.Name}
	err = r.client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		err = r.live.Get(ctx, key, object)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read: %w", err)
	case !children.IsOwned(f, object):
		return nil, errForeign
	}
	return object, nil
}
