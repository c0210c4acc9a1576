package manager

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func parse(t testing.TB, args ...string) Options {
	t.Helper()
	var o Options
	parser, err := kong.New(&o, Grammar()...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestDefaultsAreValidAndSafe(t *testing.T) {
	o := parse(t)
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
	if !o.MetricsSecure || o.LeaderElect || o.MaxConcurrentReconciles != 4 || o.LeaseDuration != 15*time.Second {
		t.Errorf("defaults are %+v", o)
	}
}

func TestFlagsAndEnvironmentReachTheOptions(t *testing.T) {
	t.Setenv("MANAGER_KUBE_API_QPS", "7")
	o := parse(t, "--leader-elect", "--no-metrics-secure", "--watch-namespaces=a,b", "--watch-namespaces=c", "--log-level=debug")
	if !o.LeaderElect || o.MetricsSecure || o.KubeAPIQPS != 7 || o.LogLevel != "debug" {
		t.Errorf("got %+v", o)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, o.WatchNamespaces); diff != "" {
		t.Error(diff)
	}
}

func TestValidateReportsEverythingAtOnce(t *testing.T) {
	o := parse(t)
	o.MaxConcurrentReconciles = 0
	o.ReconciliationTimeout = 0
	o.KubeAPIQPS, o.KubeAPIBurst = 0, 0
	o.RenewDeadline = o.LeaseDuration
	o.MetricsSecure, o.MetricsCertDir = false, "/certs"
	o.WatchNamespaces = []string{"ok", "Not_A_Namespace"}
	err := o.Validate()
	if err == nil {
		t.Fatal("everything wrong, and nobody objected")
	}
	for _, want := range []string{
		"--max-concurrent-reconciles", "--reconciliation-timeout", "--kube-api-qps", "--kube-api-burst",
		"--renew-deadline", "--metrics-cert-dir", `"Not_A_Namespace"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s:\n%v", want, err)
		}
	}
}

func TestCachesHoldOurChildrenOnlyAndNoManagedFields(t *testing.T) {
	options, err := cacheOptions([]string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	if len(options.DefaultNamespaces) != 2 {
		t.Errorf("namespaces %v", options.DefaultNamespaces)
	}
	if len(options.ByObject) != len(childKinds()) {
		t.Errorf("%d kinds have a selector, want %d", len(options.ByObject), len(childKinds()))
	}
	for kind, by := range options.ByObject {
		if by.Label == nil || by.Label.String() != "routerfleet.io/fleet" {
			t.Errorf("%T is selected by %v", kind, by.Label)
		}
	}
	pod := &corev1.Pod{}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	out, err := options.DefaultTransform(pod)
	if err != nil || len(out.(*corev1.Pod).ManagedFields) != 0 {
		t.Errorf("managed fields stay in memory: %v", err)
	}
}

func TestSecretsAreNeverCached(t *testing.T) {
	for _, object := range clientOptions().Cache.DisableFor {
		if _, isSecret := object.(*corev1.Secret); isSecret {
			return
		}
	}
	t.Error("Secrets are read through the cache")
}

func TestMetricsAskWhoCallsUnlessToldOtherwise(t *testing.T) {
	secure := metricsOptions(parse(t))
	if !secure.SecureServing || secure.FilterProvider == nil {
		t.Errorf("metrics are open: %+v", secure)
	}
	config := &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	for _, change := range secure.TLSOpts {
		change(config)
	}
	if diff := cmp.Diff([]string{"http/1.1"}, config.NextProtos); diff != "" {
		t.Errorf("HTTP/2 is on:\n%s", diff)
	}
	if open := metricsOptions(parse(t, "--no-metrics-secure")); open.SecureServing || open.FilterProvider != nil {
		t.Errorf("--no-metrics-secure still asks: %+v", open)
	}
}

func TestLogsHaveTheirFormAndLevel(t *testing.T) {
	var out bytes.Buffer
	logger, err := newLogger(&out, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	logger.V(4).Info("not this")
	logger.Info("started", "fleet", "demo")
	logger.Error(errors.New("boom"), "failed")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var first map[string]any
	if len(lines) != 2 || json.Unmarshal([]byte(lines[0]), &first) != nil || first["fleet"] != "demo" {
		t.Errorf("got %q", lines)
	}
	for _, bad := range [][2]string{{"loud", "json"}, {"info", "xml"}} {
		if _, err := newLogger(&out, bad[0], bad[1]); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}
