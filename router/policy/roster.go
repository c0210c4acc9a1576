package policy

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/workers"
)

// seat is one candidate with what does not change between requests.
type seat struct {
	rank     index.Rank
	identity []byte
	hash     uint64 // of identity: the rank's name in predicted credit
	catalog  int    // position in the roster's catalogs, none without one
	standing Standing
	capacity int64
	truth    *truth // nil without a catalog
}

// roster is a list of candidates joined with a view of the directory. It is immutable.
type roster struct {
	view     *View
	ranks    []*workers.Rank
	seats    []seat
	catalogs []*Catalog
	byHash   map[uint64]int
}

// serves tells whether the roster is of these candidates, in this order. Comparing a thousand pointers takes less than
// looking up one.
func (r *roster) serves(v *View, candidates []*workers.Rank) bool {
	if r == nil || r.view != v || len(r.ranks) != len(candidates) {
		return false
	}
	for i, c := range candidates {
		if r.ranks[i] != c {
			return false
		}
	}
	return true
}

func newRoster(v *View, candidates []*workers.Rank, t *truths) *roster {
	r := &roster{
		view: v, ranks: append([]*workers.Rank(nil), candidates...),
		seats: make([]seat, len(candidates)), byHash: make(map[uint64]int, len(candidates)),
	}
	catalogs := map[*Catalog]int{}
	for i, c := range candidates {
		s := seat{rank: IndexRank(c), catalog: none}
		s.identity = identityOf(s.rank)
		s.hash = xxh3.Hash(s.identity)
		if h, ok := v.Of(s.rank); ok {
			at, known := catalogs[h.Catalog]
			if !known {
				at = len(r.catalogs)
				catalogs[h.Catalog] = at
				r.catalogs = append(r.catalogs, h.Catalog)
			}
			s.catalog, s.standing, s.capacity = at, h.Standing, int64(max(0, h.CapacityTokens))
			s.truth = t.of(s.rank, c.Worker().Name())
		}
		r.seats[i] = s
		r.byHash[s.hash] = i
	}
	return r
}

// rosters keeps the last roster of each model: candidates are the same from request to request until workers come
// or go, or a request is tried again.
type rosters struct {
	byModel atomic.Pointer[map[string]*roster]
	mu      sync.Mutex // held to replace the map
}

func (c *rosters) of(model string, v *View, candidates []*workers.Rank, t *truths) *roster {
	if known := c.byModel.Load(); known != nil {
		if r := (*known)[model]; r.serves(v, candidates) {
			return r
		}
	}
	t.keep(v)
	r := newRoster(v, candidates, t)
	c.mu.Lock()
	defer c.mu.Unlock()
	var next map[string]*roster
	if known := c.byModel.Load(); known != nil && len(*known) < maxRosters {
		next = maps.Clone(*known)
	} else {
		next = map[string]*roster{}
	}
	next[model] = r
	c.byModel.Store(&next)
	return r
}
