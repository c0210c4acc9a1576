package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
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

// sliceWatch follows EndpointSlices and hands the writer the complete set of workers they want. It is the store
// beneath client-go's reflector, which owns list, watch, bookmarks, 410 and back-off: a complete list arrives as
// one Replace, so a DELETE lost while the watch was down is found, and no half list is ever seen. A watch error
// changes nothing.
type sliceWatch struct {
	source  SliceSource
	port    portRef
	log     *slog.Logger
	metrics *metrics
	changed chan struct{} // capacity 1: the latest set is what matters, older ones may be skipped

	mu     sync.Mutex // guards what follows
	slices map[types.NamespacedName]*discoveryv1.EndpointSlice
	synced bool
	broken map[string]string // verb -> last error logged, so that repeating trouble logs on change
}

var _ cache.ReflectorStore = (*sliceWatch)(nil)

func newSliceWatch(o Options, m *metrics) (*sliceWatch, error) {
	port, err := parsePort(o.Slices.Port)
	if err != nil {
		return nil, err
	}
	return &sliceWatch{
		source: *o.Slices, port: port, log: o.Log, metrics: m, changed: make(chan struct{}, 1),
		slices: map[types.NamespacedName]*discoveryv1.EndpointSlice{}, broken: map[string]string{},
	}, nil
}

// changes signals that latest has something new. It is nil, and so never ready, without discovery.
func (w *sliceWatch) changes() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.changed
}

// latest is the set of workers the present slices want, and what else is in them.
func (w *sliceWatch) latest() listed {
	w.mu.Lock()
	all := slices.Collect(maps.Values(w.slices))
	w.mu.Unlock()
	set, skipped := desired(all, w.port)
	w.metrics.skippedNow(skipped)
	return listed{set: set, slices: len(all), skips: skipsOf(skipped, all, w.port)}
}

func (w *sliceWatch) run(ctx context.Context) {
	// client-go reports each failed attempt by itself. note does that better, on change, so its own lines are for
	// debugging only.
	logger := logr.FromSlogHandler(asDebug{w.log.Handler()})
	r := cache.NewReflectorWithOptions(w.listerWatcher(), &discoveryv1.EndpointSlice{}, w, cache.ReflectorOptions{
		Name: "workers", Logger: &logger, Backoff: &redial,
	})
	r.RunWithContext(klog.NewContext(ctx, logger))
}

// redial is how long the reflector waits between attempts: half a second, so that a cut watch misses little, up to
// ten (client-go's own default goes to a minute with jitter, in which a dead engine would keep its place).
var redial = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 16, Cap: 10 * time.Second}

// asDebug lets every record through at debug level, whatever it calls itself.
type asDebug struct{ slog.Handler }

func (h asDebug) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

func (h asDebug) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, r)
}

func (h asDebug) WithAttrs(attrs []slog.Attr) slog.Handler {
	return asDebug{h.Handler.WithAttrs(attrs)}
}

func (h asDebug) WithGroup(name string) slog.Handler { return asDebug{h.Handler.WithGroup(name)} }

// listerWatcher lists and watches the selected slices, and notes every failure.
func (w *sliceWatch) listerWatcher() cache.ListerWatcher {
	client := w.source.Client.EndpointSlices(w.source.Namespace)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = w.source.Selector
			list, err := client.List(ctx, o)
			w.note(ctx, "list", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = w.source.Selector
			stream, err := client.Watch(ctx, o)
			w.note(ctx, "watch", err)
			return stream, err
		},
	}, w.source.Client)
}

// note counts a failed request and logs when the trouble changes or ends.
func (w *sliceWatch) note(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
		w.metrics.watchErrors.WithLabelValues(verb, statusCode(err)).Inc()
	}
	w.mu.Lock()
	before := w.broken[verb]
	w.broken[verb] = text
	w.mu.Unlock()
	switch {
	case text == before:
	case text == "":
		w.log.Info("discovery recovered", "verb", verb, "namespace", w.source.Namespace)
	default:
		w.log.Warn("discovery failed: keeping the workers known, trying again", "verb", verb,
			"namespace", w.source.Namespace, "error", text)
	}
}

func statusCode(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return strconv.Itoa(int(status.Status().Code))
	}
	return "0"
}

// Replace takes over a complete list.
func (w *sliceWatch) Replace(list []any, _ string) error {
	all := make(map[types.NamespacedName]*discoveryv1.EndpointSlice, len(list))
	for _, obj := range list {
		s, err := sliceOf(obj)
		if err != nil {
			return err
		}
		all[keyOf(s)] = s
	}
	w.metrics.lists.Inc()
	w.mu.Lock()
	w.slices, w.synced = all, true
	w.mu.Unlock()
	w.signal()
	return nil
}

// Add takes over one slice.
func (w *sliceWatch) Add(obj any) error { return w.Update(obj) }

// Update takes over one slice.
func (w *sliceWatch) Update(obj any) error {
	s, err := sliceOf(obj)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.slices[keyOf(s)] = s
	w.mu.Unlock()
	w.signal()
	return nil
}

// Delete drops one slice.
func (w *sliceWatch) Delete(obj any) error {
	s, err := sliceOf(obj)
	if err != nil {
		return err
	}
	w.mu.Lock()
	delete(w.slices, keyOf(s))
	w.mu.Unlock()
	w.signal()
	return nil
}

// Resync has nothing to do: no state depends on seeing an object again.
func (w *sliceWatch) Resync() error { return nil }

// signal wakes the writer, but not before the first complete list.
func (w *sliceWatch) signal() {
	w.mu.Lock()
	synced := w.synced
	w.mu.Unlock()
	if !synced {
		return
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func sliceOf(obj any) (*discoveryv1.EndpointSlice, error) {
	s, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, fmt.Errorf("discovery got a %T where an EndpointSlice belongs", obj)
	}
	return s, nil
}

func keyOf(s *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}
