//go:build envtest

package controllers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

var (
	apiServer *rest.Config
	scheme    = runtime.NewScheme()
)

// TestMain starts one API server for all tests. There is no controller manager and no kubelet: a player per test is
// both.
func TestMain(m *testing.M) { os.Exit(withAPIServer(m)) }

func withAPIServer(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		panic(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	cfg, err := env.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	defer func() { _ = env.Stop() }()
	cfg.QPS, cfg.Burst = -1, 0
	apiServer = cfg
	return m.Run()
}

// wire counts the operator's requests, and can fail them.
type wire struct {
	base http.RoundTripper

	mu     sync.Mutex
	writes []string // "PATCH /apis/...", events left out
	reads  []string // watches left out
	events int
	fault  func(*http.Request) *http.Response // an answer instead of the API server's
	after  func(*http.Request, *http.Response)
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	line := req.Method + " " + req.URL.Path
	switch {
	case strings.Contains(req.URL.Path, "/events"):
		w.events++
	case req.Method != http.MethodGet:
		w.writes = append(w.writes, line)
	case req.URL.Query().Get("watch") == "":
		w.reads = append(w.reads, line)
	}
	fault, after := w.fault, w.after
	w.mu.Unlock()
	if fault != nil {
		if resp := fault(req); resp != nil {
			return resp, nil
		}
	}
	resp, err := w.base.RoundTrip(req)
	if after != nil && err == nil {
		after(req, resp)
	}
	return resp, err
}

// take gives the requests since the last take.
func (w *wire) take() (writes, reads []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	writes, reads = w.writes, w.reads
	w.writes, w.reads = nil, nil
	return writes, reads
}

func (w *wire) setFault(f func(*http.Request) *http.Response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

func (w *wire) setAfter(f func(*http.Request, *http.Response)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = f
}

// answer is an API server's error.
func answer(req *http.Request, code int, reason metav1.StatusReason, message string) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":%q}`, reason, code, message)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: req}
}

// operator is one running manager with the reconciler in it.
type operator struct {
	*Reconciler
	wire *wire
	stop func()
}

// startOperator runs an operator until stop or the end of the test. It sees one namespace.
func startOperator(t *testing.T, namespace string, routers http.RoundTripper, sync *time.Duration) *operator {
	t.Helper()
	o := &operator{wire: &wire{}}
	cfg := rest.CopyConfig(apiServer)
	cfg.Wrap(func(base http.RoundTripper) http.RoundTripper {
		o.wire.base = base
		return o.wire
	})
	yes := true
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:      cacheOf(t, namespace, sync),
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Controller: config.Controller{SkipNameValidation: &yes, EnableWarmup: &yes},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.Reconciler, err = New(Options{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Transport: routers})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	o.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	}
	t.Cleanup(o.stop)
	return o
}

func cacheOf(t *testing.T, namespace string, sync *time.Duration) cache.Options {
	t.Helper()
	ours, err := labels.NewRequirement(v1alpha1.LabelFleet, selection.Exists, nil)
	if err != nil {
		t.Fatal(err)
	}
	by := cache.ByObject{Label: labels.NewSelector().Add(*ours)}
	return cache.Options{
		SyncPeriod:        sync,
		DefaultNamespaces: map[string]cache.Config{namespace: {}},
		DefaultTransform:  cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: by, &corev1.ConfigMap{}: by, &corev1.Service{}: by, &corev1.ServiceAccount{}: by, &appsv1.ReplicaSet{}: by,
			&appsv1.ControllerRevision{}: by, &rbacv1.Role{}: by, &rbacv1.RoleBinding{}: by,
		},
	}
}

// bench is a namespace with a player and an operator, and the user's hands.
type bench struct {
	*testing.T
	ns     string
	api    client.Client
	player *player
	op     *operator
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := newBenchWithoutOperator(t)
	b.op = startOperator(t, b.ns, b.player.net, nil)
	return b
}

func newBenchWithoutOperator(t *testing.T) *bench {
	t.Helper()
	t.Parallel() // a namespace and an operator each; most of the time is waiting
	api, err := client.New(apiServer, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "rf-"}}
	if err := api.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, ns: ns.Name, api: api}
	b.player = startPlayer(t, api, ns.Name)
	return b
}

// fleet creates a RouterFleet of r replicas with short clocks.
func (b *bench) fleet(name string, r int32, change ...func(*v1alpha1.RouterFleet)) {
	b.Helper()
	f := &v1alpha1.RouterFleet{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: name}}
	f.Spec.Replicas = &r
	f.Spec.Image = "router:v1"
	f.Spec.Workers.Plain = &v1alpha1.PlainDiscovery{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "engine"}}}
	zero := int32(0)
	f.Spec.Rollout.MinReadySeconds = &zero
	for _, c := range change {
		c(f)
	}
	if err := b.api.Create(b.Context(), f, client.FieldOwner("kubectl")); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) get(name string) *v1alpha1.RouterFleet {
	b.Helper()
	f := &v1alpha1.RouterFleet{}
	if err := b.api.Get(b.Context(), types.NamespacedName{Namespace: b.ns, Name: name}, f); err != nil {
		b.Fatal(err)
	}
	return f
}

// patch merges a JSON patch into the fleet, as kubectl patch does, and gives the new generation.
func (b *bench) patch(name, patch string) int64 {
	b.Helper()
	f := &v1alpha1.RouterFleet{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: name}}
	if err := b.api.Patch(b.Context(), f, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("kubectl")); err != nil {
		b.Fatal(err)
	}
	return f.Generation
}

// eventually polls until check gives no error, for at most 30 s.
func (b *bench) eventually(what string, check func() error) {
	b.Helper()
	b.within(30*time.Second, what, check)
}

func (b *bench) within(limit time.Duration, what string, check func() error) {
	b.Helper()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			b.Fatalf("never: %s: %v\n%s", what, err, b.dump())
		}
	}
}

// dump is the namespace in a few lines.
func (b *bench) dump() string {
	var out strings.Builder
	var fleets v1alpha1.RouterFleetList
	_ = b.api.List(b.Context(), &fleets, client.InNamespace(b.ns))
	for _, f := range fleets.Items {
		fmt.Fprintf(&out, "fleet %s generation %d target %s stable %s\n", f.Name, f.Generation, f.Status.UpdateRevision, f.Status.StableRevision)
		for _, c := range f.Status.Conditions {
			fmt.Fprintf(&out, "  %s=%s %s@%d %s\n", c.Type, c.Status, c.Reason, c.ObservedGeneration, c.Message)
		}
	}
	for _, rs := range b.sets() {
		fmt.Fprintf(&out, "rs %s replicas %d\n", rs.Name, *rs.Spec.Replicas)
	}
	for _, p := range b.pods() {
		fmt.Fprintf(&out, "pod %s %s deleting=%v\n", p.Name, p.Status.Phase, p.DeletionTimestamp != nil)
	}
	return out.String()
}

func (b *bench) sets() []appsv1.ReplicaSet {
	var list appsv1.ReplicaSetList
	if err := b.api.List(b.Context(), &list, client.InNamespace(b.ns)); err != nil {
		b.Error(err)
	}
	return list.Items
}

func (b *bench) pods() []corev1.Pod {
	var list corev1.PodList
	if err := b.api.List(b.Context(), &list, client.InNamespace(b.ns)); err != nil {
		b.Error(err)
	}
	return list.Items
}

// live are the names of ReplicaSets that are not retired.
func (b *bench) live() []string {
	var out []string
	for _, rs := range b.sets() {
		if *rs.Spec.Replicas > 0 {
			out = append(out, rs.Name)
		}
	}
	return out
}

// complete waits for what kubectl wait waits for: RollingOut=False at the present generation, with reason Complete.
func (b *bench) complete(name string) *v1alpha1.RouterFleet {
	b.Helper()
	var f *v1alpha1.RouterFleet
	b.eventually(name+" is complete", func() error {
		f = b.get(name)
		if !toldComplete(f.Status, f.Generation) {
			return fmt.Errorf("RollingOut is not False/Complete at generation %d", f.Generation)
		}
		return nil
	})
	return f
}

// has waits for a condition's status and reason.
func (b *bench) has(name, kind string, status metav1.ConditionStatus, reason string) {
	b.Helper()
	b.eventually(fmt.Sprintf("%s=%s/%s", kind, status, reason), func() error {
		for _, c := range b.get(name).Status.Conditions {
			if c.Type == kind && c.Status == status && c.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("it is not so")
	})
}
