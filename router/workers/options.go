package workers

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/routerfleet/routerfleet/router/models"
)

// Defaults of Options.
const (
	DefaultBreakerThreshold = 5
	DefaultBreakerCoolDown  = 30 * time.Second
	// DefaultForgetAfter is how long a worker may be absent from every slice before it is forgotten: rule B15,
	// longer than a readiness flap or a Service edit, shorter than the reuse of a pod address usually takes.
	DefaultForgetAfter = 60 * time.Second
	// DefaultRetryInterval is the longest time until a worker with unknown models is asked again.
	DefaultRetryInterval = 30 * time.Second
	// DefaultProbeInterval is how often a healthy static worker is probed.
	DefaultProbeInterval = 5 * time.Second
)

// Options configure a Registry. Zero means the documented default.
type Options struct {
	// Static are the workers named by --worker. They are present for as long as the registry lives and are
	// probed actively.
	Static []StaticWorker
	// Slices discovers workers from EndpointSlices; nil discovers none.
	Slices *SliceSource
	// Models restricts the router to the models of a file and divides the workers between them; a worker that does not
	// say what it serves is taken to serve the one model that takes it. Nil takes what the engines report.
	Models *models.Set
	// BreakerThreshold is the number of consecutive failures that opens a worker's breaker; default 5, negative
	// never opens. Raising it costs failed attempts on a dead engine.
	BreakerThreshold int
	// BreakerCoolDown is how long an open breaker refuses before it lets one probe through; default 30 s.
	BreakerCoolDown time.Duration
	// ForgetAfter is how long an absent worker is remembered; default 60 s.
	ForgetAfter time.Duration
	// RetryInterval is the longest time between introspections of a worker whose models are unknown, reached by
	// doubling from a second; default 30 s.
	RetryInterval time.Duration
	// ProbeInterval is the time between health probes of a healthy static worker; default 5 s. An unhealthy one
	// is probed every second.
	ProbeInterval time.Duration

	// APIKey returns the bearer the engines expect; nil or an empty answer sends none. It is called for each
	// request, so a rotated file is picked up.
	APIKey func() string
	// Transport carries introspection and probes; nil is a small one of our own.
	Transport http.RoundTripper
	// Now is the clock of the state machines; nil is time.Now.
	Now func() time.Time
	// Log receives one line per transition; nil discards.
	Log *slog.Logger
	// Metrics registers the metrics of this package; nil registers none.
	Metrics prometheus.Registerer
}

// SliceSource says which EndpointSlices hold workers.
type SliceSource struct {
	// Client reads EndpointSlices; see NewSliceClient.
	Client discoveryclient.EndpointSlicesGetter
	// Namespace must be named: the router's Role covers one namespace.
	Namespace string
	// Selector is a label selector in the full grammar; it must not be empty, which would take every Service's
	// endpoints for engines.
	Selector string
	// Port is the slice port to use, by name or number; empty means "http".
	Port string
}

func (o Options) withDefaults() Options {
	setDefault(&o.BreakerThreshold, DefaultBreakerThreshold)
	setDefault(&o.BreakerCoolDown, DefaultBreakerCoolDown)
	setDefault(&o.ForgetAfter, DefaultForgetAfter)
	setDefault(&o.RetryInterval, DefaultRetryInterval)
	setDefault(&o.ProbeInterval, DefaultProbeInterval)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports everything that is wrong with the options at once.
func (o Options) Validate() error {
	var errs []error
	if len(o.Static) == 0 && o.Slices == nil {
		errs = append(errs, errors.New("no source of workers: name some with --worker or switch on --service-discovery"))
	}
	seen := map[ID]bool{}
	for _, w := range o.Static {
		errs = append(errs, w.validate())
		if seen[w.ID] {
			errs = append(errs, fmt.Errorf("two static workers are called %q: give each an id with --worker id=URL", w.ID))
		}
		seen[w.ID] = true
	}
	if o.Slices != nil {
		errs = append(errs, o.Slices.validate())
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"breaker cool-down", o.BreakerCoolDown}, {"forget-after", o.ForgetAfter},
		{"introspection retry interval", o.RetryInterval}, {"probe interval", o.ProbeInterval},
	} {
		if d.d < 0 {
			errs = append(errs, fmt.Errorf("%s is %v: it must not be negative", d.name, d.d))
		}
	}
	return errors.Join(errs...)
}
