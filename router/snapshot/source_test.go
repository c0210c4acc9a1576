package snapshot

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

// memory is a Source over indexes in memory: a pump with one lock.
type memory struct {
	mu       sync.Mutex
	ready    bool
	since    time.Time
	sections []*memorySection
	// before and after a read of the rows, and before a slice of hashes, a test may do something.
	onSections, onRow, onHashes func()
}

type memorySection struct {
	key   SectionKey
	index *index.Index
	ranks []*memoryRank
}

type memoryRank struct {
	Row
	holder  *index.Holder
	names   map[uint64]HashRow // by hash
	orphans []OrphanRow
}

var _ Source = (*memory)(nil)

func (m *memory) Ready() bool              { return m.ready }
func (m *memory) SeedableSince() time.Time { return m.since }

func (m *memory) Sections() []SourceSection {
	if m.onSections != nil {
		m.onSections()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []SourceSection
	for _, s := range m.sections {
		o := SourceSection{Key: s.key, Index: s.index}
		for _, r := range s.ranks {
			o.Rows = append(o.Rows, r.row())
		}
		out = append(out, o)
	}
	return out
}

func (r *memoryRank) row() Row {
	row := r.Row
	if r.holder != nil {
		row.Life, row.Digest, row.DigestVersion = r.holder.State(), r.holder.Digest, index.DigestVersion
		row.Blocks = 0
		for _, n := range r.holder.Blocks {
			row.Blocks += n
		}
	}
	return row
}

func (m *memory) Row(key SectionKey, rank index.Rank) (Row, bool) {
	if m.onRow != nil {
		m.onRow()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sections {
		for _, r := range s.ranks {
			if s.key == key && r.Rank == rank {
				return r.row(), true
			}
		}
	}
	return Row{}, false
}

func (m *memory) Hashes(ctx context.Context, key SectionKey, rank index.Rank, emit func([]HashRow, []OrphanRow) error) error {
	if m.onHashes != nil {
		m.onHashes()
	}
	for _, s := range m.sections {
		for _, r := range s.ranks {
			if s.key != key || r.Rank != rank {
				continue
			}
			m.mu.Lock()
			rows := slices.Collect(maps.Values(r.names))
			orphans := slices.Clone(r.orphans)
			m.mu.Unlock()
			for part := range slices.Chunk(rows, 100) {
				if err := emit(part, nil); err != nil {
					return err
				}
			}
			return emit(nil, orphans)
		}
	}
	return ctx.Err()
}

// sglangKey, tokensKey are the sections of most tests.
func sglangKey() SectionKey { return SectionKey{Model: "m", Scheme: index.SchemeSGLang, BlockSize: 64} }
func tokensKey() SectionKey {
	return SectionKey{Model: "t", Scheme: index.SchemeTokens, BlockSize: 16, SeedID: 7}
}

// add gives a new section.
func (m *memory) add(key SectionKey) *memorySection {
	s := &memorySection{key: key, index: index.New(index.Options{})}
	m.sections = append(m.sections, s)
	return s
}

// rank gives a new rank with a cursor.
func (s *memorySection) rank(t testing.TB, worker string, dp int32, seq int64) *memoryRank {
	t.Helper()
	id := index.Rank{Worker: worker, DP: dp}
	h, err := s.index.Rank(id)
	if err != nil {
		t.Fatal(err)
	}
	r := &memoryRank{holder: h, names: map[uint64]HashRow{}, Row: Row{
		Rank: id, Worker: Worker{PodUID: worker, URL: "http://10.0.0." + worker + ":8000"}, DP: dp, Exportable: true,
		Cursor: cursor.Cursor{
			Incarnation: cursor.Incarnation{Worker: worker, Start: cursor.Start{Known: true, ID: "p1"}},
			Seq:         seq, Hash: uint64(seq) + 99, Proof: cursor.Proven,
		},
	}}
	setInt(&r.Cursor.Time, 1_700_000_000_000_000_000+seq)
	s.ranks = append(s.ranks, r)
	return r
}

// store is a batch with one event: the cursor moves.
func (r *memoryRank) store(s *memorySection, p index.Parent, keys []index.Key, t index.Tier) {
	s.index.Store(r.holder, p, keys, t)
	if s.key.Scheme == index.SchemeTokens {
		for _, k := range keys {
			row := r.names[nameFor(r, k)]
			r.names[nameFor(r, k)] = HashRow{nameFor(r, k), k, oneMore(row.Copies, t)}
		}
	}
	r.Cursor.Seq++
	r.Cursor.Time++
}

// oneMore counts a copy, saturating.
func oneMore(c Copies, t index.Tier) Copies {
	for i, mask := range copyBits {
		if t>>i&1 != 0 && c&mask != mask {
			c += mask & -mask
		}
	}
	return c
}

// nameFor is the engine's hash of a block: every engine has its own.
func nameFor(r *memoryRank, k index.Key) uint64 {
	return uint64(k)*31 + uint64(len(r.Worker.PodUID)) + uint64(r.DP)
}

// warm fills a section with random chains of shared prefixes in mixed tiers.
func (s *memorySection) warm(rng *rand.Rand, chains int) {
	var stored [][]index.Key
	for range chains {
		r := s.ranks[rng.IntN(len(s.ranks))]
		var chain []index.Key
		if len(stored) > 0 && rng.IntN(3) > 0 {
			from := stored[rng.IntN(len(stored))]
			chain = append(chain, from[:rng.IntN(len(from)+1)]...)
		}
		for range 1 + rng.IntN(30) {
			chain = append(chain, index.Key(rng.Uint64()))
		}
		stored = append(stored, chain)
		tier := index.Device
		if rng.IntN(4) == 0 {
			tier <<= rng.IntN(4)
		}
		r.store(s, index.Root, chain, tier)
	}
}

// holdings is what an index says of ranks, for comparison.
func holdings(x *index.Index, ranks []index.Rank) map[index.Key]string {
	out := map[index.Key]string{}
	for e := x.Export(); e.Next(func(n index.Node) {
		var who []string
		for _, c := range n.Carriers {
			if slices.Contains(ranks, c.Rank) {
				who = append(who, fmt.Sprint(c.Rank, c.Tiers))
			}
		}
		if len(who) > 0 {
			slices.Sort(who)
			out[n.Key] = fmt.Sprint(n.Parent, strings.Join(who, ";"))
		}
	}); {
	}
	return out
}

// graft is what a reader makes of a body.
type graft struct {
	key     SectionKey
	index   *index.Index
	ranks   []VettedRank
	holders []*index.Holder
	names   map[index.Rank]map[uint64]HashRow
	orphans map[index.Rank][]OrphanRow
}

// restore reads a section to its end and commits it into an index of its own.
func restore(t testing.TB, v *Vetted) *graft {
	t.Helper()
	g := &graft{key: v.Key(), index: index.New(index.Options{}), ranks: v.Ranks(),
		names: map[index.Rank]map[uint64]HashRow{}, orphans: map[index.Rank][]OrphanRow{}}
	err := g.from(v)
	if err != nil {
		t.Fatalf("restore %s: %v", v.Key(), err)
	}
	return g
}

func (g *graft) from(v *Vetted) error {
	var ids []index.Rank
	for _, r := range g.ranks {
		ids = append(ids, r.Rank)
		g.names[r.Rank] = map[uint64]HashRow{}
	}
	re, err := g.index.BeginRestore(ids)
	if err != nil {
		return err
	}
	for {
		c, err := v.Next(context.Background())
		if err != nil {
			if err.Error() != "EOF" {
				re.Abort()
				return err
			}
			break
		}
		c.Nodes(func(k index.Key, p index.Parent, who []index.Holding) { re.Add(k, p, who) })
		c.Hashes(func(rank int, h HashRow) { g.names[ids[rank]][h.Hash] = h })
		c.Orphans(func(rank int, o OrphanRow) { g.orphans[ids[rank]] = append(g.orphans[ids[rank]], o) })
	}
	g.holders = re.Commit()
	return nil
}

// wantAll asks for all ranks of a source.
func (m *memory) wantAll() Want {
	w := Want{MaxAge: AnyAge}
	for _, s := range m.sections {
		l := LocalSection{Key: s.key}
		for _, r := range s.ranks {
			l.Ranks = append(l.Ranks, LocalRank{Rank: r.Rank, Worker: r.Worker, Cursor: cursor.Cursor{Incarnation: r.Cursor.Incarnation}})
		}
		w.Local = append(w.Local, l)
	}
	return w
}

// ids lists the section's ranks.
func (s *memorySection) ids() (out []index.Rank) {
	for _, r := range s.ranks {
		out = append(out, r.Rank)
	}
	return out
}
