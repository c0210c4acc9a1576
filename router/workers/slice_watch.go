package workers

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/routerfleet/routerfleet/internal/slicewatch"
)

// NewSliceClient returns a client for EndpointSlices: from a kubeconfig file, or the pod's own service account
// when the path is empty.
func NewSliceClient(kubeconfig string) (discoveryclient.EndpointSlicesGetter, error) {
	var cfg *rest.Config
	var err error
	if kubeconfig == "" {
		cfg, err = rest.InClusterConfig()
	} else {
		cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("find the Kubernetes API server (outside a cluster use --kubeconfig): %w", err)
	}
	cfg.UserAgent = "routerfleet-router"
	return discoveryclient.NewForConfig(cfg)
}

func (s *SliceSource) validate() error {
	var errs []error
	if s.Client == nil {
		errs = append(errs, errors.New("discovery has no Kubernetes client"))
	}
	if s.Namespace == "" {
		errs = append(errs, errors.New("discovery has no namespace: set --service-discovery-namespace or POD_NAMESPACE"))
	}
	switch parsed, err := labels.Parse(s.Selector); {
	case err != nil:
		errs = append(errs, fmt.Errorf("selector %q: %w", s.Selector, err))
	case parsed.Empty():
		errs = append(errs, errors.New("the selector is empty, which would take every Service's pods for engines: set --selector"))
	}
	if _, err := parsePort(s.Port); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// sliceWatch hands the writer the complete set of workers the EndpointSlices want: a DELETE lost while the watch was
// down is found by the next list, no half list is ever seen, and an error changes nothing.
type sliceWatch struct {
	source  SliceSource
	port    portRef
	log     *slog.Logger
	metrics *metrics
	slices  *slicewatch.Watch
}

func newSliceWatch(o Options, m *metrics) (*sliceWatch, error) {
	port, err := parsePort(o.Slices.Port)
	if err != nil {
		return nil, err
	}
	w := &sliceWatch{source: *o.Slices, port: port, log: o.Log, metrics: m}
	w.slices, err = slicewatch.New(slicewatch.Options{
		Name: "workers", Client: w.source.Client, Namespace: w.source.Namespace, Selector: w.source.Selector,
		Log: o.Log, Noted: w.note, Listed: m.lists.Inc,
	})
	return w, err
}

// changes signals that latest has something new, not before the first complete list. It is nil, and so never ready,
// without discovery.
func (w *sliceWatch) changes() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.slices.Changed()
}

// latest is the set of workers the present slices want, and what else is in them.
func (w *sliceWatch) latest() listed {
	all, _ := w.slices.Slices() // changes has it complete
	set, skipped := desired(all, w.port)
	w.metrics.skippedNow(skipped)
	return listed{set: set, slices: len(all), skips: skipsOf(skipped, all, w.port)}
}

// note counts a failed request and logs when the trouble changes or ends.
func (w *sliceWatch) note(verb string, err error, news bool) {
	if err != nil {
		w.metrics.watchErrors.WithLabelValues(verb, statusCode(err)).Inc()
	}
	switch {
	case !news:
	case err == nil:
		w.log.Info("discovery recovered", "verb", verb, "namespace", w.source.Namespace)
	default:
		w.log.Warn("discovery failed: keeping the workers known, trying again", "verb", verb,
			"namespace", w.source.Namespace, "error", err)
	}
}

func statusCode(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return strconv.Itoa(int(status.Status().Code))
	}
	return "0"
}
