package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/internal/version"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// leaseName is the election Lease of the operator.
const leaseName = "routerfleet-manager"

// Run works until ctx ends. The process must exit when it returns: the election
// Lease is given up by then, and another manager may be at work.
func Run(ctx context.Context, o Options, logs io.Writer) error {
	if err := o.Validate(); err != nil {
		return err
	}
	logger, err := newLogger(logs, o.LogLevel, o.LogFormat)
	if err != nil {
		return err
	}
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)

	cfg, err := restConfig(o)
	if err != nil {
		return err
	}
	mgr, err := newManager(cfg, o)
	if err != nil {
		return err
	}
	if err := addController(mgr); err != nil {
		return err
	}
	logger.Info("starting", "version", version.Version, "leaderElect", o.LeaderElect, "namespaces", o.WatchNamespaces)
	return mgr.Start(ctx)
}

// Scheme holds the types the manager speaks.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	return scheme, err
}

func restConfig(o Options) (*rest.Config, error) {
	cfg, err := ctrl.GetConfig()
	if o.Kubeconfig != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w (run in a cluster, or set --kubeconfig)", err)
	}
	cfg.QPS = o.KubeAPIQPS
	cfg.Burst = o.KubeAPIBurst
	cfg.UserAgent = "routerfleet-manager/" + version.Version
	return cfg, nil
}

func newManager(cfg *rest.Config, o Options) (ctrl.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, fmt.Errorf("build scheme: %w", err)
	}
	cacheOptions, err := cacheOptions(o.WatchNamespaces)
	if err != nil {
		return nil, fmt.Errorf("build cache options: %w", err)
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                 scheme,
		Cache:                  cacheOptions,
		Client:                 clientOptions(),
		Controller:             controllerOptions(o),
		Metrics:                metricsOptions(o),
		HealthProbeBindAddress: o.HealthProbeBindAddress,

		LeaderElection:          o.LeaderElect,
		LeaderElectionID:        leaseName,
		LeaderElectionNamespace: o.LeaderElectionNamespace,
		LeaseDuration:           &o.LeaseDuration,
		RenewDeadline:           &o.RenewDeadline,
		RetryPeriod:             &o.RetryPeriod,
		// Safe because main returns as soon as Run does.
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("create manager: %w", err)
	}
	err = errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", cachesSynced(mgr.GetCache())),
	)
	if err != nil {
		return nil, fmt.Errorf("add probes: %w", err)
	}
	return mgr, nil
}

// controllerOptions: one bad fleet may neither crash nor occupy the operator,
// and a standby follows the cluster before it leads.
func controllerOptions(o Options) config.Controller {
	yes := true
	return config.Controller{
		MaxConcurrentReconciles: o.MaxConcurrentReconciles,
		ReconciliationTimeout:   o.ReconciliationTimeout,
		RecoverPanic:            &yes,
		EnableWarmup:            &yes,
	}
}

func metricsOptions(o Options) metricsserver.Options {
	options := metricsserver.Options{
		BindAddress:   o.MetricsBindAddress,
		SecureServing: o.MetricsSecure,
		CertDir:       o.MetricsCertDir,
		TLSOpts:       []func(*tls.Config){withoutHTTP2},
	}
	if o.MetricsSecure {
		options.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return options
}

// withoutHTTP2 leaves the stream floods of HTTP/2 (CVE-2023-44487 and kin) to
// servers that need it.
func withoutHTTP2(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }

// syncCheckTimeout is below the period of the readiness probe.
const syncCheckTimeout = time.Second

// cachesSynced says no while the operator would still work on half a world.
func cachesSynced(c cache.Cache) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), syncCheckTimeout)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("caches are not synced: is the API server reachable, and may this ServiceAccount list?")
		}
		return nil
	}
}
