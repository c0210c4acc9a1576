// Package slicewatch follows the EndpointSlices of a namespace that a selector takes.
//
// Its one invariant: what it says there is was one complete list and the changes since. A list that is being read is
// never seen by half, and an error changes nothing: a set frozen for a while is better than one that is empty by mistake.
package slicewatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Options configure a Watch.
type Options struct {
	// Name says in the log what is looked for: "peers".
	Name string
	// Client reads EndpointSlices.
	Client discoveryclient.EndpointSlicesGetter
	// Namespace must be named: the router's Role covers one namespace.
	Namespace string
	// Selector is a label selector in the full grammar, over the labels of slices. It must not be empty.
	Selector string
	// Log receives a line when trouble begins, changes or ends; nil discards.
	Log *slog.Logger
	// Noted, when set, hears of every request, "list" or "watch", and what became of it, in place of Log and Changed;
	// news says that this verb had another answer the last time. It is called during Run, never twice at once.
	Noted func(verb string, err error, news bool)
	// Listed, when set, is called for each complete list, before Slices shows it.
	Listed func()
}

func (o Options) validate() error {
	var errs []error
	if o.Client == nil {
		errs = append(errs, errors.New("there is no Kubernetes client"))
	}
	if o.Namespace == "" {
		errs = append(errs, errors.New("there is no namespace"))
	}
	switch parsed, err := labels.Parse(o.Selector); {
	case err != nil:
		errs = append(errs, fmt.Errorf("selector %q: %w", o.Selector, err))
	case parsed.Empty():
		errs = append(errs, errors.New("the selector is empty, which would take every Service's endpoints"))
	}
	return errors.Join(errs...)
}

// Watch is the store beneath client-go's reflector, which owns list, watch, bookmarks, 410 and back-off.
type Watch struct {
	opt     Options
	changed chan struct{}

	mu     sync.Mutex // guards what follows
	slices map[types.NamespacedName]*discoveryv1.EndpointSlice
	synced bool
	last   error            // of the last request; nil when it was answered
	broken map[string]error // verb -> why its last request failed; so that repeating trouble logs on change
}

var _ cache.ReflectorStore = (*Watch)(nil)

// New checks the options. Nothing is asked before Run.
func New(o Options) (*Watch, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("watch %s: %w", o.Name, err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Watch{
		opt: o, changed: make(chan struct{}, 1),
		slices: map[types.NamespacedName]*discoveryv1.EndpointSlice{}, broken: map[string]error{},
	}, nil
}

// Changed signals that Slices, from the first complete list on, or Trouble say something new. One signal may stand for
// several changes.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Slices lists the slices there are, in no order; synced is false until the first complete list. They must not be
// changed.
func (w *Watch) Slices() (list []*discoveryv1.EndpointSlice, synced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.slices)), w.synced
}

// Trouble is why the API server cannot be asked now; nil when the last request was answered.
func (w *Watch) Trouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Failing says why the last request of a verb, "list" or "watch", failed; a verb that was answered is not in it.
func (w *Watch) Failing() map[string]error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.broken)
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	// client-go reports each failed attempt by itself. note does that better, on change, so its own lines are for
	// debugging only.
	logger := logr.FromSlogHandler(asDebug{w.opt.Log.Handler()})
	r := cache.NewReflectorWithOptions(w.listerWatcher(), &discoveryv1.EndpointSlice{}, w, cache.ReflectorOptions{
		Name: w.opt.Name, Logger: &logger, Backoff: &redial,
	})
	r.RunWithContext(klog.NewContext(ctx, logger))
}

// redial is how long the reflector waits between attempts: half a second, so that a cut watch misses little, up to ten
// (client-go's own default goes to a minute with jitter, in which a dead endpoint would keep its place).
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

func (w *Watch) listerWatcher() cache.ListerWatcher {
	client := w.opt.Client.EndpointSlices(w.opt.Namespace)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = w.opt.Selector
			list, err := client.List(ctx, o)
			w.note(ctx, "list", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = w.opt.Selector
			stream, err := client.Watch(ctx, o)
			w.note(ctx, "watch", err)
			return stream, err
		},
	}, w.opt.Client)
}

// note remembers what became of a request and logs when the trouble changes or ends.
func (w *Watch) note(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	changed, news := text(w.last) != text(err), text(w.broken[verb]) != text(err)
	w.last, w.broken[verb] = err, err
	if err == nil {
		delete(w.broken, verb)
	}
	w.mu.Unlock()
	if w.opt.Noted != nil {
		w.opt.Noted(verb, err, news)
		return
	}
	if news {
		w.tell(verb, err)
	}
	if changed {
		w.signal()
	}
}

func (w *Watch) tell(verb string, err error) {
	if err == nil {
		w.opt.Log.Info("watch recovered", "watch", w.opt.Name, "verb", verb, "namespace", w.opt.Namespace)
		return
	}
	w.opt.Log.Warn("watch failed: keeping what is known, trying again", "watch", w.opt.Name, "verb", verb,
		"namespace", w.opt.Namespace, "error", err)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Replace takes over a complete list.
func (w *Watch) Replace(list []any, _ string) error {
	all := make(map[types.NamespacedName]*discoveryv1.EndpointSlice, len(list))
	for _, obj := range list {
		s, err := sliceOf(obj)
		if err != nil {
			return err
		}
		all[keyOf(s)] = s
	}
	if w.opt.Listed != nil {
		w.opt.Listed()
	}
	w.mu.Lock()
	w.slices, w.synced = all, true
	w.mu.Unlock()
	w.signal()
	return nil
}

// Add takes over one slice.
func (w *Watch) Add(obj any) error { return w.Update(obj) }

// Update takes over one slice.
func (w *Watch) Update(obj any) error {
	return w.change(obj, func(s *discoveryv1.EndpointSlice) { w.slices[keyOf(s)] = s })
}

// Delete drops one slice.
func (w *Watch) Delete(obj any) error {
	return w.change(obj, func(s *discoveryv1.EndpointSlice) { delete(w.slices, keyOf(s)) })
}

func (w *Watch) change(obj any, change func(*discoveryv1.EndpointSlice)) error {
	s, err := sliceOf(obj)
	if err != nil {
		return err
	}
	w.mu.Lock()
	change(s)
	synced := w.synced
	w.mu.Unlock()
	if synced {
		w.signal()
	}
	return nil
}

// Resync has nothing to do: no state depends on seeing an object again.
func (w *Watch) Resync() error { return nil }

func (w *Watch) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func sliceOf(obj any) (*discoveryv1.EndpointSlice, error) {
	s, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, fmt.Errorf("the watch got a %T where an EndpointSlice belongs", obj)
	}
	return s, nil
}

func keyOf(s *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}
