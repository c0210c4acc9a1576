package peers

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
)

// Peer is a sibling.
type Peer struct {
	// ID tells siblings apart: the pod UID and port, or the URL of one that is no pod.
	ID string
	// UID is the pod's; empty for a peer that was named by URL.
	UID string
	// Name is for people: the pod's, or the address.
	Name string
	// URL is the base URL of the admin listener.
	URL string
	// Terminating siblings are asked last.
	Terminating bool
}

// Set is what is known of the siblings at one moment. It is immutable.
type Set struct {
	// Peers, ready ones first, then by URL.
	Peers []Peer
	// Synced says that a complete set was told at least once, if only an empty one.
	Synced bool
	// EverHad says that there was a sibling at some time.
	EverHad bool
	// Trouble is why the watch cannot ask now; nil when it can. The set stands meanwhile.
	Trouble error
}

// Alone tells that there are no siblings and never were: the one case in which nobody needs to be waited for. A set that
// is empty for a moment, as in the middle of a rolling update, says no such thing.
func (s Set) Alone() bool { return s.Synced && !s.EverHad && len(s.Peers) == 0 }

// Candidates are the peers in the order they should be asked: shuffled, so that replicas booting together spread over
// their siblings, the terminating ones last.
func (s Set) Candidates(shuffle func(n int, swap func(i, j int))) []Peer {
	out := slices.Clone(s.Peers)
	shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	slices.SortStableFunc(out, terminatingLast)
	return out
}

// Same tells whether two sets have the same members at the same addresses.
func (s Set) Same(o Set) bool { return slices.Equal(s.Peers, o.Peers) }

func terminatingLast(a, b Peer) int {
	switch {
	case a.Terminating == b.Terminating:
		return 0
	case b.Terminating:
		return -1
	default:
		return 1
	}
}

// Shuffle is the random order of Candidates.
func Shuffle(n int, swap func(i, j int)) { rand.Shuffle(n, swap) }

// Registry holds the present Set.
type Registry struct {
	log   *slog.Logger
	fixed []Peer

	mu      sync.Mutex // held to publish
	set     atomic.Pointer[Set]
	changed chan struct{}
}

// NewRegistry gives a registry of the peers that were named. If others are still to be told, it is not synced before the
// first Replace. log may be nil.
func NewRegistry(fixed []Peer, watched bool, log *slog.Logger) *Registry {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Registry{log: log, fixed: slices.Clone(fixed), changed: make(chan struct{})}
	r.set.Store(&Set{Peers: slices.Clone(fixed), Synced: !watched, EverHad: len(fixed) > 0})
	return r
}

// Set gives the present set. It never blocks.
func (r *Registry) Set() Set { return *r.set.Load() }

// Changed is closed at the next change. Take it before the set.
func (r *Registry) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// Replace publishes a complete set of the watched peers.
func (r *Registry) Replace(watched []Peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.set.Load()
	next := *before
	next.Peers = slices.Concat(r.fixed, watched)
	slices.SortStableFunc(next.Peers, terminatingLast)
	next.Synced, next.EverHad = true, before.EverHad || len(next.Peers) > 0
	if before.Synced && before.Same(next) {
		return
	}
	r.log.Info("peers changed", "peers", len(next.Peers), "before", len(before.Peers))
	r.publish(next)
}

// Fail notes why the watch cannot ask, or that it can again (nil). The set stands.
func (r *Registry) Fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := *r.set.Load()
	if next.Trouble == err { //nolint:errorlint // the same value again is no change
		return
	}
	next.Trouble = err
	r.publish(next)
}

// publish needs mu.
func (r *Registry) publish(s Set) {
	r.set.Store(&s)
	close(r.changed)
	r.changed = make(chan struct{})
}
