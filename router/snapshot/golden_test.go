package snapshot

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares with a file. Its bytes are what other releases read and write: a change of them is a change of format.
func golden(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: got\n%s\nwant\n%s", path, got, want)
	}
	return want
}

// goldenBuild is a body with two sections, made by hand: what an index gives depends on the seed of its hash.
func goldenBuild(t *testing.T) *build {
	t.Helper()
	b := &build{head: bodyHead{ready: true, since: time.UnixMilli(1_700_000_000_123)}}
	sglang := builtSection{wireSection: wireSection{sectionHead: sectionHead{key: SectionKey{Model: "llama", Scheme: index.SchemeSGLang, BlockSize: 64, Bigram: true}}}}
	sglang.rows = []wireRow{goldenRow("uid-a", 0, cursor.Proven, true), goldenRow("uid-b", 1, cursor.Unwitnessed, true), goldenRow("uid-c", 0, cursor.ProofUnknown, false)}
	keep := func(s *builtSection) func([]byte) error {
		return func(f []byte) error { s.frames = append(s.frames, bytes.Clone(f)); return nil }
	}
	e := nodeEncoder{section: 0, rows: []int{0, 1}, emit: keep(&sglang)}
	both := []index.Holding{{Rank: 0, Tiers: index.Device}, {Rank: 1, Tiers: index.Host | index.Disk}}
	e.run(index.Root, []index.Key{0x0102030405060708, 2}, 5, both, nil)
	e.run(index.After(2), []index.Key{3}, 6, both[:1], nil)
	e.run(index.After(2), []index.Key{4, 0xffffffffffffffff}, 5, both, nil)
	e.flush()
	sglang.totals = e.totals
	sglang.end = sglang.totals.encode(frameEnd)
	tokens := builtSection{wireSection: wireSection{sectionHead: sectionHead{key: SectionKey{Model: "qwen", Scheme: index.SchemeTokens, BlockSize: 16, SeedID: 0x1122334455667788}, maps: true}}}
	tokens.rows = []wireRow{goldenRow("", 0, cursor.Origin, true)}
	e = nodeEncoder{section: 1, rows: []int{0}, names: true, emit: keep(&tokens)}
	e.run(index.Root, []index.Key{7, 8}, 0, []index.Holding{{Rank: 0, Tiers: index.Device}}, []name{{0xaaaa, 1}, {0xbbbb, 0x0102}})
	e.flush()
	r := rowEncoder{section: 1, emit: keep(&tokens), totals: &tokens.totals}
	r.hash(0, HashRow{0xcccc, 9, 2})
	r.orphan(0, OrphanRow{0xdddd, 0xeeee, 0xf0f0, 1})
	r.flush()
	tokens.totals.add(e.totals)
	tokens.end = tokens.totals.encode(frameEnd)
	b.sections = []builtSection{sglang, tokens}
	b.seal()
	return b
}

func goldenRow(uid string, dp int32, p cursor.Proof, exported bool) wireRow {
	w := wireRow{exported: exported, Row: Row{
		Worker: Worker{uid, "http://10.0.0.7:8000"}, DP: dp, WalkedTo: 45, SeededFrom: "uid-z", Digest: 0xd1d2d3d4d5d6d7d8, DigestVersion: 1, Blocks: 3, Exportable: exported,
		Cursor: cursor.Cursor{Incarnation: cursor.Incarnation{Start: cursor.Start{Known: true, ID: "1700000000.5"}}, Seq: 42, Hash: 0xabcdef, Proof: p, Partial: dp == 1},
	}}
	setInt(&w.Cursor.Time, 1_700_000_042_000_000_001)
	w.Cursor.Incarnation.Worker = w.Worker.Name()
	if p == cursor.ProofUnknown {
		w.Row = Row{Worker: w.Worker}
		w.Cursor.Incarnation.Worker = w.Worker.Name()
	}
	return w
}

// hexDump writes bytes as text, 32 a line, so that a change of format can be read in a diff.
func hexDump(b []byte) []byte {
	var out strings.Builder
	for len(b) > 0 {
		n := min(32, len(b))
		fmt.Fprintln(&out, hex.EncodeToString(b[:n]))
		b = b[n:]
	}
	return []byte(out.String())
}

func TestFormat2IsTheGoldenFile(t *testing.T) {
	var raw bytes.Buffer
	b := goldenBuild(t)
	if err := b.write(&raw, func(digest) string { return "v1 01234567 1700000000 00" }); err != nil {
		t.Fatal(err)
	}
	if want := b.size + b.signatures(func(digest) string { return "v1 01234567 1700000000 00" }); int64(raw.Len()) != want {
		t.Errorf("the body has %d bytes, and says %d", raw.Len(), want)
	}
	golden(t, "format2.hex", hexDump(raw.Bytes()))
}

func TestTheGoldenFileOfFormat2IsRead(t *testing.T) {
	text, err := os.ReadFile("testdata/format2.hex")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	want := Want{Local: []LocalSection{
		{Key: SectionKey{Model: "llama", Scheme: index.SchemeSGLang, BlockSize: 64, Bigram: true}, Ranks: []LocalRank{
			{Rank: index.Rank{Worker: "a"}, Worker: Worker{PodUID: "uid-a"}}, {Rank: index.Rank{Worker: "b", DP: 1}, Worker: Worker{PodUID: "uid-b"}},
		}},
		{Key: SectionKey{Model: "qwen", Scheme: index.SchemeTokens, BlockSize: 16, SeedID: 0x1122334455667788}, Ranks: []LocalRank{
			{Rank: index.Rank{Worker: "u"}, Worker: Worker{PodUID: "uid-u", URL: "http://10.0.0.7:8000"}},
		}},
	}}
	body, err := open2(raw, want)
	if err != nil {
		t.Fatal(err)
	}
	grafts := restoreAll(t, body)
	if len(grafts) != 2 || len(body.Table().Rows) != 3 || len(body.Table().Empty) != 1 || !body.Table().SeedableSince.Equal(time.UnixMilli(1_700_000_000_123)) {
		t.Fatalf("%d sections, table %+v", len(grafts), body.Table())
	}
	got := holdings(grafts[0].index, []index.Rank{{Worker: "a"}, {Worker: "b", DP: 1}})
	for k, text := range map[index.Key]string{
		0x0102030405060708: "{0 false}{a 0} 1;{b 1} 6", 2: "{72623859790382856 true}{a 0} 1;{b 1} 6", 3: "{2 true}{a 0} 1",
		4: "{2 true}{a 0} 1;{b 1} 6", 0xffffffffffffffff: "{4 true}{a 0} 1;{b 1} 6",
	} {
		if got[k] != text {
			t.Errorf("block %x: got %s, want %s", uint64(k), got[k], text)
		}
	}
	r := grafts[0].ranks[1]
	if c := r.Cursor; c.Seq != 42 || int64(c.Time) != 1_700_000_042_000_000_001 || c.Hash != 0xabcdef || c.Proof != cursor.Unwitnessed || !c.Partial ||
		c.Incarnation != (cursor.Incarnation{Worker: "uid-b", Start: cursor.Start{Known: true, ID: "1700000000.5"}}) || r.WalkedTo != 45 || r.PeerSeededFrom != "uid-z" {
		t.Errorf("got %+v", r)
	}
	u := index.Rank{Worker: "u"}
	if n := grafts[1].names[u]; len(n) != 3 || n[0xaaaa] != (HashRow{0xaaaa, 7, 1}) || n[0xbbbb] != (HashRow{0xbbbb, 8, 0x0102}) || n[0xcccc] != (HashRow{0xcccc, 9, 2}) {
		t.Errorf("names %v", n)
	}
	if o := grafts[1].orphans[u]; len(o) != 1 || o[0] != (OrphanRow{0xdddd, 0xeeee, 0xf0f0, 1}) {
		t.Errorf("orphans %v", o)
	}
}

// TestFormat1IsTheGoldenFile has the bytes of the open stack: its order of keys, no spaces, whole int64 hashes, tiers
// beside workers, null for a root, and empty_ranks only where there are any.
func TestFormat1IsTheGoldenFile(t *testing.T) {
	p := &sectionBuild{from: &SourceSection{Key: sglangKey()}}
	p.choose([]Row{
		{Rank: index.Rank{Worker: "1"}, Worker: Worker{"1", "http://10.0.0.1:8000"}, Cursor: cursor.Cursor{Seq: 12, Proof: cursor.Proven}, Life: 1, Blocks: 2, Exportable: true},
		{Rank: index.Rank{Worker: "2", DP: 1}, Worker: Worker{"2", "http://[fd00::2]:30000"}, DP: 1, Cursor: cursor.Cursor{Seq: 0, Proof: cursor.Origin}, Life: 1, Blocks: 2, Exportable: true},
		{Rank: index.Rank{Worker: "3"}, Worker: Worker{"3", "http://10.0.0.3:8000?a=<&>"}, DP: 0},
	})
	n := nodes1{records: newKeySlots(1)}
	both := []index.Holding{{Rank: 0, Tiers: index.Device}, {Rank: 1, Tiers: index.Device | index.Host}}
	n.add(index.Run{Keys: []index.Key{1, 0xffffffffffffffff}, Who: both})
	n.add(index.Run{Parent: index.After(1), Keys: []index.Key{0x8000000000000000}})
	n.add(index.Run{Parent: index.After(0x8000000000000000), Keys: []index.Key{5}, Who: both[:1]})
	n.add(index.Run{Parent: index.After(999), Keys: []index.Key{6}, Who: both[1:]})
	n.flush()
	head, err := p.head1(true)
	if err != nil {
		t.Fatal(err)
	}
	rows := []Row{{Worker: Worker{"3", "http://10.0.0.3:8000?a=<&>"}}}
	raw := append(append(head, bytes.Join(n.parts, nil)...), tail1(rows)...)
	golden(t, "format1.json", raw)
	body, err := open1(raw, Want{Local: []LocalSection{{Key: sglangKey(), Ranks: []LocalRank{
		{Rank: index.Rank{Worker: "1"}, Worker: Worker{"1", "http://10.0.0.1:8000"}}, {Rank: index.Rank{Worker: "2", DP: 1}, Worker: Worker{"", "http://[fd00::2]:30000"}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	g := restoreAll(t, body)[0]
	got := holdings(g.index, []index.Rank{{Worker: "1"}, {Worker: "2", DP: 1}})
	if len(got) != 4 || got[5] != "{9223372036854775808 true}{1 0} 1" || got[6] != "{0 false}{2 1} 3" || g.ranks[1].Cursor.Seq != 0 {
		t.Errorf("got %v", got)
	}
}

func TestCursorsOfFormat2AreTheGoldenFile(t *testing.T) {
	b := goldenBuild(t)
	m := &memory{ready: true, since: b.head.since}
	for i := range b.sections {
		s := &memorySection{key: b.sections[i].key}
		for _, w := range b.sections[i].rows {
			s.ranks = append(s.ranks, &memoryRank{Row: w.Row})
		}
		m.sections = append(m.sections, s)
	}
	raw, err := cursors2(m)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "cursors2.json", raw)
	table, err := decodeTable2(raw)
	if err != nil || len(table.Rows) != 3 || len(table.Empty) != 1 {
		t.Fatalf("got %+v, %v", table, err)
	}
}

func TestALaterReleaseMayAddToFramesAndRows(t *testing.T) {
	b := goldenBuild(t)
	var raw bytes.Buffer
	w := newBodyWriter(&raw, func(digest) string { return "" })
	longer := func(f []byte) []byte { // one more byte in the payload
		p := append(bytes.Clone(f[frameHead:len(f)-frameTail]), 0x7f)
		return oneFrame(frameType(f[0]), p)
	}
	optional := oneFrame(frameOptional+1, []byte("whatever"))
	_ = w.write([]byte(magic))
	_ = w.write(longer(b.head.encode()))
	for i := range b.sections {
		s := &b.sections[i]
		_ = w.write(optional)
		_ = w.write(longer(s.sectionHead.encode()))
		rows := beginFrame(nil, frameRows)
		for j := range s.rows {
			row := appendRow(nil, &s.rows[j])
			rows = append(rows, row[0]+1, row[1])
			rows = append(append(rows, row[2:]...), 0x55)
		}
		_ = w.write(endFrame(rows, 0))
	}
	_ = w.signature()
	for i := range b.sections {
		for _, f := range b.sections[i].frames {
			_, _ = w.write(f), w.write(optional)
		}
		_ = w.write(longer(b.sections[i].end))
		_ = w.signature()
	}
	_ = w.write(longer(b.last))
	if err := w.signature(); err != nil {
		t.Fatal(err)
	}
	body, err := open2(raw.Bytes(), Want{Local: []LocalSection{{Key: b.sections[0].key, Ranks: []LocalRank{{Rank: index.Rank{Worker: "a"}, Worker: Worker{PodUID: "uid-a"}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if g := restoreAll(t, body); len(g) != 1 || len(body.Table().Rows) != 3 {
		t.Fatalf("got %d sections", len(g))
	}
}
