package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// Options configure a Pump. Zero means the documented default.
type Options struct {
	// MaxBlocks bounds the blocks of all indexes together; 0 means no bound. Some 48 bytes a block.
	MaxBlocks int
	// Seed is the fleet's 64 secret bits for the tokens scheme.
	Seed index.Seed
	// Bootstrap says that siblings can be asked: ranks that know nothing hold their batches until somebody grafts them a
	// section or abandons them, and gaps are repaired. Otherwise gaps are applied over.
	Bootstrap bool
	// Budget bounds the memory of queues and held batches; nil is one of its own with kvevents.DefaultBudget.
	Budget *kvevents.Budget

	// Now is the clock of the state machines; nil is time.Now.
	Now func() time.Time
	// Jitter gives a duration in [0, d) before a replay is asked; nil is a random one.
	Jitter func(d time.Duration) time.Duration
	// Rand seeds hash tables; nil is math/rand/v2.
	Rand func() uint64
	// Log receives one line per transition; nil discards.
	Log *slog.Logger
	// Metrics registers the metrics of this package; nil registers none.
	Metrics prometheus.Registerer
}

func (o Options) withDefaults() Options {
	if o.Budget == nil {
		o.Budget = kvevents.NewBudget(0)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Uint64
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Link is how the pump reaches the engine behind a rank. Its methods are called from goroutines of the pump's, but Redial
// from the pump itself: it must not wait.
type Link interface {
	// Redial closes the connection of an epoch, if it still stands, and opens another.
	Redial(epoch uint64)
	// Replay has the engine repeat its batches from one on.
	Replay(ctx context.Context, from int64) *kvevents.ReplayResult
	// Start asks the engine for its start; unknown when it did not answer.
	Start(ctx context.Context) Start
}

// Registration makes a rank known to the pump. It comes before the rank's first delivery.
type Registration struct {
	Rank index.Rank
	// Identity is what the worker is called in incarnations: the pod UID, or the URL of a worker that is no pod. Empty means
	// Rank.Worker.
	Identity string
	// URL is the engine's base URL: siblings know a worker by it where one of them has no pod UID. It may be empty.
	URL string
	// Worker is the name of the worker, for people and metrics: namespace/pod, or the static id.
	Worker  string
	Section SectionKey
	// Start is what the engine said of itself before a connection was opened; it may be unknown.
	Start Start
	// Replays says that the engine repeats batches.
	Replays bool
	// CapacityTokens is what the rank's cache holds in device memory; 0 when the engine does not say.
	CapacityTokens int64
	Link           Link
}

// engine is the worker as siblings know it.
func (r *Registration) engine() snapshot.Worker {
	w := snapshot.Worker{PodUID: cmp.Or(r.Identity, r.Rank.Worker), URL: r.URL}
	if w.PodUID == w.URL {
		w.PodUID = ""
	}
	return w
}

func (r Registration) validate() error {
	var errs []error
	if r.Rank.Worker == "" || r.Worker == "" {
		errs = append(errs, errors.New("the worker has no identity or no name"))
	}
	if r.Link == nil {
		errs = append(errs, errors.New("there is no link to the engine"))
	}
	if r.Section.BlockSize < 1 {
		errs = append(errs, fmt.Errorf("block size %d", r.Section.BlockSize))
	}
	switch r.Section.Scheme {
	case index.SchemeSGLang, index.SchemeVLLM, index.SchemeTokens:
	default:
		errs = append(errs, fmt.Errorf("hash scheme %q is unknown", r.Section.Scheme))
	}
	return errors.Join(errs...)
}
