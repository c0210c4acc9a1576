package snapshot

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
)

// throughFormat1 exports a section in format 1 and restores it.
func throughFormat1(t *testing.T, m *memory) *graft {
	t.Helper()
	body, err := open1(encode1(t, m), m.wantAll())
	if err != nil {
		t.Fatal(err)
	}
	return restoreAll(t, body)[0]
}

func randomSGLang(t *testing.T, seed uint64, chains int) *memory {
	rng := rand.New(rand.NewPCG(seed, 9))
	m := &memory{ready: true}
	s := m.add(sglangKey())
	for i := range 1 + rng.IntN(12) {
		s.rank(t, fmt.Sprint(i/2), int32(i%2), 3)
	}
	s.warm(rng, chains)
	for _, r := range s.ranks { // holes, and blocks whose parents are gone
		for k := range holdings(s.index, []index.Rank{r.Rank}) {
			if rng.IntN(20) == 0 {
				s.index.Remove(r.holder, []index.Key{k}, index.Tier(1+rng.IntN(15)))
			}
		}
	}
	return m
}

func TestExportRestoreRoundTripsIdentically(t *testing.T) {
	for seed := range uint64(6) {
		m := randomSGLang(t, seed, 1+int(seed)*30)
		s := m.sections[0]
		g := throughFormat1(t, m)
		if got, want := stripMissing(holdings(g.index, s.ids()), nil), stripMissing(holdings(s.index, s.ids()), s.index); !maps.Equal(got, want) {
			t.Fatalf("seed %d: %d blocks arrive otherwise than %d", seed, len(got), len(want))
		}
	}
}

// stripMissing gives blocks without the parents that nobody holds: format 1 cannot name a block it has no record of, so
// what follows one arrives as a root, as it does in the open stack.
func stripMissing(h map[index.Key]string, x *index.Index) map[index.Key]string {
	if x == nil {
		return h
	}
	held := map[index.Key]index.Parent{}
	for e := x.Export(); e.Next(func(n index.Node) { held[n.Key] = n.Parent }); {
	}
	out := map[index.Key]string{}
	for k, text := range h {
		p := held[k]
		if _, ok := held[p.Key]; p.Known && !ok {
			text = fmt.Sprint(index.Root) + text[len(fmt.Sprint(p)):]
		}
		out[k] = text
	}
	return out
}

func TestExportRestoreRoundTripsOccupancy(t *testing.T) {
	m := randomSGLang(t, 3, 200)
	g := throughFormat1(t, m)
	for i, r := range g.ranks {
		if got, want := g.holders[i].Blocks, m.sections[0].find(r.Rank).holder.Blocks; got != want {
			t.Errorf("%v: %v blocks by tier, want %v", r.Rank, got, want)
		}
	}
}

func TestExportRestorePreservesInteriorCarrierGaps(t *testing.T) {
	m := &memory{ready: true}
	s := m.add(sglangKey())
	a, b := s.rank(t, "1", 0, 1), s.rank(t, "2", 0, 1)
	chain := []index.Key{1, 2, 3}
	a.store(s, index.Root, chain, index.Device)
	b.store(s, index.Root, chain, index.Device)
	s.index.Remove(a.holder, []index.Key{2}, index.AllTiers)
	b.Exportable = false // 2 is in no exported rank's hands, and has a record all the same
	w := m.wantAll()
	w.Local[0].Ranks = w.Local[0].Ranks[:1]
	if n := len(parse1(t, encode1(t, m)).Nodes); n != 3 {
		t.Errorf("%d records, want 3", n)
	}
	body, err := open1(encode1(t, m), w)
	if err != nil {
		t.Fatal(err)
	}
	g := restoreAll(t, body)[0]
	var r index.Result
	for mode, want := range map[index.Mode]int32{index.Contiguous: 1, index.Deepest: 3} {
		g.index.Match(chain, mode, index.DefaultWeights, &r)
		if depth, _ := r.Of(a.Rank); depth != want {
			t.Errorf("mode %v: depth %d, want %d", mode, depth, want)
		}
	}
}

func TestExportOfEmptyTreeIsEmpty(t *testing.T) {
	m := &memory{ready: true}
	m.add(sglangKey())
	if b := parse1(t, encode1(t, m)); b.Ready || len(b.Nodes)+len(b.Workers)+len(b.Cursors) != 0 {
		t.Errorf("got %+v", b)
	}
	if _, err := open2(encode(t, m), m.wantAll()); ReasonOf(err) != ProducerCold {
		t.Errorf("got %v", err)
	}
	if _, err := open2(encode(t, &memory{}), Want{}); ReasonOf(err) != ProducerCold {
		t.Errorf("no section at all: got %v", err)
	}
}

func TestExportEmitsOnlyBackwardParentReferences(t *testing.T) {
	for seed := range uint64(5) {
		m := randomSGLang(t, seed, 300)
		for i, n := range parse1(t, encode1(t, m)).Nodes {
			if n.Parent != nil && (*n.Parent < 0 || *n.Parent >= i) {
				t.Fatalf("seed %d: record %d follows %d", seed, i, *n.Parent)
			}
		}
	}
}

func TestExportRestoreRoundTripsAcrossChunks(t *testing.T) {
	m := &memory{ready: true}
	s := m.add(sglangKey())
	r := s.rank(t, "1", 0, 3)
	rng := rand.New(rand.NewPCG(2, 2))
	chain := make([]index.Key, 3*MaxChunkNodes+7)
	for i := range chain {
		chain[i] = index.Key(rng.Uint64())
	}
	r.store(s, index.Root, chain, index.Device)
	for range 5000 {
		r.store(s, index.After(chain[rng.IntN(len(chain))]), []index.Key{index.Key(rng.Uint64())}, index.Host)
	}
	want := holdings(s.index, s.ids())
	if got := holdings(throughFormat1(t, m).index, s.ids()); !maps.Equal(got, want) {
		t.Errorf("format 1: %d blocks arrive otherwise than %d", len(got), len(want))
	}
	body, err := open2(encode(t, m), m.wantAll())
	if err != nil {
		t.Fatal(err)
	}
	if got := holdings(restoreAll(t, body)[0].index, s.ids()); !maps.Equal(got, want) {
		t.Errorf("format 2: %d blocks arrive otherwise than %d", len(got), len(want))
	}
}

func TestSnapshotRoundTripPreservesTiersPerCarrier(t *testing.T) {
	m := &memory{ready: true}
	s := m.add(sglangKey())
	for i := range 16 {
		r := s.rank(t, fmt.Sprint(i), 0, 1)
		if i > 0 {
			r.store(s, index.Root, []index.Key{5}, index.Tier(i))
		} else {
			r.store(s, index.Root, []index.Key{6}, index.Device)
		}
	}
	want := holdings(s.index, s.ids())
	if got := holdings(throughFormat1(t, m).index, s.ids()); !maps.Equal(got, want) {
		t.Errorf("format 1: got %v, want %v", got, want)
	}
	body, err := open2(encode(t, m), m.wantAll())
	if err != nil {
		t.Fatal(err)
	}
	if got := holdings(restoreAll(t, body)[0].index, s.ids()); !maps.Equal(got, want) {
		t.Errorf("format 2: got %v, want %v", got, want)
	}
}

func TestASetOfVeryManyRanksFitsAFrame(t *testing.T) {
	m := &memory{ready: true}
	s := m.add(tokensKey())
	for i := range 1000 {
		r := s.rank(t, fmt.Sprint(i), 0, 1)
		s.index.Store(r.holder, index.Root, []index.Key{5, 6}, index.Device)
		r.names = map[uint64]HashRow{7: {7, 5, 1}, 8: {8, 6, 2}}
	}
	body, err := open2(encode(t, m), m.wantAll())
	if err != nil {
		t.Fatal(err)
	}
	g := restoreAll(t, body)[0]
	if got, want := holdings(g.index, s.ids()), holdings(s.index, s.ids()); !maps.Equal(got, want) {
		t.Fatal("1,000 carriers of one block arrive otherwise")
	}
}

// TestRemovalAfterGraftRemoves_Tokens restores the engine's names with the blocks, so that a removal, which names blocks
// as the engine does, finds them: also those that were evicted, stored later, or counted twice.
func TestRemovalAfterGraftRemoves_Tokens(t *testing.T) {
	m := &memory{ready: true}
	s := m.add(tokensKey())
	r, other := s.rank(t, "1", 0, 1), s.rank(t, "2", 0, 1)
	r.store(s, index.Root, []index.Key{1, 2, 3}, index.Device)
	r.store(s, index.Root, []index.Key{1, 2}, index.Device) // a second copy
	r.store(s, index.After(2), []index.Key{4}, index.Host)
	other.store(s, index.Root, []index.Key{1, 2, 3}, index.Device)
	r.names[100] = HashRow{100, 55, 1}                           // evicted from the index: a tombstone
	s.index.Remove(r.holder, []index.Key{3}, 0)                  // nothing
	r.orphans = []OrphanRow{{200, 300, 9, 1}}                    // waits for its parent
	gone := nameFor(r, 4)                                        // walked as held, removed before the names are read
	m.onHashes = func() { delete(r.names, gone) }                // its removal is above the cursor
	r.names[nameFor(r, 3)] = HashRow{nameFor(r, 3), 3, 1 | 1<<8} // and 3 came to the host tier
	body, err := open2(encode(t, m), m.wantAll())
	if err != nil {
		t.Fatal(err)
	}
	g := restoreAll(t, body)[0]
	names := g.names[r.Rank]
	for k, want := range map[index.Key]Copies{1: 2, 2: 2, 3: 1 | 1<<8} {
		if got := names[nameFor(r, k)]; got.Key != k || got.Copies != want {
			t.Errorf("block %d has name %+v, want %d copies", k, got, want)
		}
	}
	if names[100] != r.names[100] || len(g.orphans[r.Rank]) != 1 || len(names) != 4 || len(g.names[other.Rank]) != 3 {
		t.Errorf("names %v, orphans %v", names, g.orphans)
	}
	h := g.holders[0]
	if held := g.index.Held(h, 4); held != 0 {
		t.Errorf("a block without a name is held in %v: nothing could ever remove it", held)
	}
	if held := g.index.Held(h, 3); held != index.Device|index.Host {
		t.Errorf("block 3 is held in %v, want what its copies say", held)
	}
	for _, k := range []index.Key{3, 2, 1} { // the engine removes by its own names
		g.index.Remove(h, []index.Key{names[nameFor(r, k)].Key}, index.AllTiers)
	}
	if left := holdings(g.index, []index.Rank{r.Rank}); len(left) != 0 {
		t.Errorf("left after all was removed: %v", left)
	}
	if left := holdings(g.index, []index.Rank{other.Rank}); len(left) != 3 {
		t.Errorf("the other rank has %v", left)
	}
}
