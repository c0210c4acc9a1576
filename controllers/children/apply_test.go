//go:build envtest

package children

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var api client.Client

func TestMain(m *testing.M) { os.Exit(runWithAPIServer(m)) }

func runWithAPIServer(m *testing.M) int {
	environment := &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd/bases"}, ErrorIfCRDPathMissing: true}
	config, err := environment.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start API server (KUBEBUILDER_ASSETS must name a directory with etcd and kube-apiserver):", err)
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop API server:", err)
		}
	}()
	if api, err = client.New(config, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		fmt.Fprintln(os.Stderr, "create client:", err)
		return 1
	}
	return m.Run()
}

// intents are the children of a fleet that are applied, each with an empty object
// to read it back into.
func intents(t *testing.T, f *v1alpha1.RouterFleet) map[client.Object]runtime.ApplyConfiguration {
	t.Helper()
	r := revisionOf(t, f)
	rs, err := ReplicaSet(f, r, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: f.Namespace} }
	all := map[client.Object]runtime.ApplyConfiguration{
		&appsv1.ReplicaSet{ObjectMeta: meta(ReplicaSetName(f.Name, r.Hash, 0, 0))}: rs,
		&appsv1.ControllerRevision{ObjectMeta: meta(RevisionName(f.Name, r.Hash))}: ControllerRevision(f, r, 1),
	}
	for _, child := range Steady(f) {
		switch child.Kind {
		case "ServiceAccount":
			all[&corev1.ServiceAccount{ObjectMeta: meta(child.Name)}] = child.Apply
		case "Role":
			all[&rbacv1.Role{ObjectMeta: meta(child.Name)}] = child.Apply
		case "RoleBinding":
			all[&rbacv1.RoleBinding{ObjectMeta: meta(child.Name)}] = child.Apply
		case "Service":
			all[&corev1.Service{ObjectMeta: meta(child.Name)}] = child.Apply
		default:
			t.Fatalf("unknown kind %s", child.Kind)
		}
	}
	return all
}

func restrictedNamespace(t *testing.T, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := client.IgnoreAlreadyExists(api.Create(t.Context(), namespace)); err != nil {
		t.Fatal(err)
	}
}

func goldenFleets(t *testing.T) map[string]*v1alpha1.RouterFleet {
	t.Helper()
	paths, err := filepath.Glob("testdata/*/fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fleets := map[string]*v1alpha1.RouterFleet{}
	for _, path := range paths {
		name := filepath.Base(filepath.Dir(path))
		f := readFleet(t, path)
		f.Namespace = "apply-" + name
		restrictedNamespace(t, f.Namespace)
		fleets[name] = f
	}
	return fleets
}

// Case 19: 2048Mi, defaults, ports without protocol and empty maps must not make
// the second apply a change.
func TestApplyingTheSameChildrenTenTimesWritesOnce(t *testing.T) {
	for name, f := range goldenFleets(t) {
		t.Run(name, func(t *testing.T) {
			first := map[string]string{}
			for range 10 {
				for object, intent := range intents(t, f) {
					if err := api.Apply(t.Context(), intent, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
						t.Fatalf("%T %s: %v", object, object.GetName(), err)
					}
					if err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
						t.Fatal(err)
					}
					key, got := fmt.Sprintf("%T %s", object, object.GetName()), object.GetResourceVersion()
					if want, seen := first[key]; seen && got != want {
						t.Fatalf("%s: resourceVersion went from %s to %s", key, want, got)
					}
					first[key] = got
					if !IsOwned(f, object) {
						t.Errorf("%s is not owned by its fleet", key)
					}
				}
			}
		})
	}
}

// The pods of a namespace that enforces the restricted standard.
func TestRouterPodsAreAdmittedWhereTheRestrictedStandardIsEnforced(t *testing.T) {
	for name, f := range goldenFleets(t) {
		template := podOf(t, f)
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name, pod.Namespace = "router", f.Namespace
		pod.Spec.RuntimeClassName, pod.Spec.PriorityClassName = nil, "" // neither class exists here
		if err := api.Create(t.Context(), pod.DeepCopy(), client.DryRunAll); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		pod.Spec.Containers[0].SecurityContext = nil
		if err := api.Create(t.Context(), pod, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "PodSecurity") {
			t.Errorf("%s: the namespace enforces nothing: %v", name, err)
		}
	}
}

func TestAStoredRevisionIsReadBackUnchanged(t *testing.T) {
	for name, f := range goldenFleets(t) {
		f.Name += "-stored"
		want := revisionOf(t, f)
		if err := api.Apply(t.Context(), ControllerRevision(f, want, 1), client.FieldOwner(v1alpha1.FieldManager)); err != nil {
			t.Fatal(err)
		}
		cr := &appsv1.ControllerRevision{}
		key := client.ObjectKey{Namespace: f.Namespace, Name: RevisionName(f.Name, want.Hash)}
		if err := api.Get(context.Background(), key, cr); err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeRevision(cr); err != nil || got.Hash != want.Hash || string(got.Data) != string(want.Data) {
			t.Errorf("%s: got %s %s, %v; want %s %s", name, got.Hash, got.Data, err, want.Hash, want.Data)
		}
	}
}

func TestTheTokensSecretIsAccepted(t *testing.T) {
	f := fleet()
	f.Namespace = "default"
	secret, _, err := Tokens(f, nil, zeroes{})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Create(t.Context(), secret, client.DryRunAll); err != nil {
		t.Error(err)
	}
}
