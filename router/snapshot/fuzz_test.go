package snapshot

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
)

// wanted names ranks that bodies of the seed corpora have.
func wanted() Want {
	rank := func(w string, dp int32) LocalRank {
		return LocalRank{Rank: index.Rank{Worker: w, DP: dp}, Worker: Worker{w, "http://10.0.0." + w + ":8000"}}
	}
	return Want{Local: []LocalSection{
		{Key: SectionKey{Model: "llama", Scheme: index.SchemeSGLang, BlockSize: 64, Bigram: true}, Ranks: []LocalRank{rank("uid-a", 0), rank("uid-b", 1)}},
		{Key: SectionKey{Model: "qwen", Scheme: index.SchemeTokens, BlockSize: 16, SeedID: 0x1122334455667788}, Ranks: []LocalRank{
			{Rank: index.Rank{Worker: "u"}, Worker: Worker{"", "http://10.0.0.7:8000"}},
		}},
		{Key: sglangKey(), Ranks: []LocalRank{rank("1", 0), rank("2", 1)}},
	}}
}

// allocating fails the test if f allocates more than a body of n bytes may cost: whatever is declared, memory follows what
// was sent.
func allocating(t *testing.T, n int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(n)*200+8<<20; got > limit {
		t.Fatalf("%d bytes of input cost %d bytes of memory, more than %d", n, got, limit)
	}
}

// settle restores what comes and walks it: chains that bite their tails must not hang anybody.
func settle(b *Body) error {
	for {
		v, err := b.Next(b.ctx)
		if err != nil {
			return err
		}
		g := &graft{ranks: v.Ranks(), index: index.New(index.Options{}), names: map[index.Rank]map[uint64]HashRow{}, orphans: map[index.Rank][]OrphanRow{}}
		if err := g.from(v); err != nil {
			return err
		}
		var ids []index.Rank
		for _, r := range g.ranks {
			ids = append(ids, r.Rank)
		}
		for e := g.index.Runs(ids, index.RunOptions{Ordered: true}); e.Next(1<<16, func(index.Run) {}); {
		}
	}
}

// framed makes a body of fuzzed bytes that passes the checksums: type, length (2), payload, and so on. A signature's
// payload is made right.
func framed(raw []byte) []byte {
	var out bytes.Buffer
	w := newBodyWriter(&out, func(digest) string { return "" })
	_ = w.write([]byte(magic))
	for len(raw) >= 3 {
		n := min(int(binary.LittleEndian.Uint16(raw[1:])), len(raw)-3)
		if frameType(raw[0]) == frameSignature {
			_ = w.signature()
		} else {
			_ = w.write(oneFrame(frameType(raw[0]), raw[3:3+n]))
		}
		raw = raw[3+n:]
	}
	return out.Bytes()
}

// unframed is the reverse, for seeds.
func unframed(body []byte) (out []byte) {
	for body = body[len(magic):]; len(body) > 0; {
		n := int(binary.LittleEndian.Uint32(body[1:]))
		out = append(out, body[0], byte(n), byte(n>>8))
		out = append(out, body[frameHead:frameHead+n]...)
		body = body[frameHead+n+frameTail:]
	}
	return out
}

func goldenRaw(t testing.TB) []byte {
	var raw bytes.Buffer
	if err := goldenBuild(&testing.T{}).write(&raw, func(digest) string { return "" }); err != nil {
		t.Fatal(err)
	}
	return raw.Bytes()
}

func FuzzBody2(f *testing.F) {
	raw := goldenRaw(f)
	f.Add(unframed(raw))
	f.Add([]byte{})
	f.Add([]byte{byte(frameBody), 4, 0, 1, 0, 0xff, 0x07})
	f.Fuzz(func(t *testing.T, in []byte) {
		raw := framed(in)
		allocating(t, len(raw), func() {
			body, err := open2(raw, wanted())
			if err == nil {
				err = settle(body)
			}
			if err == nil {
				t.Fatal("a body ends without an end")
			}
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && ReasonOf(err) == "" {
				t.Fatalf("an error of no kind: %v", err)
			}
		})
	})
}

func FuzzRawBody2(f *testing.F) {
	f.Add(goldenRaw(f))
	f.Fuzz(func(t *testing.T, raw []byte) {
		allocating(t, len(raw), func() {
			if body, err := open2(raw, wanted()); err == nil {
				_ = settle(body)
			}
		})
	})
}

// FuzzChunk reads a chunk, writes it again and reads that: what is read must be what was meant.
func FuzzChunk(f *testing.F) {
	b := goldenBuild(&testing.T{})
	for _, s := range b.sections {
		for _, frame := range s.frames {
			f.Add(frame[0], s.maps, frame[frameHead+1:len(frame)-frameTail])
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, names bool, payload []byte) {
		if len(payload) > maxFrameBytes {
			return
		}
		d := &chunkDecoder{places: []int{0, 1, -1, 2}, names: names}
		var c *Chunk
		ok := false
		allocating(t, len(payload), func() { c, ok = d.chunk(frameType(kind), &reader{b: payload}) })
		if !ok {
			return
		}
		if c.Len() > len(payload) || len(c.keys) > MaxChunkNodes {
			t.Fatalf("%d bytes give %d entries", len(payload), c.Len())
		}
		again := recode(t, c, names)
		if got, want := describe(again...), describe(c); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

// recode packs a chunk anew and reads what comes of it.
func recode(t *testing.T, c *Chunk, names bool) (out []*Chunk) {
	d := &chunkDecoder{places: []int{0, 1, 2}, names: names}
	emit := func(frame []byte) error {
		got, ok := d.chunk(frameType(frame[0]), &reader{b: frame[frameHead+1 : len(frame)-frameTail]})
		if !ok {
			t.Fatal("what we wrote cannot be read")
		}
		out = append(out, got)
		return nil
	}
	var sum totals
	nodes := &nodeEncoder{rows: []int{0, 1, 2}, names: names, emit: emit}
	rows := &rowEncoder{emit: emit, totals: &sum}
	hashes := c.hashes
	for _, run := range c.runs {
		var ns []name
		if who := c.sets[run.set]; names {
			for _, h := range hashes[:len(who)*(run.to-run.from)] {
				ns = append(ns, name{h.Hash, h.Copies})
			}
			hashes = hashes[len(ns):]
		}
		nodes.run(run.parent, c.keys[run.from:run.to], uint32(run.set), c.sets[run.set], ns)
	}
	nodes.flush()
	if len(c.runs) == 0 {
		for _, h := range hashes {
			rows.hash(h.rank, h.HashRow)
		}
	}
	for _, o := range c.orphans {
		rows.orphan(o.rank, o.OrphanRow)
	}
	rows.flush()
	return out
}

// describe tells what chunks say, in order.
func describe(chunks ...*Chunk) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, c := range chunks {
		c.Nodes(func(k index.Key, p index.Parent, who []index.Holding) { _ = enc.Encode([]any{k, p, who}) })
	}
	for _, c := range chunks {
		c.Hashes(func(rank int, h HashRow) { _ = enc.Encode([]any{rank, h}) })
		c.Orphans(func(rank int, o OrphanRow) { _ = enc.Encode([]any{rank, o}) })
	}
	return b.String()
}

// FuzzBody1 reads JSON: whatever is taken to its end is JSON by the standard library, too.
func FuzzBody1(f *testing.F) {
	if raw, err := os.ReadFile("testdata/format1.json"); err == nil {
		f.Add(raw)
	}
	f.Add(good1().text())
	f.Add([]byte(`{"format":1,"a":{"b":[1,-2.5e+7,true,null,"\u00e9\""]},"workers":[],"cursors":[],"nodes":[],"z":[[[[]]]]} `))
	f.Fuzz(func(t *testing.T, raw []byte) {
		allocating(t, len(raw)*4, func() {
			body, err := open1(raw, wanted())
			if err == nil {
				err = settle(body)
			}
			if errors.Is(err, io.EOF) && ReasonOf(err) == "" && !errors.Is(err, io.ErrUnexpectedEOF) && !json.Valid(raw) && !looseJSON(raw) {
				t.Fatalf("no JSON is taken: %q", raw)
			}
		})
	})
}

// looseJSON tells a text that differs from JSON in values that are passed over, which are not looked at closely.
func looseJSON(raw []byte) bool {
	j := newJSONReader(bytes.NewReader(raw))
	j.skip(0)
	j.end()
	return j.err == nil
}

func FuzzCursors(f *testing.F) {
	if raw, err := os.ReadFile("testdata/cursors2.json"); err == nil {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var table *Table
		var err error
		allocating(t, len(raw)*4, func() { table, err = decodeTable2(raw) })
		if (table == nil) != (err != nil) || err != nil && ReasonOf(err) == "" {
			t.Fatalf("got %v, %v", table, err)
		}
	})
}

func FuzzQuery(f *testing.F) {
	f.Add("max_age_ms=5&cursors_only=true&ranks=0@uid", MediaType+";format=2", "gzip;q=0")
	f.Fuzz(func(t *testing.T, q, accept, coding string) {
		r := &http.Request{URL: &url.URL{RawQuery: q}, Header: http.Header{"Accept": {accept}, "Accept-Encoding": {coding}}}
		got, err := parseQuery(r)
		if err == nil && (got.maxAge < 0 || got.format < 0 || got.format > format2) {
			t.Fatalf("got %+v", got)
		}
	})
}

// TestHostileBodiesAreRefused has what a fuzzer finds late: numbers that do not fit what is there.
func TestHostileBodiesAreRefused(t *testing.T) {
	u := binary.AppendUvarint
	head := func(sections uint64) []byte {
		return append(u(append([]byte{1, 0}, u(nil, sections)...), 0), make([]byte, 8)...)
	}
	frame := func(k frameType, p []byte) []byte {
		return append([]byte{byte(k), byte(len(p)), byte(len(p) >> 8)}, p...)
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	section := func(rows uint64) []byte {
		return u(u(append([]byte{1, 'm', 1, 's', 1, 0}, make([]byte, 8)...), rows), 0)
	}
	golden := unframed(goldenRaw(t))
	for name, in := range map[string][]byte{
		"nothing":                 {},
		"too many sections":       frame(frameBody, head(1<<40)),
		"more sections than sent": join(frame(frameBody, head(3)), frame(frameSection, section(0))),
		"too many rows":           join(frame(frameBody, head(1)), frame(frameSection, section(1<<17))),
		"rows that never come":    join(frame(frameBody, head(1)), frame(frameSection, section(1<<16)), frame(frameRows, nil)),
		"a row of no bytes":       join(frame(frameBody, head(1)), frame(frameSection, section(1)), frame(frameRows, []byte{0})),
		"a row longer than sent":  join(frame(frameBody, head(1)), frame(frameSection, section(1)), frame(frameRows, []byte{0xff, 0x3f})),
		"chunks before a table":   frame(frameNodes, []byte{0, 1, 0}),
		"a table that is no end":  join(frame(frameBody, head(0)), []byte{byte(frameSignature), 0, 0}),
		"a second table":          join(golden, golden),
		"an unknown frame":        join(golden[:len(golden)-3-40], frame(0x55, nil)),
	} {
		raw := framed(in)
		allocating(t, len(raw), func() {
			body, err := open2(raw, wanted())
			if err == nil {
				err = settle(body)
			}
			if err == nil || err == io.EOF {
				t.Errorf("%s: it is taken", name)
			}
		})
	}
	long := append([]byte(magic), byte(frameBody), 0xff, 0xff, 0xff, 0xff)
	if _, err := open2(long, wanted()); ReasonOf(err) != Malformed {
		t.Errorf("a frame of 4 GB: %v", err)
	}
	for name, payload := range map[string][]byte{
		"more keys than sent":      {0xff, 0x1f, opRoot},
		"more keys than allowed":   append([]byte{0x01, 0x20}, make([]byte, 1<<17)...),
		"a set of nobody":          {1, 0, opDefine, opRoot | 1<<opBits, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"a set of a stranger":      {1, 0, opDefine | 1<<opBits, 9 << 4, opRoot | 1<<opBits, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"a set that is not there":  {1, 0, opRoot | 1<<opBits, 3, 0, 0, 0, 0, 0, 0, 0, 0},
		"a run of none":            {1, 0, opDefine | 1<<opBits, 1, opRoot, 0},
		"a first run after a last": {1, 0, opDefine | 1<<opBits, 1, opNext | 1<<opBits, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"sets for ever":            append([]byte{1, 0}, bytes.Repeat([]byte{opDefine | 1<<opBits, 1}, 20000)...),
		"something behind":         {1, 0, opDefine | 1<<opBits, 1, opRoot | 1<<opBits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7},
	} {
		d := &chunkDecoder{places: []int{0, 1}}
		if _, ok := d.nodes(&reader{b: payload}); ok {
			t.Errorf("%s: it is taken", name)
		}
	}
	zeros := append([]byte(`{"format":2,"ranks":[`), bytes.Repeat([]byte("{},"), 1<<20)...)
	for _, body := range []string{string(zeros), string(zeros) + "{}]}", `{"format":2,"ranks":{}}`, `{"format":2,"ranks":[0]}`, `[]`, `{"format":2`, `{"format":2,"ranks":null}`} {
		if _, err := decodeTable2([]byte(body)); ReasonOf(err) != Malformed {
			t.Errorf("cursors %.40s: %v", body, err)
		}
	}
	deep := bytes.Repeat([]byte("["), 1<<20)
	if _, err := open1(append([]byte(`{"format":1,"x":`), deep...), wanted()); ReasonOf(err) != Malformed {
		t.Errorf("deep nesting: %v", err)
	}
}
