package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// still is a pump without a goroutine: the test is its one. Time stands.
type still struct {
	*Pump
	t     testing.TB
	epoch map[index.Rank]uint64
	now   time.Time
}

func newStill(t testing.TB, o Options) *still {
	s := &still{t: t, epoch: map[index.Rank]uint64{}, now: time.Unix(1000, 0)}
	n := uint64(0)
	o.Seed, o.Now = testSeed, func() time.Time { return s.now }
	o.Rand = func() uint64 { n += 0x9e3779b97f4a7c15; return n }
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	p.ctx = t.Context()
	s.Pump = p
	return s
}

// join registers a rank and connects it; its engine's start is known at once.
func (s *still) join(scheme index.Scheme, worker, start string) *pumped {
	s.t.Helper()
	rank := index.Rank{Worker: worker}
	reg := Registration{Rank: rank, Worker: "ns/" + worker, Section: SectionKey{"m", scheme, 4, false},
		Start: startNamed(start), Link: &fakeLink{start: startNamed(start)}}
	if err := s.register(reg); err != nil {
		s.t.Fatal(err)
	}
	s.connect(worker)
	return s.ranks[rank]
}

func (s *still) connect(worker string) {
	rank := index.Rank{Worker: worker}
	s.epoch[rank]++
	s.deliver(kvevents.Delivery{Rank: rank, Epoch: s.epoch[rank], Kind: kvevents.Opened})
	s.settle()
}

// settle lets questions be answered.
func (s *still) settle() {
	s.wg.Wait()
	for len(s.answers) > 0 {
		s.answered(<-s.answers)
	}
	s.flush()
}

func (s *still) hear(worker string, batches ...*kvevents.Batch) {
	rank := index.Rank{Worker: worker}
	for _, b := range batches {
		b = &kvevents.Batch{Seq: b.Seq, Time: b.Time, Hash: b.Hash, Rank: b.Rank, Events: slices.Clone(b.Events)} // it is released
		s.deliver(kvevents.Delivery{Rank: rank, Epoch: s.epoch[rank], Kind: kvevents.Arrived, Batch: b})
	}
	s.settle()
}

func (s *still) tick(d time.Duration) {
	s.now = s.now.Add(d)
	s.Pump.tick()
	s.settle()
}

func (s *still) during(_ context.Context, do func(p *Pump) bool) (bool, error) {
	more := do(s.Pump)
	s.settle()
	return more, nil
}

// owing are all obligations there are.
func (s *still) owing() (out []RankEpoch) {
	for _, r := range s.View().Ranks() {
		if o := r.Status().Owed; o != nil {
			out = append(out, RankEpoch{r.Rank, o.Epoch})
		}
	}
	return out
}

func (s *still) graft(v offer) []GraftResult {
	s.t.Helper()
	out, err := graftBy(s.t.Context(), s.during, v, s.owing())
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// content is what a rank is said to hold.
func (s *still) content(worker string) string {
	l := s.ranks[index.Rank{Worker: worker}].ledger
	return (&harness{l: l}).content()
}

// held are the keys a rank holds.
func (s *still) held(worker string) map[index.Key]index.Tier {
	rank := index.Rank{Worker: worker}
	out := map[index.Key]index.Tier{}
	x := s.ranks[rank].ledger.section.Index
	for e := x.Export(); e.Next(func(n index.Node) {
		for _, c := range n.Carriers {
			if c.Rank == rank {
				out[n.Key] = c.Tiers
			}
		}
	}); {
	}
	return out
}

// section is a vetted section in memory.
type section struct {
	key    snapshot.SectionKey
	ranks  []snapshot.VettedRank
	chunks []*piece
	end    error          // instead of io.EOF
	before func(read int) // called before each chunk
	kept   map[int]int    // old number -> number, after Retain
	read   int
}

type piece struct {
	parents []index.Parent
	keys    [][]index.Key
	who     [][]index.Holding
	hashes  []ofRank[snapshot.HashRow]
	orphans []ofRank[snapshot.OrphanRow]
}

func (v *section) Key() snapshot.SectionKey     { return v.key }
func (v *section) Ranks() []snapshot.VettedRank { return v.ranks }

func (v *section) Retain(keep func(index.Rank) bool) {
	v.kept = map[int]int{}
	var ranks []snapshot.VettedRank
	for i, r := range v.ranks {
		if keep(r.Rank) {
			v.kept[i] = len(ranks)
			ranks = append(ranks, r)
		}
	}
	v.ranks = ranks
}

func (v *section) next(ctx context.Context) (chunk, error) {
	if v.before != nil {
		v.before(v.read)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if v.read == len(v.chunks) {
		if v.end != nil {
			return nil, v.end
		}
		return nil, io.EOF
	}
	v.read++
	return numbered{v.chunks[v.read-1], v.kept}, nil
}

// numbered is a piece with the numbers ranks have now.
type numbered struct {
	*piece
	kept map[int]int
}

func (n numbered) Runs(f func(index.Parent, []index.Key, []index.Holding)) {
	for i, keys := range n.keys {
		var who []index.Holding
		for _, w := range n.who[i] {
			if to, ok := n.kept[w.Rank]; ok {
				who = append(who, index.Holding{Rank: to, Tiers: w.Tiers})
			}
		}
		if len(who) > 0 {
			f(n.parents[i], keys, who)
		}
	}
}

func (n numbered) Hashes(f func(int, snapshot.HashRow)) {
	for _, h := range n.hashes {
		if to, ok := n.kept[h.rank]; ok {
			f(to, h.row)
		}
	}
}

func (n numbered) Orphans(f func(int, snapshot.OrphanRow)) {
	for _, o := range n.orphans {
		if to, ok := n.kept[o.rank]; ok {
			f(to, o.row)
		}
	}
}

// teach makes a section of what a pump holds, as package snapshot does: rows, names, blocks, rows again. meanwhile happens
// after the first rows.
func (s *still) teach(meanwhile func()) *section {
	s.t.Helper()
	source := snapshotSource{s}
	sections := source.Sections()
	if len(sections) != 1 {
		s.t.Fatalf("%d sections", len(sections))
	}
	from := sections[0]
	v := &section{key: from.Key}
	var ranks []index.Rank
	for _, row := range from.Rows {
		if row.Exportable {
			ranks = append(ranks, row.Rank)
			v.ranks = append(v.ranks, snapshot.VettedRank{Rank: row.Rank, Cursor: row.Cursor, SeededFrom: "sibling"})
		}
	}
	if meanwhile != nil {
		meanwhile()
	}
	named := make([]map[index.Key]bool, len(ranks))
	names := &piece{}
	for i, r := range ranks {
		named[i] = source.names(i, r, names)
	}
	v.chunks = append(v.chunks, s.blocks(from, ranks, named)...)
	v.chunks = append(v.chunks, names)
	for i, r := range ranks {
		row := s.ranks[r].public.row(s.ranks[r].status())
		v.ranks[i].WalkedTo = max(row.Cursor.Seq, row.WalkedTo)
	}
	return v
}

// snapshotSource is Source where the test is the pump.
type snapshotSource struct{ *still }

func (s snapshotSource) Sections() []snapshot.SourceSection {
	return NewSource(s.Pump, SourceOptions{}).Sections()
}

func (s snapshotSource) names(number int, rank index.Rank, into *piece) map[index.Key]bool {
	l := s.ranks[rank].ledger
	if l.keys == nil {
		return nil
	}
	known := map[index.Key]bool{}
	for segment := range keySegments {
		for _, h := range l.keys.rows(segment, nil) {
			known[h.Key] = true
			into.hashes = append(into.hashes, ofRank[snapshot.HashRow]{number, h})
		}
	}
	for after := uint64(0); ; {
		var rows []snapshot.OrphanRow
		if rows, after = l.orphans.rows(after, 3, nil); len(rows) == 0 {
			return known
		}
		for _, o := range rows {
			into.orphans = append(into.orphans, ofRank[snapshot.OrphanRow]{number, o})
		}
	}
}

// blocks walks an index. In scheme tokens a carrier without a name is left out.
func (s *still) blocks(from snapshot.SourceSection, ranks []index.Rank, named []map[index.Key]bool) (out []*piece) {
	runs := from.Index.Runs(ranks, index.RunOptions{})
	for more := true; more; {
		p := &piece{}
		more = runs.Next(64, func(r index.Run) {
			parent := r.Parent
			for _, k := range r.Keys {
				var who []index.Holding
				for _, w := range r.Who {
					if named[w.Rank] == nil || named[w.Rank][k] {
						who = append(who, w)
					}
				}
				if len(who) > 0 {
					p.parents, p.keys, p.who = append(p.parents, parent), append(p.keys, []index.Key{k}), append(p.who, who)
				}
				parent = index.After(k)
			}
		})
		out = append(out, p)
	}
	return out
}

// A graft at any cut, plus the rest, is the whole stream: whatever was held before, and whatever was applied to the source
// while it was walked.
func TestAGraftAtAnyCutPlusTheRestIsTheWholeStream(t *testing.T) {
	forSeedsAndSchemes(t, 2, func(t *testing.T, rnd *rand.Rand, scheme index.Scheme) {
		p := history(rnd, "p1", 40, sec(0))
		want := truth(t, scheme, p)
		for cut := range p.batches {
			for _, smear := range []int{0, 1, 4} {
				for _, overlap := range []int{-1, 0, 2} { // held from so many before the watermark on; -1: nothing is held
					what := fmt.Sprintf("cut %d, walked %d on, overlap %d", cut, smear, overlap)
					end := min(cut+1+smear, len(p.batches))
					source := newStill(t, Options{})
					source.join(scheme, "w", "p1")
					source.hear("w", p.batches[:cut+1]...)
					v := source.teach(func() { source.hear("w", p.batches[cut+1:end]...) })
					s := newStill(t, Options{Bootstrap: true})
					r := s.join(scheme, "w", "p1")
					from := cut + 1
					if overlap >= 0 {
						from = max(1, cut+1-overlap)
						s.hear("w", p.batches[from:end]...)
						from = max(end, from)
					}
					if got := s.graft(v); len(got) != 1 || got[0].Verdict != Grafted {
						t.Fatalf("%s: %+v", what, got)
					}
					s.hear("w", p.batches[min(from, len(p.batches)):]...)
					if r.state.cursor.Seq != int64(len(p.batches)-1) || r.state.cursor.Proof != Proven {
						t.Fatalf("%s: the cursor is %+v", what, r.state.cursor)
					}
					if got := s.content("w"); got == want {
						continue
					} else if smear == 0 && scheme != index.SchemeVLLM || scheme == index.SchemeSGLang {
						t.Fatalf("%s: %s, want %s", what, got, want)
					}
					s.wantNoMore(what, "w", p) // copies that may be counted twice are not counted
				}
			}
		}
	})
}

// wantNoMore checks that a rank holds nothing the engine does not.
func (s *still) wantNoMore(what, worker string, p *process) {
	s.t.Helper()
	whole := newStill(s.t, Options{})
	whole.join(s.ranks[index.Rank{Worker: worker}].ledger.section.Key.Scheme, worker, p.name)
	whole.hear(worker, p.batches...)
	all := whole.held(worker)
	for k, tiers := range s.held(worker) {
		if tiers&^all[k] != 0 {
			s.t.Fatalf("%s: block %x is held in %v, the engine has it in %v", what, k, tiers, all[k])
		}
	}
}

// A rank that goes on is healed at any cut: what it applied meanwhile is in the section or was kept.
func TestAHealAtAnyCutPlusTheRestIsTheWholeStream(t *testing.T) {
	forSeedsAndSchemes(t, 3, func(t *testing.T, rnd *rand.Rand, scheme index.Scheme) {
		p := history(rnd, "p1", 60, sec(0))
		want := truth(t, scheme, p)
		for cut := 2; cut < len(p.batches); cut++ {
			source := newStill(t, Options{})
			source.join(scheme, "w", "p1")
			source.hear("w", p.batches[:cut+1]...)
			s := newStill(t, Options{Bootstrap: true})
			r := s.join(scheme, "w", "p1")
			began := 1 + rnd.IntN(cut)
			s.hear("w", p.batches[began])
			s.step(r, abandoned{r.state.owed.Epoch, AbandonNoPeers})
			s.hear("w", p.batches[began+1:cut+1]...)
			s.step(r, keep{r.state.owed.Epoch})
			v := source.teach(nil)
			v.before = func(int) { // between two chunks the rank goes on
				if next := int(r.state.cursor.Seq) + 1; next < len(p.batches) {
					s.hear("w", p.batches[next])
				}
			}
			s.flush()
			got := s.graft(v)
			if len(got) == 1 && got[0].Verdict == GraftStale && !r.state.cursor.Partial {
				continue // a clear made it whole
			}
			if len(got) == 0 && !r.state.cursor.Partial {
				continue
			}
			if len(got) != 1 || got[0].Verdict != Grafted {
				t.Fatalf("cut %d: %+v", cut, got)
			}
			s.hear("w", p.batches[r.state.cursor.Seq+1:]...)
			if got := s.content("w"); got != want && scheme != index.SchemeVLLM {
				t.Fatalf("cut %d: %s, want %s", cut, got, want)
			}
			s.wantNoMore(fmt.Sprint("cut ", cut), "w", p)
			if c := r.state.cursor; c.Partial || c.Proof != Proven || r.state.outcome != OutcomeAbandoned || r.state.tally.Heals != 1 {
				t.Fatalf("cut %d: %+v, outcome %v, heals %d", cut, c, r.state.outcome, r.state.tally.Heals)
			}
			if used := s.opt.Budget.Used(); used != 0 {
				t.Fatalf("%d bytes of the budget are lost", used)
			}
		}
	})
}

var errCut = errors.New("the peer died")
