//go:build envtest

package manager

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

const ownNamespace = "routerfleet-system"

// installed is an API server with our CRD, namespace and RBAC, and a client that
// may do anything.
func installed(t *testing.T) (*rest.Config, client.Client) {
	t.Helper()
	environment := &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd/bases"}, ErrorIfCRDPathMissing: true}
	config, err := environment.Start()
	if err != nil {
		t.Fatalf("start API server (KUBEBUILDER_ASSETS must name a directory with etcd and kube-apiserver): %v", err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Errorf("stop API server: %v", err)
		}
	})
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		"manager/namespace", "rbac/service_account", "rbac/role", "rbac/role_binding", "rbac/metrics_auth_role", "rbac/metrics_reader_role",
	} {
		applyFile(t, admin, "../../config/"+file+".yaml")
	}
	return config, admin
}

func applyFile(t *testing.T, admin client.Client, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(raw), "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test")); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

// asManager is who the manager is in a cluster, with its permissions and no more.
func asManager(config *rest.Config) *rest.Config {
	out := rest.CopyConfig(config)
	out.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + ownNamespace + ":routerfleet-manager",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + ownNamespace, "system:authenticated"},
	}
	return out
}

// running starts a manager on free ports and stops it with the test.
func running(t *testing.T, config *rest.Config) (o Options, stop func()) {
	t.Helper()
	o = parse(t, "--leader-elect", "--leader-election-namespace="+ownNamespace, "--metrics-bind-address="+freeAddress(t),
		"--health-probe-bind-address="+freeAddress(t))
	mgr, err := newManager(asManager(config), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := addController(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	}
	t.Cleanup(stop)
	return o, stop
}

// freeAddress is taken by nobody a moment before it is used.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func eventually(t *testing.T, promise string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-ticker.C:
		case <-timeout:
			t.Fatalf("not within 30 s: %s", promise)
		}
	}
}

// The whole process under the permissions we ship: a fleet gets its children and
// a status, metrics are for those who may read them, and the Lease is given up.
func TestTheManagerWorksWithThePermissionsWeShip(t *testing.T) {
	config, admin := installed(t)
	o, stop := running(t, config)

	eventually(t, "/readyz answers 200", func() bool { return statusOf(t, "http://"+o.HealthProbeBindAddress+"/readyz", "") == 200 })
	fleetGetsItsChildren(t, admin)
	metricsAreGuarded(t, admin, "https://"+o.MetricsBindAddress+"/metrics")

	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: ownNamespace, Name: leaseName}
	if err := admin.Get(t.Context(), key, lease); err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		t.Errorf("nobody holds the Lease: %v", err)
	}
	stop()
	if err := admin.Get(t.Context(), key, lease); err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
		t.Errorf("a manager that stopped still holds the Lease as %q: %v", ptr.Deref(lease.Spec.HolderIdentity, ""), err)
	}
}

func fleetGetsItsChildren(t *testing.T, admin client.Client) {
	t.Helper()
	f := &v1alpha1.RouterFleet{
		ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "default"},
		Spec: v1alpha1.RouterFleetSpec{
			Image:    "router:1",
			Replicas: ptr.To[int32](3),
			Workers: v1alpha1.WorkersSpec{Plain: &v1alpha1.PlainDiscovery{
				Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "engine"}},
			}},
		},
	}
	if err := admin.Create(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	ours := []client.ListOption{client.InNamespace("default"), client.MatchingLabels(children.PodSelector("demo"))}
	eventually(t, "there are 3 ReplicaSets", func() bool {
		list := &appsv1.ReplicaSetList{}
		return admin.List(t.Context(), list, ours...) == nil && len(list.Items) == 3
	})
	for name, object := range map[string]client.Object{
		children.RouterName("demo"):      &rbacv1.RoleBinding{},
		children.PeerServiceName("demo"): &corev1.Service{},
		children.TokensName("demo"):      &corev1.Secret{},
	} {
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, object); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "status is of this generation", func() bool {
		return admin.Get(t.Context(), client.ObjectKeyFromObject(f), f) == nil && f.Status.ObservedGeneration == f.Generation
	})
}

func metricsAreGuarded(t *testing.T, admin client.Client, url string) {
	t.Helper()
	if got := statusOf(t, url, ""); got != http.StatusUnauthorized {
		t.Errorf("metrics without a token: %d, want 401", got)
	}
	token := tokenOf(t, admin, "scraper")
	if got := statusOf(t, url, token); got != http.StatusForbidden {
		t.Errorf("metrics with a token that may not read them: %d, want 403", got)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "routerfleet-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "reader", Namespace: "default"}},
	}
	if err := admin.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	reader := tokenOf(t, admin, "reader")
	eventually(t, "metrics are served to a reader", func() bool { return statusOf(t, url, reader) == http.StatusOK })
}

func tokenOf(t *testing.T, admin client.Client, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	if err := admin.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := admin.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// statusOf is the status of a GET, 0 if nobody answers.
func statusOf(t *testing.T, url, token string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate is the manager's own.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(fmt.Errorf("read %s: %w", url, err))
	}
	return response.StatusCode
}
