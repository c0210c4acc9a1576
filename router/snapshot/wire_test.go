package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

func randomText(rng *rand.Rand, limit int) string {
	b := make([]byte, rng.IntN(limit))
	for i := range b {
		b[i] = byte('!' + rng.IntN(90))
	}
	return string(b)
}

func randomRow(rng *rand.Rand) wireRow {
	w := wireRow{exported: rng.IntN(2) == 0, Row: Row{
		Worker: Worker{randomText(rng, 40), randomText(rng, 60)}, DP: rng.Int32() - 1<<30, WalkedTo: rng.Int64() - 1<<62, SeededFrom: randomText(rng, 40),
		Digest: rng.Uint64(), DigestVersion: rng.IntN(5), Blocks: rng.Int64(), Exportable: rng.IntN(2) == 0,
		Cursor: cursor.Cursor{Seq: rng.Int64() - 1<<62, Hash: rng.Uint64(), Proof: cursor.Proof(1 + rng.IntN(4)), Partial: rng.IntN(2) == 0},
	}}
	setInt(&w.Cursor.Time, rng.Int64())
	if rng.IntN(3) > 0 {
		w.Cursor.Incarnation.Start = cursor.Start{Known: true, ID: randomText(rng, 30)}
	}
	w.Cursor.Incarnation.Worker = w.Worker.Name()
	return w
}

func TestRowsRoundTrip(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 4))
		rows := make([]wireRow, rng.IntN(800))
		for i := range rows {
			rows[i] = randomRow(rng)
		}
		f := newFrameReader(bytes.NewReader(appendRows(nil, rows)), nil)
		var got []wireRow
		for len(got) < len(rows) {
			payload, err := f.want(frameRows)
			if err != nil {
				t.Fatal(err)
			}
			if len(payload) > frameBytes {
				t.Fatalf("a frame of %d bytes", len(payload))
			}
			part, ok := decodeRows(payload, len(rows)-len(got))
			if !ok {
				t.Fatalf("seed %d: row %d cannot be read", seed, len(got))
			}
			got = append(got, part...)
		}
		if !slices.Equal(got, rows) {
			t.Fatalf("seed %d: %d rows arrive otherwise", seed, len(rows))
		}
	}
}

func TestAProofThisReleaseDoesNotKnowProvesNothing(t *testing.T) {
	for p := range 256 {
		got := knownProof(cursor.Proof(p))
		if known := p >= 1 && p <= 4; known && int(got) != p || !known && got != cursor.Untrusted {
			t.Errorf("%d: got %v", p, got)
		}
	}
	for _, text := range []string{"origin", "proven", "unwitnessed", "untrusted", "unknown", "certain", ""} {
		want := cursor.Untrusted
		for p := cursor.Origin; p < cursor.Untrusted; p++ {
			if p.String() == text {
				want = p
			}
		}
		if got := proofNamed(text); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestALongNameIsCutRatherThanRefusedByReaders(t *testing.T) {
	w := wireRow{Row: Row{Worker: Worker{URL: strings.Repeat("u", 5*maxText)}, SeededFrom: strings.Repeat("s", 5*maxText)}}
	r := reader{b: appendRow(nil, &w)}
	got, ok := decodeRow(r.bytes(maxRowBytes))
	if !ok || len(got.Worker.URL) != maxText || len(got.SeededFrom) != maxText {
		t.Errorf("got %v, %d and %d bytes", ok, len(got.Worker.URL), len(got.SeededFrom))
	}
}

// randomRuns gives chains as a walk gives them: sets by number, now and then going on where the last ended.
func randomRuns(rng *rand.Rand, ranks int) (runs []index.Run) {
	sets := make([][]index.Holding, 1+rng.IntN(30))
	for i := range sets {
		for r := range ranks {
			if rng.IntN(1+i%5) == 0 {
				sets[i] = append(sets[i], index.Holding{Rank: r, Tiers: index.Tier(1 + rng.IntN(15))})
			}
		}
		if len(sets[i]) == 0 {
			sets[i] = []index.Holding{{Rank: rng.IntN(ranks), Tiers: index.Device}}
		}
	}
	for range rng.IntN(400) {
		set := rng.IntN(len(sets))
		r := index.Run{Set: uint32(set), Who: sets[set], Keys: make([]index.Key, 1+rng.IntN(60))}
		for i := range r.Keys {
			r.Keys[i] = index.Key(rng.Uint64())
		}
		switch n := len(runs); {
		case n > 0 && rng.IntN(3) == 0:
			last := runs[n-1].Keys
			r.Parent = index.After(last[len(last)-1])
		case rng.IntN(2) == 0:
			r.Parent = index.After(index.Key(rng.IntN(3)))
		}
		runs = append(runs, r)
	}
	return runs
}

// flat tells runs block by block, the dumb twin of any packing.
func flat(p index.Parent, keys []index.Key, who []index.Holding, out *[]string) {
	for _, k := range keys {
		*out = append(*out, fmt.Sprint(k, p, who))
		p = index.After(k)
	}
}

func TestChunksSayWhatRunsSay(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 6))
		ranks := 1 + rng.IntN(70)
		runs := randomRuns(rng, ranks)
		rows := make([]int, ranks) // the table has other rows in between
		for i := range rows {
			rows[i] = 3*i + 1
		}
		d := &chunkDecoder{places: slices.Repeat([]int{-1}, 3*ranks+2)}
		for i, row := range rows {
			d.places[row] = i
		}
		var got, want []string
		frames := 0
		e := &nodeEncoder{section: 300, rows: rows, emit: func(frame []byte) error {
			frames++
			if len(frame) > frameBytes {
				t.Fatalf("a frame of %d bytes", len(frame))
			}
			r := &reader{b: frame[frameHead : len(frame)-frameTail]}
			if s := r.uvarint(); s != 300 {
				t.Fatalf("section %d", s)
			}
			c, ok := d.nodes(r)
			if !ok {
				t.Fatal("a chunk cannot be read")
			}
			c.Runs(func(p index.Parent, keys []index.Key, who []index.Holding) { flat(p, keys, who, &got) })
			return nil
		}}
		for _, r := range runs {
			e.run(r.Parent, r.Keys, r.Set, r.Who, nil)
			flat(r.Parent, r.Keys, r.Who, &want)
		}
		e.flush()
		if e.err != nil || !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d blocks arrive otherwise than %d (%v)", seed, len(got), len(want), e.err)
		}
		if d.totals != e.totals || d.totals.nodes != uint64(len(want)) || frames > 1+len(want)/100 {
			t.Fatalf("seed %d: totals %+v and %+v in %d frames", seed, d.totals, e.totals, frames)
		}
	}
}

func TestAnErrorOfTheSinkEndsAnEncoder(t *testing.T) {
	n := 0
	fail := func([]byte) error { n++; return fmt.Errorf("full") }
	e := &nodeEncoder{rows: []int{0}, emit: fail}
	e.run(index.Root, make([]index.Key, 10*MaxChunkNodes), 0, []index.Holding{{Tiers: 1}}, nil)
	e.flush()
	var sum totals
	r := &rowEncoder{emit: fail, totals: &sum}
	for range 10 * MaxChunkNodes {
		r.hash(0, HashRow{})
	}
	r.flush()
	if e.err == nil || r.err == nil || n != 2 {
		t.Errorf("%v and %v after %d frames", e.err, r.err, n)
	}
}

func TestOtherChunksHoldTheirRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	d := &chunkDecoder{places: []int{0, -1, 1}}
	var sum totals
	var got, want []string
	e := &rowEncoder{section: 1, totals: &sum, emit: func(frame []byte) error {
		r := &reader{b: frame[frameHead+1 : len(frame)-frameTail]}
		c, ok := d.chunk(frameType(frame[0]), r)
		if !ok || len(frame) > frameBytes || c.Len() > MaxChunkNodes {
			t.Fatalf("a frame of %d bytes with %d entries", len(frame), c.Len())
		}
		c.Hashes(func(rank int, h HashRow) { got = append(got, fmt.Sprint(rank, h)) })
		c.Orphans(func(rank int, o OrphanRow) { got = append(got, fmt.Sprint(rank, o)) })
		return nil
	}}
	for range 15_000 {
		row := rng.IntN(3)
		place := []int{0, -1, 1}[row]
		if rng.IntN(1000) > 0 { // stay with one kind and row for a while
			row, place = 0, 0
		}
		h, o := HashRow{rng.Uint64(), index.Key(rng.Uint64()), Copies(1 + rng.IntN(1<<16-1))}, OrphanRow{rng.Uint64(), rng.Uint64(), index.Chunk(rng.Uint64()), Copies(1 + rng.IntN(9))}
		if rng.IntN(500) > 0 {
			if e.hash(row, h); place >= 0 {
				want = append(want, fmt.Sprint(place, h))
			}
		} else if e.orphan(row, o); place >= 0 {
			want = append(want, fmt.Sprint(place, o))
		}
	}
	e.flush()
	if !slices.Equal(got, want) || d.totals != sum {
		t.Fatalf("%d entries arrive otherwise than %d; totals %+v and %+v", len(got), len(want), d.totals, sum)
	}
}

func TestCopiesNameTheirTiers(t *testing.T) {
	for c := range 1 << 16 {
		var want index.Tier
		for bit, mask := range []int{0x00ff, 0x0f00, 0x3000, 0xc000} {
			if c&mask != 0 {
				want |= 1 << bit
			}
		}
		if got := Copies(c).Tiers(); got != want {
			t.Fatalf("%04x: got %d, want %d", c, got, want)
		}
	}
}

func TestKeySlotsFindWhatAMapFinds(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 8))
		n := rng.IntN(3000)
		slots, twin := newKeySlots(rng.IntN(1+n)), map[index.Key]uint32{}
		for i := range uint32(n) {
			k := index.Key(rng.Uint64N(uint64(1 + n*2)))
			if rng.IntN(4) == 0 {
				k <<= 40 // alike in the bits that place them
			}
			slots.put(k, i)
			if _, ok := twin[k]; !ok {
				twin[k] = i
			}
		}
		for k := range index.Key(2*n + 2) {
			for _, k := range []index.Key{k, k << 40} {
				got, ok := slots.get(k)
				if want, known := twin[k]; ok != known || got != want {
					t.Fatalf("seed %d: key %d: got %d (%v), want %d (%v)", seed, k, got, ok, want, known)
				}
			}
		}
	}
}

func TestADraftKeepsWhatItIsGiven(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 9))
		ranks := 1 + rng.IntN(40)
		d := newDraft(ranks)
		held := make([]uint64, ranks)
		type held1 struct {
			rank int
			key  index.Key
		}
		truth := map[held1]HashRow{}
		want := 0
		for _, r := range randomRuns(rng, ranks) {
			if !d.add(r) {
				t.Fatal("no room")
			}
			want += len(r.Keys)
			for _, w := range r.Who {
				held[w.Rank] += uint64(len(r.Keys))
				for _, k := range r.Keys {
					truth[held1{w.Rank, k}] = HashRow{rng.Uint64(), k, 1}
				}
			}
		}
		for rank := range ranks {
			slots := d.slots(rank, held[rank])
			for id, row := range truth {
				if id.rank != rank {
					continue
				}
				if at, ok := slots.get(row.Key); !ok || !d.name(at, row) || d.name(at, row) {
					t.Fatalf("seed %d: %v has no place, or two", seed, id)
				}
			}
		}
		got := 0
		rows := make([]int, ranks)
		for i := range rows {
			rows[i] = i
		}
		dec := &chunkDecoder{places: rows, names: true}
		e := &nodeEncoder{rows: rows, names: true, emit: func(frame []byte) error {
			c, ok := dec.nodes(&reader{b: frame[frameHead+1 : len(frame)-frameTail]})
			if !ok {
				t.Fatal("a chunk cannot be read")
			}
			c.Runs(func(_ index.Parent, keys []index.Key, who []index.Holding) {
				for i := range who { // copies are in device memory here, whatever the walk saw
					if who[i].Tiers != index.Device {
						t.Fatalf("held in %v", who[i].Tiers)
					}
				}
				got += len(keys)
			})
			c.Hashes(func(rank int, h HashRow) {
				if truth[held1{rank, h.Key}] != h {
					t.Fatalf("rank %d has %+v", rank, h)
				}
			})
			return nil
		}}
		d.encode(e)
		e.flush()
		if got != want || dec.totals != e.totals {
			t.Fatalf("seed %d: %d blocks arrive, want %d", seed, got, want)
		}
	}
}

func TestSomeRanksOfABodyAreThoseOfTheWhole(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 10))
		m := fleetSource(t, seed, 200)
		b, err := produce(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		want := m.wantAll()
		ask := asked{}
		for _, s := range m.sections {
			for _, r := range s.ranks {
				if rng.IntN(3) == 0 {
					want.Ranks = append(want.Ranks, r.Rank)
					name := r.Worker.PodUID
					if rng.IntN(2) == 0 {
						name = r.Worker.URL
					}
					if ask[name] == nil {
						ask[name] = map[int32]bool{}
					}
					ask[name][r.DP] = true
				}
			}
		}
		var raw bytes.Buffer
		if err := b.writeSome(&raw, func(digest) string { return "" }, ask.wants); err != nil {
			t.Fatal(err)
		}
		body, err := open2(raw.Bytes(), m.wantAll()) // all are wanted, and some were asked for
		if len(want.Ranks) == 0 {
			if ReasonOf(err) != NotExported {
				t.Errorf("seed %d: nobody asked for: %v", seed, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if rows := len(body.Table().Rows); rows != len(m.sections[0].ranks)+len(m.sections[1].ranks) {
			t.Errorf("seed %d: the table has %d rows: it stays whole", seed, rows)
		}
		grafts := restoreAll(t, body)
		n := 0
		for _, g := range grafts {
			for _, r := range g.ranks {
				if n++; !slices.Contains(want.Ranks, r.Rank) {
					t.Fatalf("seed %d: %v was not asked for", seed, r.Rank)
				}
			}
		}
		if n != len(want.Ranks) {
			t.Fatalf("seed %d: %d ranks arrive, want %d", seed, n, len(want.Ranks))
		}
		compareSome(t, m, grafts, seed)
	}
}

// compareSome checks grafts of some ranks against their sources.
func compareSome(t *testing.T, m *memory, grafts []*graft, seed uint64) {
	t.Helper()
	for _, g := range grafts {
		s := m.section(g.key)
		for i, r := range g.ranks {
			src := s.find(r.Rank)
			if g.holders[i].Digest != src.holder.Digest || len(g.names[r.Rank]) != len(src.names) || !slices.Equal(g.orphans[r.Rank], src.orphans) {
				t.Fatalf("seed %d: %v: digest %x, %d names, %d orphans; want %x, %d, %d", seed, r.Rank, g.holders[i].Digest, len(g.names[r.Rank]),
					len(g.orphans[r.Rank]), src.holder.Digest, len(src.names), len(src.orphans))
			}
		}
	}
}

// randomJSON makes a text that is JSON, with spaces where they may be.
func randomJSON(rng *rand.Rand, depth int) string {
	space := strings.Repeat(" ", rng.IntN(2)) + strings.Repeat("\n\t", rng.IntN(2))
	switch n := rng.IntN(8); {
	case n == 0 && depth > 0:
		var parts []string
		for range rng.IntN(4) {
			parts = append(parts, randomJSON(rng, depth-1))
		}
		return space + "[" + strings.Join(parts, ",") + space + "]"
	case n == 1 && depth > 0:
		var parts []string
		for range rng.IntN(4) {
			parts = append(parts, fmt.Sprintf("%s%q%s:%s", space, fmt.Sprint("k\\", rng.IntN(9)), space, randomJSON(rng, depth-1)))
		}
		return space + "{" + strings.Join(parts, ",") + space + "}"
	case n < 4:
		return space + fmt.Sprint(rng.Int64()-1<<62) + space
	case n == 4:
		return fmt.Sprint(rng.Float64()*1e9) + space
	default:
		return space + []string{"true", "false", "null", `"a\u00e9\"\\"`, `""`, "-0", "1e5"}[rng.IntN(7)]
	}
}

// TestWhatIsPassedOverIsReadToItsEnd compares with the standard library: behind any value the reader stands where it does.
func TestWhatIsPassedOverIsReadToItsEnd(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 11))
		text := randomJSON(rng, 5)
		if !json.Valid([]byte(text)) {
			t.Fatalf("seed %d: the test makes no JSON: %s", seed, text)
		}
		j := newJSONReader(strings.NewReader("[" + text + ",42]"))
		j.expect('[')
		j.skip(0)
		j.expect(',')
		if v := j.integer(); v != 42 || j.err != nil {
			t.Fatalf("seed %d: got %d, %v behind %s", seed, v, j.err, text)
		}
	}
}

func TestNumbersAreReadAsTheStandardLibraryReadsThem(t *testing.T) {
	for _, text := range []string{
		"0", "-0", "7", "-7", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809",
		"01", "-", "+1", "1.0", "1e2", ".5", "18446744073709551615", "99999999999999999999", "", "x", "1x", "--1", "00",
	} {
		var want int64
		wantErr := json.Unmarshal([]byte(text), &want)
		j := newJSONReader(strings.NewReader(text + " "))
		got := j.integer()
		j.end()
		if (j.err != nil) != (wantErr != nil) || j.err == nil && got != want {
			t.Errorf("%q: got %d, %v; want %d, %v", text, got, j.err, want, wantErr)
		}
	}
	for _, text := range []string{`"a"`, `""`, `"\u00e9\n"`, `"\ud800"`, `"\x"`, `"a`, "\"a\nb\"", `"` + strings.Repeat("x", 2*maxText) + `"`} {
		var want string
		wantErr := json.Unmarshal([]byte(text), &want)
		j := newJSONReader(strings.NewReader(text))
		got := j.text()
		if long := len(text) > maxText; (j.err != nil) != (wantErr != nil || long) || j.err == nil && got != want {
			t.Errorf("%.20q: got %q, %v; want %q, %v", text, got, j.err, want, wantErr)
		}
	}
}

func TestSeedableSinceSurvives(t *testing.T) {
	for _, at := range []time.Time{{}, time.UnixMilli(1), time.UnixMilli(1_700_000_000_123)} {
		if got := fromMillis(unixMillis(at)); !got.Equal(at) {
			t.Errorf("got %v, want %v", got, at)
		}
	}
}
