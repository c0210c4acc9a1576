package snapshot

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

// wire1 is a body of format 1 as text: two ranks of ours and a stranger, a chain of two blocks.
type wire1 struct {
	format, blockSize, bigram, ready string
	workers, cursors, nodes, rest    string
}

func good1() wire1 {
	return wire1{
		format: "1", blockSize: "64", bigram: "false", ready: "true",
		workers: `{"url":"http://10.0.0.9:1","dp_rank":0},{"url":"http://10.0.0.1:8000","dp_rank":0},{"url":"http://10.0.0.2:8000","dp_rank":0}`,
		cursors: `[0,5],[1,10],[2,20]`,
		nodes:   `{"parent":null,"block_hash":1,"workers":[0,1],"tiers":[1,1]},{"parent":0,"block_hash":2,"workers":[2],"tiers":[3]}`,
	}
}

func (w wire1) text() []byte {
	return fmt.Appendf(nil, `{"format":%s,"block_size":%s,"is_bigram":%s,"producer_ready":%s,"workers":[%s],"cursors":[%s],"nodes":[%s]%s}`,
		w.format, w.blockSize, w.bigram, w.ready, w.workers, w.cursors, w.nodes, w.rest)
}

// ours are the ranks the reader has: 1/0 and 2/0, and 3/1 that nobody else knows.
func ours(t testing.TB) Want { return warmSGLang(t).wantAll() }

// vet1 reads a body of format 1 to its end and gives what came of it.
func vet1(t testing.TB, w wire1, want Want) (nodes claims1, body *Body, err error) {
	t.Helper()
	nodes = claims1{}
	body, err = open1(w.text(), want)
	if err != nil {
		return nodes, body, err
	}
	for {
		v, err := body.Next(t.Context())
		if err == io.EOF {
			return nodes, body, nil
		}
		if err != nil {
			return nodes, body, err
		}
		for {
			c, err := v.Next(t.Context())
			if err == io.EOF {
				break
			}
			if err != nil {
				return nodes, body, err
			}
			c.Nodes(func(k index.Key, p index.Parent, who []index.Holding) {
				for _, h := range who {
					nodes[k] += fmt.Sprintf("%v after %v: %d;", v.Ranks()[h.Rank].Rank.Worker, p, h.Tiers)
				}
			})
		}
	}
}

// claims1 is who holds what, as text.
type claims1 map[index.Key]string

func (c claims1) String() string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(c)) {
		out = append(out, fmt.Sprint(int64(k), " ", c[k]))
	}
	return strings.Join(out, " ")
}

func TestVetRejects(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*wire1)
		want   Reason
	}{
		"UnknownFormat":                         {func(w *wire1) { w.format = "2" }, UnknownFormat},
		"ANotReadyProducerEvenWithNodes":        {func(w *wire1) { w.ready = "false" }, ProducerCold},
		"SnapshotWithNoNodesThoughReady":        {func(w *wire1) { w.nodes = "" }, ProducerCold},
		"OutOfRangeParentReference":             {func(w *wire1) { w.nodes = strings.ReplaceAll(w.nodes, `"parent":0`, `"parent":7`) }, ForwardParent},
		"SelfParentReference":                   {func(w *wire1) { w.nodes = strings.ReplaceAll(w.nodes, `"parent":0`, `"parent":1`) }, ForwardParent},
		"ForwardParentReferenceOnTheWire":       {func(w *wire1) { w.nodes = strings.ReplaceAll(w.nodes, `"parent":null`, `"parent":1`) }, ForwardParent},
		"TiersThatDoNotPairWithWorkers":         {func(w *wire1) { w.nodes = strings.ReplaceAll(w.nodes, `[1,1]`, `[1]`) }, TierMismatch},
		"SnapshotThatPrunesToNothing":           {func(w *wire1) { w.nodes = `{"parent":null,"block_hash":1,"workers":[0]}` }, NothingUsable},
		"BlockSizeMismatch":                     {func(w *wire1) { w.blockSize = "32" }, BlockSizeMismatch},
		"DuplicateCursorsForOneWorker":          {func(w *wire1) { w.cursors += ",[1,11]" }, DuplicateCursor},
		"ARepeatedWireIdentity":                 {func(w *wire1) { w.workers += `,{"url":"http://10.0.0.1:8000","dp_rank":0}` }, DuplicateWorker},
		"SnapshotCarriedOnlyOnUnrankedTiers":    {func(w *wire1) { w.nodes = `{"parent":null,"block_hash":1,"workers":[1],"tiers":[16]}` }, NothingUsable},
		"CoversAnyIsFalseWhenItKnowsNoneOfOurs": {func(w *wire1) { w.workers = strings.ReplaceAll(w.workers, "10.0.0.", "10.0.1.") }, NothingUsable},
		"NoWorkers":                             {func(w *wire1) { w.workers, w.cursors = "", "" }, NothingUsable},
		"ARecordWithoutAHash":                   {func(w *wire1) { w.nodes = `{"parent":null,"workers":[1]}` }, Malformed},
		"TextBehindTheEnd":                      {func(w *wire1) { w.rest = "} {" }, Malformed},
		"AFraction":                             {func(w *wire1) { w.cursors = "[1,1.5]" }, Malformed},
		"ANumberThatDoesNotFit":                 {func(w *wire1) { w.cursors = "[1,9223372036854775808]" }, Malformed},
		"ADpRankBelowZero":                      {func(w *wire1) { w.workers = `{"url":"u","dp_rank":-1}` }, Malformed},
		"NoFormat":                              {func(w *wire1) { w.format = `1,"x":[[{"a":null}]]` }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := good1()
			c.change(&w)
			_, body, err := vet1(t, w, ours(t))
			if got := ReasonOf(err); got != c.want || c.want == "" && err != nil {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if c.want == ProducerCold && body.Table() == nil {
				t.Fatal("a cold peer's table is evidence, and is not there")
			}
		})
	}
	for body, want := range map[string]Reason{
		`{}`: UnknownFormat, `{"nodes":[]}`: UnknownFormat, `[]`: Malformed, `{"format":1}`: Malformed, `{"format":1,}`: Malformed,
		`{"format":1,"nodes":[],"empty_ranks":[{"url":1}]}`: Malformed,
	} {
		if _, err := open1([]byte(body), ours(t)); ReasonOf(err) != want {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
}

func TestOnlyColdPeersAreAskedAgain(t *testing.T) {
	for _, r := range Reasons {
		want := r == ProducerCold || r == NothingUsable || r == OtherIncarnation || r == Untrusted || r == NotExported
		if r.Retriable() != want || (&Rejection{Reason: r}).Retriable() != want {
			t.Errorf("%s: retriable %v", r, !want)
		}
	}
}

func TestVetDropsUnknownWorkersAndRemapsCarriers(t *testing.T) {
	got, body, err := vet1(t, good1(), ours(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := "1 1 after {0 false}: 1; 2 2 after {1 true}: 3;"; got.String() != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	if len(body.Table().Rows) != 3 {
		t.Errorf("the table forgets whom we do not know: %+v", body.Table().Rows)
	}
}

func TestVetIgnoresTheProducerBigramStamp(t *testing.T) {
	w := good1()
	w.bigram = "true"
	if got, _, err := vet1(t, w, ours(t)); err != nil || len(got) != 2 {
		t.Fatalf("format 1: got %s, %v", got, err)
	}
}

func TestVetAcceptsWhenLocalBlockSizeUnset(t *testing.T) {
	want := ours(t)
	want.Local[0].Key.BlockSize = 0
	if got, _, err := vet1(t, good1(), want); err != nil || len(got) != 2 {
		t.Fatalf("got %s, %v", got, err)
	}
	w := good1()
	w.blockSize = "0"
	if _, _, err := vet1(t, w, ours(t)); err != nil {
		t.Fatalf("a producer that does not say: %v", err)
	}
}

func TestVetKeepsCarrierLessInteriorNodesOnALivePath(t *testing.T) {
	w := good1()
	w.nodes = `{"parent":null,"block_hash":1,"workers":[1]},{"parent":0,"block_hash":2,"workers":[]},{"parent":1,"block_hash":3,"workers":[1]},{"parent":1,"block_hash":4,"workers":[0]}`
	got, _, err := vet1(t, w, ours(t))
	if err != nil {
		t.Fatal(err)
	}
	// A flat index needs no node for 2: 3 names it as its parent, so the path stays.
	if want := "1 1 after {0 false}: 1; 3 1 after {2 true}: 1;"; got.String() != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

func TestVetDropsCursorsForUnknownWorkers(t *testing.T) {
	w := good1()
	w.cursors = "[0,5],[1,10],[99,7],[-1,3]"
	body, err := open1(w.text(), ours(t))
	if err != nil {
		t.Fatal(err)
	}
	v, err := body.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r := v.Ranks(); len(r) != 1 || r[0].Rank.Worker != "1" || r[0].Cursor.Seq != 10 || r[0].Cursor.Proof != cursor.Unwitnessed || r[0].Cursor.Time != 0 {
		t.Fatalf("got %+v, want rank 1 alone: 2 has no cursor", r)
	}
	if !v.Covers(index.Rank{Worker: "1"}) || v.Covers(index.Rank{Worker: "2"}) || v.Covers() {
		t.Error("a rank is covered if it has a cursor")
	}
}

func TestVetIgnoresOutOfRangeCarrierIndices(t *testing.T) {
	w := good1()
	w.nodes = `{"parent":null,"block_hash":1,"workers":[1,44,4294967295]}`
	if got, _, err := vet1(t, w, ours(t)); err != nil || got.String() != "1 1 after {0 false}: 1;" {
		t.Fatalf("got %s, %v", got, err)
	}
}

func TestVetPrunesNodesCarriedOnlyOnUnrankedTiers(t *testing.T) {
	w := good1()
	w.nodes = `{"parent":null,"block_hash":1,"workers":[1],"tiers":[1]},{"parent":0,"block_hash":2,"workers":[1,2],"tiers":[32,18]},{"parent":1,"block_hash":3,"workers":[1],"tiers":[0]}`
	got, _, err := vet1(t, w, ours(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := "1 1 after {0 false}: 1; 2 2 after {1 true}: 2;"; got.String() != want { // never folded to device
		t.Fatalf("got %s, want %s", got, want)
	}
}

func TestLegacySnapshotWithoutTiersRestoresAsDevice(t *testing.T) {
	w := good1()
	w.nodes = `{"parent":null,"block_hash":1,"workers":[1]},{"parent":0,"block_hash":2,"workers":[2],"tiers":[]}`
	if got, _, err := vet1(t, w, ours(t)); err != nil || got.String() != "1 1 after {0 false}: 1; 2 2 after {1 true}: 1;" {
		t.Fatalf("got %s, %v", got, err)
	}
}

func TestAPreTieringBodyStillParses(t *testing.T) {
	raw := []byte(`{"format":1,"block_size":64,"is_bigram":false,"producer_ready":true,"workers":[{"url":"http://10.0.0.1:8000","dp_rank":0}],"cursors":[[0,4]],"nodes":[{"parent":null,"block_hash":-5,"workers":[0]}]}`)
	body, err := open1(raw, ours(t))
	if err != nil {
		t.Fatal(err)
	}
	if g := restoreAll(t, body)[0]; len(holdings(g.index, []index.Rank{{Worker: "1"}})) != 1 || g.ranks[0].Cursor.Seq != 4 {
		t.Fatalf("got %+v", g.ranks)
	}
	if body.Table().Complete {
		t.Error("a body that lists no empty ranks is evidence of some")
	}
}

func TestEmptyRanksIsBackwardCompatibleOnTheWire(t *testing.T) {
	w := good1()
	w.rest = `,"empty_ranks":[{"url":"http://10.0.0.3:8000","dp_rank":1}],"new":{"a":[1,{"b":"c\"}"}]}`
	_, body, err := vet1(t, w, ours(t))
	if err != nil {
		t.Fatal(err)
	}
	if tb := body.Table(); !tb.Complete || !tb.HoldsNothing(Worker{PodUID: "3", URL: "http://10.0.0.3:8000"}, 1) || tb.HoldsNothing(Worker{URL: "http://10.0.0.3:8000"}, 0) {
		t.Errorf("got %+v", tb)
	}
	m := warmSGLang(t)
	m.sections[0].ranks = m.sections[0].ranks[:2]
	if raw := encode1(t, m); strings.Contains(string(raw), "empty_ranks") {
		t.Errorf("an empty list is written: %s", raw)
	}
}

func TestWireCursorIsAddressedByIdentityNotTablePosition(t *testing.T) {
	w := good1()
	w.cursors = "[2,20],[0,5],[1,10]"
	body, err := open1(w.text(), ours(t))
	if err != nil {
		t.Fatal(err)
	}
	for worker, want := range map[string]int64{"1": 10, "2": 20, "9": 0} {
		row, ok := body.Table().Find(Worker{PodUID: "x" + worker, URL: "http://10.0.0." + worker + ":8000"}, 0)
		if ok != (want != 0) || row.Cursor.Seq != want {
			t.Errorf("%s: got %d, want %d", worker, row.Cursor.Seq, want)
		}
	}
}

func TestTwoUIDsNeverMatchAndAURLOnlyWhereOneIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		a, b Worker
		want bool
	}{
		"one UID, moved":      {Worker{"u", "http://a"}, Worker{"u", "http://b"}, true},
		"two UIDs, one URL":   {Worker{"u", "http://a"}, Worker{"v", "http://a"}, false},
		"a UID on one side":   {Worker{"u", "http://a"}, Worker{"", "http://a"}, true},
		"no UID, one URL":     {Worker{"", "http://a"}, Worker{"", "http://a"}, true},
		"no UID, two URLs":    {Worker{"", "http://a"}, Worker{"", "http://b"}, false},
		"nothing to compare":  {Worker{"u", ""}, Worker{"", ""}, false},
		"nothing, and no UID": {Worker{}, Worker{}, false},
	} {
		if c.a.Same(c.b) != c.want || c.b.Same(c.a) != c.want {
			t.Errorf("%s: got %v", name, !c.want)
		}
		l := newLocals(Want{Local: []LocalSection{{Ranks: []LocalRank{{Rank: index.Rank{Worker: "x"}, Worker: c.a}}}}})
		if _, ok := l.find(c.b, 0); ok != c.want {
			t.Errorf("%s: found %v", name, ok)
		}
		if _, ok := l.find(c.b, 1); ok {
			t.Errorf("%s: another rank is found", name)
		}
	}
	l := newLocals(Want{Local: []LocalSection{{Ranks: []LocalRank{
		{Rank: index.Rank{Worker: "old"}, Worker: Worker{"old", "http://a"}}, {Rank: index.Rank{Worker: "new"}, Worker: Worker{"new", "http://a"}},
	}}}})
	if _, ok := l.find(Worker{"", "http://a"}, 0); ok {
		t.Error("a URL that two pods of ours have names one of them")
	}
	if got, ok := l.find(Worker{"new", "http://b"}, 0); !ok || got.rank.Rank.Worker != "new" {
		t.Error("a UID is not enough")
	}
}

// TestVettingOrder changes one thing after another of a section of format 2, the last in the order first: each must show
// through what comes after it.
func TestVettingOrder(t *testing.T) {
	m := &memory{ready: true}
	s := m.add(tokensKey())
	r := s.rank(t, "1", 0, 10)
	r.store(s, index.Root, []index.Key{1}, index.Device)
	want := m.wantAll()
	b, err := produce(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	row := &b.sections[0].rows[0]
	for _, c := range []struct {
		want   Reason
		change func()
	}{
		{"", func() {}},
		{NotExported, func() { row.exported = false }},
		{ProducerCold, func() { b.head.ready = false }},
		{Untrusted, func() { row.Cursor.Proof = cursor.Untrusted }},
		{OtherIncarnation, func() { row.Cursor.Incarnation.Start.ID = "p0" }},
		{BlockSizeMismatch, func() { b.sections[0].key.BlockSize = 32 }},
		{MapMissing, func() { b.sections[0].maps = false }},
		{SeedMismatch, func() { b.sections[0].key.SeedID++ }},
		{SchemeMismatch, func() { b.sections[0].key.Scheme = index.SchemeVLLM }},
	} {
		c.change()
		b.digests = nil
		b.seal()
		var raw strings.Builder
		if err := b.write(&raw, func(digest) string { return "" }); err != nil {
			t.Fatal(err)
		}
		body, err := open2([]byte(raw.String()), want)
		if ReasonOf(err) != c.want || err != nil && c.want == "" {
			t.Fatalf("got %v, want %q", err, c.want)
		}
		if c.want != "" && body.Left()[r.Rank] != c.want {
			t.Fatalf("the rank is left for %q, want %q", body.Left()[r.Rank], c.want)
		}
	}
}

func TestATokensSectionWithoutEngineHashesIsRefused(t *testing.T) {
	m := fleetSource(t, 1, 20)
	b, err := produce(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	b.sections[1].maps, b.digests = false, nil
	b.seal()
	var raw strings.Builder
	_ = b.write(&raw, func(digest) string { return "" })
	body, err := open2([]byte(raw.String()), m.wantAll())
	if err != nil {
		t.Fatal(err)
	}
	if v, err := body.Next(t.Context()); err != nil || v.Key() != sglangKey() {
		t.Fatalf("the other section: %v", err)
	}
	for _, rank := range m.sections[1].ids() {
		if why := body.Left()[rank]; why != MapMissing {
			t.Errorf("%v: left for %q", rank, why)
		}
	}
}

func TestAStartThatIsKnownAndOtherIsAnotherIncarnation(t *testing.T) {
	p1, p2, none, unknown := cursor.Start{Known: true, ID: "p1"}, cursor.Start{Known: true, ID: "p2"}, cursor.Start{Known: true}, cursor.Start{}
	for _, c := range []struct {
		ours, theirs cursor.Start
		want         bool
	}{{p1, p1, false}, {p1, p2, true}, {none, p1, true}, {none, none, false}, {unknown, p1, false}, {p1, unknown, false}} {
		a := cursor.Cursor{Incarnation: cursor.Incarnation{Worker: "w", Start: c.ours}}
		b := cursor.Cursor{Incarnation: cursor.Incarnation{Worker: "http://w", Start: c.theirs}, Seq: 5, Proof: cursor.Proven}
		if got := otherLife(a, b); got != c.want {
			t.Errorf("%v and %v: got %v", c.ours, c.theirs, got)
		}
	}
	ours := cursor.Cursor{Incarnation: cursor.Incarnation{Worker: "w", Start: p1}, Seq: 5, Hash: 1, Proof: cursor.Proven}
	theirs := ours
	theirs.Hash = 2
	if !otherLife(ours, theirs) || otherLife(ours, ours) {
		t.Error("another batch at one seq is another life")
	}
}

func TestRetainDropsAndRenumbers(t *testing.T) {
	m := fleetSource(t, 4, 200)
	body, err := open2(encode(t, m), m.wantAll())
	if err != nil {
		t.Fatal(err)
	}
	for {
		v, err := body.Next(t.Context())
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		keep := v.Ranks()[len(v.Ranks())/2].Rank
		v.Retain(func(r index.Rank) bool { return r == keep })
		g := restore(t, v)
		s := m.section(v.Key())
		if got, want := holdings(g.index, s.ids()), holdings(s.index, []index.Rank{keep}); len(g.ranks) != 1 || !maps.Equal(got, want) {
			t.Fatalf("%v: %d blocks of %d ranks, want %d", keep, len(got), len(g.ranks), len(want))
		}
	}
}
