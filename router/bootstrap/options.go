package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/peers"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// Options configure a Coordinator. Zero means the documented default.
type Options struct {
	// Timeout is the budget of the boot, and how long readiness waits at most without a seed gate. Default 60 s. Raising
	// it has a replica wait longer for siblings that do not answer.
	Timeout time.Duration
	// FetchCap bounds one fetch. Default 120 s. It must outlast the transfer of the whole index.
	FetchCap time.Duration
	// SeedRequired has readiness wait for a seed while siblings are there and none was found, up to three timeouts.
	SeedRequired bool
	// PodUID is what siblings call this replica; empty if it is no pod.
	PodUID string
	// Upstream says that upstream routers are looked for (migration mode).
	Upstream bool

	Pump   Pump
	Client Client
	// Peers are the siblings, UpstreamPeers the routers to migrate from; nil is none.
	Peers, UpstreamPeers Peers
	// Complete tells whether every engine there is was asked for its events, so that no rank is to be expected. nil: it is
	// never known, and a replica without ranks waits for its timeout.
	Complete func() bool

	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Rand seeds shuffles and jitter; nil is math/rand/v2.
	Rand func() uint64
	// Log receives one line per transition; nil discards.
	Log *slog.Logger
	// Metrics registers the metrics of this package; nil registers none.
	Metrics prometheus.Registerer
}

// Peers tells who can be asked: a *peers.Registry.
type Peers interface {
	Set() peers.Set
	// Changed is closed at the next change. Take it before the set.
	Changed() <-chan struct{}
}

// Pump is what the coordinator needs of the pump. Its methods may be called from any goroutine.
type Pump interface {
	// Changed has a value after something in Ranks changed that somebody waits for.
	Changed() <-chan struct{}
	// Ranks lists the ranks there are, as of now.
	Ranks() []Rank
	Graft(ctx context.Context, s Section, owed []ingest.RankEpoch) ([]ingest.GraftResult, error)
	Keep(ctx context.Context, ranks []ingest.RankEpoch) error
	Abandon(ctx context.Context, ranks []ingest.RankEpoch, why ingest.AbandonWhy) error
	Witness(ctx context.Context, at ingest.RankEpoch, watermark cursor.Cursor, t ingest.Testimony) error
	Suspect(ctx context.Context, r index.Rank, at cursor.Cursor, how ingest.Suspicion) error
	Equal(ctx context.Context, r index.Rank, at cursor.Cursor) error
	Behind(ctx context.Context, r index.Rank, at, sibling cursor.Cursor) error
}

// Client asks siblings.
type Client interface {
	// Cursors asks for a peer's table alone.
	Cursors(ctx context.Context, p peers.Peer) (*snapshot.Table, error)
	// Fetch asks for a snapshot. With an error the body may be not nil: then its table was read all the same.
	Fetch(ctx context.Context, p peers.Peer, upstream bool, w snapshot.Want) (Body, error)
}

// Body is a snapshot that is being read.
type Body interface {
	Table() *snapshot.Table
	Left() map[index.Rank]snapshot.Reason
	Progress() snapshot.Progress
	// Next gives the next section; io.EOF after the last.
	Next(ctx context.Context) (Section, error)
	Close() error
}

// Section is a vetted section: a *snapshot.Vetted.
type Section interface {
	Key() snapshot.SectionKey
	Ranks() []snapshot.VettedRank
}

// withDefaults checks the options as a whole.
func (o Options) withDefaults() (Options, error) {
	var errs []error
	if o.Pump == nil || o.Client == nil || o.Peers == nil {
		errs = append(errs, errors.New("a pump, a client and peers are needed"))
	}
	if o.Upstream && o.UpstreamPeers == nil {
		errs = append(errs, errors.New("upstream routers are to be asked, and nobody tells who they are"))
	}
	if o.Timeout < 0 || o.Timeout > MaxTimeout {
		errs = append(errs, fmt.Errorf("the timeout %s is outside 0 to %s", o.Timeout, MaxTimeout))
	}
	if o.FetchCap != 0 && (o.FetchCap < MinFetchCap || o.FetchCap > MaxFetchCap) {
		errs = append(errs, fmt.Errorf("the cap of one fetch %s is outside %s to %s", o.FetchCap, MinFetchCap, MaxFetchCap))
	}
	if len(errs) > 0 {
		return o, fmt.Errorf("bootstrap: %w", errors.Join(errs...))
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.FetchCap == 0 {
		o.FetchCap = DefaultFetchCap
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
	return o, nil
}

func (o *Options) fetchTimeout() time.Duration { return fetchTimeout(o.Timeout, o.FetchCap) }
