package policy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/workers"
	"github.com/routerfleet/routerfleet/router/workers/workerstest"
)

const blockSize = 16

// board is a directory the test changes.
type board struct{ atomic.Pointer[View] }

func (b *board) View() *View { return b.Load() }

// rig is the policy over ranks whose blocks the test stores in a real index.
type rig struct {
	tb       testing.TB
	ranks    []*workers.Rank
	index    *index.Index
	holders  []*index.Holder
	catalog  *Catalog
	holdings map[index.Rank]Holding
	board    *board
	now      time.Time
	registry *prometheus.Registry
	heard    []string
	policy   *cacheAware
}

func newRig(tb testing.TB, n int, change ...func(*Knobs)) *rig {
	tb.Helper()
	x := index.New(index.Options{Rand: rand.New(rand.NewPCG(1, 2)).Uint64})
	r := &rig{
		tb: tb, ranks: ranks(tb, n), index: x, holdings: map[index.Rank]Holding{}, board: &board{},
		catalog:  &Catalog{Space: KeySpace{Model: "m", Scheme: index.SchemeSGLang, BlockSize: blockSize}, Matcher: x},
		now:      time.Unix(1_000_000, 0),
		registry: prometheus.NewRegistry(),
	}
	for _, rank := range r.ranks {
		h, err := x.Rank(IndexRank(rank))
		if err != nil {
			tb.Fatal(err)
		}
		r.holders = append(r.holders, h)
		r.holdings[h.Rank()] = Holding{Catalog: r.catalog, Standing: &standing{Trusted, 1}}
	}
	r.publish()
	knobs := DefaultKnobs()
	for _, f := range change {
		f(&knobs)
	}
	p, err := New(NameCacheAware, Options{
		Knobs: &knobs, Directory: r.board, Suspicions: r, Registerer: r.registry, Now: func() time.Time { return r.now },
	})
	if err != nil {
		tb.Fatal(err)
	}
	r.policy = p.(*cacheAware)
	return r
}

func (r *rig) publish() { r.board.Store(NewView(r.holdings)) }

// standing is one the test changes.
type standing struct {
	trust Trust
	life  uint64
}

func (s *standing) Standing() (Trust, uint64) { return s.trust, s.life }

// stand gives the standing of rank i.
func (r *rig) stand(i int) *standing { return r.holdings[r.holders[i].Rank()].Standing.(*standing) }

// set changes what the directory says of rank i.
func (r *rig) set(i int, f func(*Holding)) {
	h := r.holdings[r.holders[i].Rank()]
	f(&h)
	r.holdings[r.holders[i].Rank()] = h
	r.publish()
}

func (r *rig) Suspected(rank index.Rank, life uint64, suspect bool, ratio int) {
	r.heard = append(r.heard, fmt.Sprintf("%s life %d suspect %v %d%%", rank.Worker, life, suspect, ratio))
}

// hold stores the first n keys for rank i.
func (r *rig) hold(i int, keys []index.Key, n int, t index.Tier) {
	r.tb.Helper()
	if got := r.index.Store(r.holders[i], index.Root, keys[:n], t); got != n {
		r.tb.Fatalf("stored %d of %d blocks", got, n)
	}
}

// chain makes n keys of a prompt; prompts of different ids share none.
func chain(id uint64, n int) []index.Key {
	keys := make([]index.Key, n)
	k := index.Key(id * 0x9e3779b97f4a7c15)
	for i := range keys {
		k = k.Next(index.Chunk(i))
		keys[i] = k
	}
	return keys
}

// branch is chain sharing its first n keys with another.
func branch(from []index.Key, n int, id uint64, total int) []index.Key {
	keys := append([]index.Key(nil), from[:n]...)
	k := index.Key(id)
	if n > 0 {
		k = keys[n-1]
	}
	for i := n; i < total; i++ {
		k = k.Next(index.Chunk(uint64(i) ^ id<<32))
		keys = append(keys, k)
	}
	return keys
}

// fixedKeys is a request's keys in spaces of one block size.
type fixedKeys struct {
	keys  []index.Key
	size  int
	asked []KeySpace
}

func (f *fixedKeys) Keys(s KeySpace) []index.Key {
	f.asked = append(f.asked, s)
	if s.BlockSize != f.size {
		return nil
	}
	return f.keys
}

// request is a prompt of the keys and a few tokens more.
func request(keys []index.Key) Request {
	return Request{
		Model: "m", Key: uint64(keys[len(keys)-1]), PromptTokens: len(keys)*blockSize + 3,
		Keys: &fixedKeys{keys: keys, size: blockSize},
	}
}

func (r *rig) decide(q Request) Decision {
	r.tb.Helper()
	d, ok := r.policy.Decide(q, r.ranks)
	if !ok {
		r.tb.Fatal("no choice among candidates")
	}
	return d
}

// rowOf gives what the decision table says of rank i.
func (r *rig) rowOf(q Request, i int) Row {
	r.tb.Helper()
	for _, row := range r.policy.Explain(q, r.ranks).Candidates {
		if row.Worker == r.ranks[i].Worker().Name() {
			return row
		}
	}
	r.tb.Fatalf("rank %d is not in the table", i)
	return Row{}
}

// expect decides and looks at the choice, the reason and the credit.
func (r *rig) expect(when string, q Request, rank int, reason Reason, credit int) Decision {
	r.tb.Helper()
	d := r.decide(q)
	if d.Rank != r.ranks[rank] || d.Reason != reason || d.CreditTokens != credit {
		table, _ := json.Marshal(r.policy.Explain(q, r.ranks))
		r.tb.Fatalf("%s: got %s for %s with %d tokens of credit, want rank %d for %s with %d\n%s",
			when, d.Rank.Worker().ID(), d.Reason, d.CreditTokens, rank, reason, credit, table)
	}
	return d
}

// counted gives the value of a series, -1 when there is none.
func (r *rig) counted(name string, labels ...string) float64 {
	r.tb.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.tb.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	series:
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				for i := 0; i < len(labels); i += 2 {
					if l.GetName() == labels[i] && l.GetValue() != labels[i+1] {
						continue series
					}
				}
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return -1
}

// manyRanks are ranks with ids as long as those of pods.
func manyRanks(tb testing.TB, n int) []*workers.Rank {
	var ws []workerstest.Worker
	for i := range n {
		ws = append(ws, workerstest.Worker{ID: fmt.Sprintf("default/7c9e6679-7425-40de-944b-e07f%08d", i), URL: fmt.Sprintf("http://w%d:8000", i), Models: []string{"m"}})
	}
	return workerstest.Ranks(tb, ws...)
}
