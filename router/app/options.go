package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/proxy"
	"github.com/routerfleet/routerfleet/router/telemetry"
	"github.com/routerfleet/routerfleet/router/workers"
)

// Options configure a router; each field of the first part is a flag. The zero value of a field means the default
// its help text states.
type Options struct {
	Worker                    []string `name:"worker" aliases:"worker-urls" sep:"none" group:"Workers" placeholder:"[ID=]URL" help:"An engine's base URL, optionally with an id ([a-z0-9.-]+) for logs and metrics. Repeatable; may be combined with discovery."`
	ServiceDiscovery          bool     `name:"service-discovery" group:"Workers" help:"Find engines through EndpointSlices."`
	ServiceDiscoveryNamespace string   `name:"service-discovery-namespace" group:"Workers" env:"ROUTER_SERVICE_DISCOVERY_NAMESPACE,POD_NAMESPACE" help:"Namespace of the EndpointSlices."`
	Selector                  []string `name:"selector" sep:"none" group:"Workers" placeholder:"LABELS" help:"Label selector of the engines' Services, in the full grammar. Repeatable: all must match."`
	WorkerPort                string   `name:"worker-port" group:"Workers" default:"http" help:"Name or number of the engines' port in the EndpointSlices."`
	ModelID                   string   `name:"model-id" group:"Workers" help:"Serve this model only; an engine that does not say what it serves is taken to serve it. Empty: whatever the engines report."`
	ModelsFile                string   `name:"models-file" group:"Workers" placeholder:"FILE" help:"YAML file with the models to serve: names, aliases, the workers of each, tokenizers and splits. It is read at the start. Not with --model-id."`
	WorkerLabels              []string `name:"worker-labels" sep:"none" group:"Workers" placeholder:"ID=LABELS" help:"Labels of an engine given with --worker, key=value and further ones after commas, for the selectors of --models-file. Repeatable."`
	WorkerAPIKeyFile          string   `name:"worker-api-key-file" group:"Workers" placeholder:"FILE" help:"File with the bearer token the engines expect; read again when it changes. With it, clients' Authorization is not forwarded."`
	Kubeconfig                string   `name:"kubeconfig" group:"Workers" placeholder:"FILE" help:"Kubeconfig for discovery outside a cluster. Empty: the pod's service account."`

	Host      string `name:"host" group:"Listeners" default:"0.0.0.0" help:"Address of the data listener, which serves clients."`
	Port      int    `name:"port" group:"Listeners" default:"30000" help:"Port of the data listener."`
	AdminHost string `name:"admin-host" group:"Listeners" default:"0.0.0.0" help:"Address of the admin listener: /healthz, /readyz, /metrics, /internal."`
	AdminPort int    `name:"admin-port" group:"Listeners" default:"9400" help:"Port of the admin listener."`
	TokenDir  string `name:"token-dir" group:"Listeners" placeholder:"DIR" help:"Directory of the fleet's tokens (a mounted Secret); read again when it changes. Empty: /internal answers 401."`

	Policy string `name:"policy" group:"Requests" default:"cache_aware" help:"How an engine is chosen: cache_aware (where the prompt costs least, cached blocks counted), power_of_two (the less loaded of two drawn at random) or round_robin."`

	RequestTimeoutSecs      int   `name:"request-timeout-secs" group:"Requests" default:"600" help:"Longest time one engine may take: until the answer's head for streams, until its end otherwise."`
	StaleRequestTimeoutSecs int   `name:"stale-request-timeout-secs" group:"Requests" default:"1800" help:"Longest life of a request, with all attempts and its stream. At least the request timeout."`
	StreamIdleTimeoutSecs   int   `name:"stream-idle-timeout-secs" group:"Requests" default:"180" help:"Longest silence of an engine inside a stream, and longest time a client may leave an answer unread."`
	CBThreshold             int   `name:"cb-threshold" group:"Requests" default:"5" help:"Consecutive failures that open an engine's breaker; negative: never."`
	CBCoolDownSecs          int   `name:"cb-cool-down-secs" group:"Requests" default:"30" help:"How long an open breaker refuses before one request may probe the engine."`
	MaxConcurrentRequests   int   `name:"max-concurrent-requests" group:"Requests" default:"0" help:"Requests in flight before more are answered 429; 0: no limit."`
	MaxBodyBytes            int64 `name:"max-body-bytes" group:"Requests" default:"8388608" help:"Largest request body. Each request in flight may hold this much memory."`

	KVOptions
	PeerOptions
	TokenOptions

	ShutdownLingerSecs int `name:"shutdown-linger-secs" group:"Shutdown" default:"5" help:"After SIGTERM: how long requests are still accepted while endpoints hear that this replica leaves; negative: not at all."`
	ShutdownDrainSecs  int `name:"shutdown-drain-secs" group:"Shutdown" default:"600" help:"After the linger: how long requests in flight may run on; negative: not at all."`

	LogLevel  string `name:"log-level" group:"Logs" default:"info" help:"debug, info, warn or error."`
	LogFormat string `name:"log-format" group:"Logs" default:"text" help:"text or json."`

	// What the pod is told about itself by the downward API; empty outside a fleet.
	PodUID   string `name:"pod-uid" hidden:"" env:"POD_UID"`
	Revision string `name:"revision" hidden:"" env:"ROUTERFLEET_REVISION"`

	// Log receives the log lines; default os.Stderr.
	Log io.Writer `kong:"-"`
	// Listen opens the listeners; default net.Listen. Tests choose other addresses with it.
	Listen func(ctx context.Context, network, address string) (net.Listener, error) `kong:"-"`
	// Version is what /metrics and the log say is running; default "dev".
	Version string `kong:"-"`
}

func (o Options) withDefaults() Options {
	fill(&o.WorkerPort, "http")
	fill(&o.Host, "0.0.0.0")
	fill(&o.Port, 30000)
	fill(&o.AdminHost, "0.0.0.0")
	fill(&o.AdminPort, 9400)
	fill(&o.Policy, policy.Default)
	o.KVOptions.fillDefaults()
	o.PeerOptions.fillDefaults()
	o.TokenOptions.fillDefaults()
	fill(&o.RequestTimeoutSecs, int(proxy.DefaultRequestTimeout/time.Second))
	fill(&o.StaleRequestTimeoutSecs, int(proxy.DefaultStaleTimeout/time.Second))
	fill(&o.StreamIdleTimeoutSecs, int(proxy.DefaultStreamIdleTimeout/time.Second))
	fill(&o.CBThreshold, workers.DefaultBreakerThreshold)
	fill(&o.CBCoolDownSecs, int(workers.DefaultBreakerCoolDown/time.Second))
	fill(&o.MaxBodyBytes, proxy.DefaultMaxBodyBytes)
	fill(&o.ShutdownLingerSecs, 5)
	fill(&o.ShutdownDrainSecs, 600)
	fill(&o.LogLevel, "info")
	fill(&o.LogFormat, telemetry.FormatText)
	fill(&o.Version, "dev")
	if o.Log == nil {
		o.Log = os.Stderr
	}
	if o.Listen == nil {
		var config net.ListenConfig
		o.Listen = config.Listen
	}
	return o
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// maxSecs bounds every duration flag: a week. More is a slip of the keyboard.
const maxSecs = 7 * 24 * 3600

// Validate reports everything that is wrong at once, without any I/O.
func (o Options) Validate() error {
	o = o.withDefaults()
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if len(o.Worker) == 0 && !o.ServiceDiscovery {
		fault("there are no workers: name engines with --worker URL, or find them with --service-discovery --selector LABELS")
	}
	if _, err := o.staticWorkers(); err != nil {
		faults = append(faults, err)
	}
	if o.ModelsFile != "" && o.ModelID != "" {
		fault("--model-id and --models-file exclude each other: name that model in the file")
	}
	if o.ServiceDiscovery && strings.Trim(strings.Join(o.Selector, ""), " ") == "" {
		fault("--service-discovery needs --selector: without one every Service's pods would be taken for engines")
	}
	if o.ServiceDiscovery && o.ServiceDiscoveryNamespace == "" {
		fault("--service-discovery needs --service-discovery-namespace (or POD_NAMESPACE in the environment)")
	}
	if !o.ServiceDiscovery && len(o.Selector) > 0 {
		fault("--selector does nothing without --service-discovery")
	}
	faults = append(faults, o.validatePorts(), o.validateDurations(), o.KVOptions.validate(), o.validatePeers(), o.TokenOptions.validate(o.ModelsFile))
	if !slices.Contains(policy.Names(), o.Policy) {
		fault("--policy %q is unknown: use one of %s", o.Policy, strings.Join(policy.Names(), ", "))
	}
	if o.MaxConcurrentRequests < 0 {
		fault("--max-concurrent-requests %d is negative; 0 means no limit", o.MaxConcurrentRequests)
	}
	if o.MaxBodyBytes < 1 || o.MaxBodyBytes > 1<<30 {
		fault("--max-body-bytes %d is outside 1 to %d", o.MaxBodyBytes, 1<<30)
	}
	if _, err := telemetry.NewLogger(io.Discard, o.LogLevel, o.LogFormat); err != nil {
		fault("logging: %w", err)
	}
	return errors.Join(faults...)
}

func (o Options) validatePorts() error {
	var faults []error
	for _, p := range []struct {
		flag string
		port int
	}{{"--port", o.Port}, {"--admin-port", o.AdminPort}} {
		if p.port < 1 || p.port > 65535 {
			faults = append(faults, fmt.Errorf("%s %d is outside 1 to 65535", p.flag, p.port))
		}
	}
	if o.Port == o.AdminPort && overlap(o.Host, o.AdminHost) {
		faults = append(faults, fmt.Errorf(
			"--port and --admin-port are both %d on overlapping addresses (%s and %s): the two listeners need different ports",
			o.Port, o.Host, o.AdminHost))
	}
	return errors.Join(faults...)
}

// overlap says whether two listen addresses share one: equal, or one of them is every address.
func overlap(a, b string) bool {
	every := func(host string) bool {
		ip := net.ParseIP(host)
		return host == "" || ip != nil && ip.IsUnspecified()
	}
	return a == b || every(a) || every(b)
}

func (o Options) validateDurations() error {
	var faults []error
	for _, d := range []struct {
		flag        string
		secs, least int
	}{
		{"--request-timeout-secs", o.RequestTimeoutSecs, 1},
		{"--stale-request-timeout-secs", o.StaleRequestTimeoutSecs, 1},
		{"--stream-idle-timeout-secs", o.StreamIdleTimeoutSecs, 1},
		{"--cb-cool-down-secs", o.CBCoolDownSecs, 1},
		{"--shutdown-linger-secs", o.ShutdownLingerSecs, -1},
		{"--shutdown-drain-secs", o.ShutdownDrainSecs, -1},
	} {
		if d.secs < d.least || d.secs > maxSecs {
			faults = append(faults, fmt.Errorf("%s %d is outside %d to %d", d.flag, d.secs, d.least, maxSecs))
		}
	}
	if o.StaleRequestTimeoutSecs < o.RequestTimeoutSecs {
		faults = append(faults, fmt.Errorf("--stale-request-timeout-secs %d is below --request-timeout-secs %d: no attempt could use its time",
			o.StaleRequestTimeoutSecs, o.RequestTimeoutSecs))
	}
	return errors.Join(faults...)
}

func seconds(n int) time.Duration { return time.Duration(max(n, 0)) * time.Second }
