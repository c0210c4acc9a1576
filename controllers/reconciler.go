package controllers

import (
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/routerfleet/routerfleet/controllers/prober"
)

// Options of a Reconciler. Client and APIReader are required.
type Options struct {
	// Client reads from the cache and writes. Secrets must not be cached.
	Client client.Client
	// APIReader reads from the API server, uncached.
	APIReader client.Reader

	// Recorder writes events; nil means the manager's.
	Recorder events.EventRecorder
	// Transport carries the signed requests to routers; nil dials.
	Transport http.RoundTripper
	// Rand is where tokens come from; nil means crypto/rand.
	Rand io.Reader
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Reconciler reconciles RouterFleets. Use New, then SetupWithManager. Its methods may run concurrently for different
// fleets; the work queue never gives the same fleet to two of them.
type Reconciler struct {
	client  client.Client
	live    client.Reader
	events  events.EventRecorder
	rand    io.Reader
	now     func() time.Time
	prober  *prober.Prober
	intents *intents
	notes   *notebook

	mu    sync.Mutex // guards queue
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// New gives a reconciler that does nothing until SetupWithManager.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.APIReader == nil {
		return nil, errors.New("controllers: Client and APIReader are required")
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Reconciler{client: o.Client, live: o.APIReader, events: o.Recorder, rand: o.Rand, now: o.Now,
		intents: newIntents(), notes: newNotebook()}
	r.prober = prober.New(prober.Options{Wake: r.wake, Transport: o.Transport, Logger: ctrl.Log.WithName("prober")})
	return r, nil
}

// wake puts a fleet into the work queue. It is how routers' answers reach the reconciler: adding to the queue never
// blocks and folds several wakes into one.
func (r *Reconciler) wake(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue != nil {
		r.queue.Add(reconcile.Request{NamespacedName: name})
	}
}

// forget drops what is remembered of a fleet that is gone or going.
func (r *Reconciler) forget(name types.NamespacedName) {
	r.prober.Forget(name)
	r.notes.forget(name)
	r.intents.forget(name)
}
