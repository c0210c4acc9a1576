package manager

import (
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Options are the flags of the manager, one to one. Each is also read from the
// environment as MANAGER_<FLAG>.
type Options struct {
	LeaderElect             bool          `group:"Leader election" help:"Wait for the election Lease before reconciling. Needed with more than one replica."`
	LeaderElectionNamespace string        `group:"Leader election" help:"Namespace of the election Lease. Default: the namespace the manager runs in." placeholder:"NAMESPACE"`
	LeaseDuration           time.Duration `group:"Leader election" default:"15s" help:"How long a silent leader is believed; the longest a failover takes." placeholder:"DURATION"`
	RenewDeadline           time.Duration `group:"Leader election" default:"10s" help:"How long a leader tries to renew its Lease before it gives up. Below the lease duration." placeholder:"DURATION"`
	RetryPeriod             time.Duration `group:"Leader election" default:"2s" help:"Time between attempts on the Lease. Below the renew deadline." placeholder:"DURATION"`

	WatchNamespaces         []string      `group:"Fleets" help:"Namespaces to watch, comma-separated or repeated. Default: all." placeholder:"NAMESPACE"`
	MaxConcurrentReconciles int           `group:"Fleets" default:"4" help:"Fleets reconciled at once."`
	ReconciliationTimeout   time.Duration `group:"Fleets" default:"30s" help:"The longest one reconcile may take." placeholder:"DURATION"`

	MetricsBindAddress string `group:"Listeners" default:":8443" help:"Address of /metrics. 0 turns it off."`
	MetricsSecure      bool   `group:"Listeners" default:"true" negatable:"" help:"Serve metrics by TLS, to callers the API server authenticates and allows to get /metrics; --no-metrics-secure serves them in the clear to everybody."`
	MetricsCertDir     string `group:"Listeners" help:"Directory with tls.crt and tls.key for metrics, reloaded when they change. Default: a self-signed certificate." type:"path" placeholder:"DIR"`

	HealthProbeBindAddress string `group:"Listeners" default:":8081" help:"Address of /healthz and /readyz. 0 turns it off."`

	KubeAPIQPS   float32 `group:"API server" name:"kube-api-qps" default:"50" help:"Requests a second to the API server, on average."`
	KubeAPIBurst int     `group:"API server" name:"kube-api-burst" default:"100" help:"Requests at once to the API server."`
	Kubeconfig   string  `group:"API server" help:"Kubeconfig file. Default: KUBECONFIG, the in-cluster configuration, ~/.kube/config." type:"path" placeholder:"FILE"`

	LogLevel  string `group:"Logs" default:"info" enum:"debug,info,warn,error" help:"Lowest level that is logged: debug, info, warn or error."`
	LogFormat string `group:"Logs" default:"json" enum:"json,text" help:"Form of the log: json or text."`
}

// Grammar is how the command line is read.
func Grammar() []kong.Option {
	return []kong.Option{
		kong.Name("manager"),
		kong.Description("The RouterFleet operator: creates, rolls and heals the routers of every RouterFleet, and says in their status how they are."),
		kong.DefaultEnvars("MANAGER"),
	}
}

// Validate reports everything that is wrong with the options at once.
func (o *Options) Validate() error {
	var problems []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	add(o.MaxConcurrentReconciles < 1, "--max-concurrent-reconciles must be at least 1, not %d", o.MaxConcurrentReconciles)
	add(o.ReconciliationTimeout <= 0, "--reconciliation-timeout must be positive, not %s", o.ReconciliationTimeout)
	add(o.KubeAPIQPS <= 0, "--kube-api-qps must be positive, not %v", o.KubeAPIQPS)
	add(o.KubeAPIBurst < 1, "--kube-api-burst must be at least 1, not %d", o.KubeAPIBurst)
	add(o.RetryPeriod <= 0 || o.RenewDeadline <= o.RetryPeriod || o.LeaseDuration <= o.RenewDeadline,
		"--retry-period %s, --renew-deadline %s and --lease-duration %s must be positive and ascend",
		o.RetryPeriod, o.RenewDeadline, o.LeaseDuration)
	add(!o.MetricsSecure && o.MetricsCertDir != "", "--metrics-cert-dir has no effect with --no-metrics-secure")
	for _, ns := range o.WatchNamespaces {
		for _, why := range validation.IsDNS1123Label(ns) {
			add(true, "--watch-namespaces: %q is no namespace: %s", ns, why)
		}
	}
	return errors.Join(problems...)
}
