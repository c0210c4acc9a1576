package snapshot

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
)

// fleetSource is a warm source with a section of each scheme.
func fleetSource(t testing.TB, seed uint64, chains int) *memory {
	rng := rand.New(rand.NewPCG(seed, 5))
	m := &memory{ready: true, since: time.UnixMilli(1_700_000_000_123)}
	for _, key := range []SectionKey{sglangKey(), tokensKey()} {
		s := m.add(key)
		for i := range 1 + rng.IntN(20) {
			r := s.rank(t, fmt.Sprint(key.Scheme, i/2), int32(i%2), int64(rng.IntN(1000)))
			r.SeededFrom, r.Cursor.Partial = fmt.Sprint("s", i), i%3 == 0
			if key.Scheme == index.SchemeTokens {
				for n := range rng.IntN(20) {
					r.orphans = append(r.orphans, OrphanRow{rng.Uint64(), rng.Uint64(), index.Chunk(rng.Uint64()), Copies(n + 1)})
				}
			}
		}
		s.warm(rng, chains)
	}
	return m
}

// compareGrafts checks that a graft says what its source says.
func compareGrafts(t *testing.T, m *memory, grafts []*graft, seed uint64) {
	t.Helper()
	for _, g := range grafts {
		s := m.section(g.key)
		ids := s.ids()
		if got, want := holdings(g.index, ids), holdings(s.index, ids); !maps.Equal(got, want) {
			t.Fatalf("seed %d: %s: %d blocks arrive otherwise than the %d that were sent", seed, g.key, len(got), len(want))
		}
		for i, r := range g.ranks {
			src := s.find(r.Rank)
			if g.holders[i].Digest != src.holder.Digest || r.Digest != src.holder.Digest || r.Blocks != src.row().Blocks {
				t.Fatalf("seed %d: %v: digest %x (%x announced) of %d blocks, want %x of %d", seed, r.Rank, g.holders[i].Digest, r.Digest, r.Blocks, src.holder.Digest, src.row().Blocks)
			}
			if r.Cursor != src.Cursor || r.PeerSeededFrom != src.SeededFrom || r.SeededFrom != "teacher" || r.WalkedTo < r.Cursor.Seq {
				t.Fatalf("seed %d: %v: got %+v, want cursor %+v", seed, r.Rank, r, src.Cursor)
			}
			if s.key.Scheme != index.SchemeTokens {
				continue
			}
			if !maps.Equal(g.names[r.Rank], src.names) || !slices.Equal(g.orphans[r.Rank], src.orphans) {
				t.Fatalf("seed %d: %v: %d names and %d orphans, want %d and %d", seed, r.Rank,
					len(g.names[r.Rank]), len(g.orphans[r.Rank]), len(src.names), len(src.orphans))
			}
		}
	}
}

func (m *memory) section(key SectionKey) *memorySection {
	for _, s := range m.sections {
		if s.key == key {
			return s
		}
	}
	return nil
}

func (s *memorySection) find(rank index.Rank) *memoryRank {
	for _, r := range s.ranks {
		if r.Rank == rank {
			return r
		}
	}
	return nil
}

func TestAGraftSaysWhatItsSourceSays(t *testing.T) {
	for seed := range uint64(8) {
		m := fleetSource(t, seed, 1+int(seed)*40)
		body, err := open2(encode(t, m), m.wantAll())
		if err != nil {
			t.Fatal(err)
		}
		grafts := restoreAll(t, body)
		compareGrafts(t, m, grafts, seed)
		if len(grafts) != 2 {
			t.Fatalf("seed %d: %d sections arrive, want 2", seed, len(grafts))
		}
		table := body.Table()
		if !table.Ready || !table.SeedableSince.Equal(m.since) || table.Format != 2 || len(table.Rows) != len(m.sections[0].ranks)+len(m.sections[1].ranks) {
			t.Fatalf("seed %d: the table is %+v", seed, table)
		}
	}
}

func TestAGraftOverHTTPSaysWhatItsSourceSays(t *testing.T) {
	m := fleetSource(t, 1, 800)
	r := newRig(t, m)
	compareGrafts(t, m, r.fetch(t, m.wantAll()), 1)
	w := m.wantAll()
	w.Ranks = m.sections[1].ids()[:1]
	grafts := r.fetch(t, w)
	if len(grafts) != 1 || len(grafts[0].ranks) != 1 {
		t.Fatalf("asked for one rank: %d sections", len(grafts))
	}
	one := holdings(grafts[0].index, w.Ranks)
	if want := holdings(m.sections[1].index, w.Ranks); !maps.Equal(one, want) || len(one) == 0 {
		t.Fatalf("asked for one rank: %d blocks arrive, want %d", len(one), len(want))
	}
}

func TestAnExportOfAnExportIsTheSame(t *testing.T) {
	m := fleetSource(t, 3, 300)
	body, err := open2(encode(t, m), m.wantAll())
	if err != nil {
		t.Fatal(err)
	}
	second := &memory{ready: true, since: m.since}
	for _, g := range restoreAll(t, body) {
		s := &memorySection{key: g.key, index: g.index}
		for i, r := range g.ranks {
			src := m.section(g.key).find(r.Rank)
			s.ranks = append(s.ranks, &memoryRank{Row: src.Row, holder: g.holders[i], names: g.names[r.Rank], orphans: g.orphans[r.Rank]})
		}
		second.sections = append(second.sections, s)
	}
	body, err = open2(encode(t, second), m.wantAll())
	if err != nil {
		t.Fatal(err)
	}
	compareGrafts(t, m, restoreAll(t, body), 3)
}

func TestBodiesOfFormat2AreOfTheAgreedSize(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	m := &memory{ready: true}
	s := m.add(sglangKey())
	for i := range 16 {
		s.rank(t, fmt.Sprint(i), 0, 5)
	}
	s.warm(rng, 2000)
	nodes := len(holdings(s.index, s.ids()))
	if got := float64(len(encode(t, m))) / float64(nodes); got > 12 {
		t.Errorf("%.1f bytes a block of chains of 15, want 12 at most", got)
	}
	m2 := &memory{ready: true}
	s2 := m2.add(tokensKey())
	s2.rank(t, "1", 0, 5)
	s2.warm(rng, 2000)
	nodes = len(holdings(s2.index, s2.ids()))
	if got := float64(len(encode(t, m2))) / float64(nodes); got > 10+9+3 {
		t.Errorf("%.1f bytes a block with its hash, want 19 and what runs of 15 take at most", got)
	}
}

func TestABuildIsCheckedFrameByFrame(t *testing.T) {
	m := fleetSource(t, 2, 60)
	raw := encode(t, m)
	for at := 0; at < len(raw); at += 1 + at/20 {
		bad := bytes.Clone(raw)
		bad[at] ^= 0x10
		body, err := open2(bad, m.wantAll())
		if err == nil {
			_, err = drain(body)
		}
		if err == nil || err.Error() == "EOF" {
			t.Fatalf("byte %d of %d is changed, and the body is taken", at, len(raw))
		}
	}
	for at := range raw {
		if at > 200 && at%397 != 0 {
			continue
		}
		body, err := open2(raw[:at], m.wantAll())
		if err == nil {
			_, err = drain(body)
		}
		if err == nil || err.Error() == "EOF" || ReasonOf(err) != "" {
			t.Fatalf("the body is cut at %d of %d: got %v, want an error of reading", at, len(raw), err)
		}
	}
}
