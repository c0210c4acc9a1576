package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

// warmSGLang is a source that format 1 can tell: two ranks and a bystander that holds nothing.
func warmSGLang(t testing.TB) *memory {
	m := &memory{ready: true, since: time.UnixMilli(5)}
	s := m.add(sglangKey())
	a, b := s.rank(t, "1", 0, 10), s.rank(t, "2", 0, 20)
	s.rank(t, "3", 1, 0).Cursor = cursor.Cursor{}
	a.store(s, index.Root, []index.Key{1, 2, 3}, index.Device)
	b.store(s, index.Root, []index.Key{1, 2}, index.Host)
	b.store(s, index.After(2), []index.Key{^index.Key(6)}, index.Device|index.External)
	return m
}

// body1JSON is a body of format 1 as a stranger to this package reads it.
type body1JSON struct {
	Format    int      `json:"format"`
	BlockSize int      `json:"block_size"`
	Bigram    *bool    `json:"is_bigram"`
	Ready     bool     `json:"producer_ready"`
	Workers   []any    `json:"workers"`
	Cursors   [][2]int `json:"cursors"`
	Nodes     []struct {
		Parent  *int  `json:"parent"`
		Hash    int64 `json:"block_hash"`
		Workers []int `json:"workers"`
		Tiers   []int `json:"tiers"`
	} `json:"nodes"`
	Empty []worker1 `json:"empty_ranks"`
}

func parse1(t testing.TB, raw []byte) (b body1JSON) {
	t.Helper()
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatalf("%v in %.300s", err, raw)
	}
	return b
}

func TestKVSnapshotRouteServesParseableJSON(t *testing.T) {
	r := newRig(t, warmSGLang(t))
	resp, raw := r.get(t, "")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("Content-Encoding") != "" {
		t.Fatalf("status %d, headers %v", resp.StatusCode, resp.Header)
	}
	b := parse1(t, raw)
	if b.Format != 1 || b.BlockSize != 64 || b.Bigram == nil || !b.Ready || len(b.Workers) != 2 || len(b.Cursors) != 2 || len(b.Nodes) != 4 || len(b.Empty) != 1 {
		t.Fatalf("got %+v", b)
	}
	for i, n := range b.Nodes {
		if n.Parent != nil && *n.Parent >= i || len(n.Tiers) != len(n.Workers) {
			t.Errorf("record %d is %+v", i, n)
		}
	}
}

func TestABodyOfFormat1IsSignedInItsTrailer(t *testing.T) {
	r := newRig(t, warmSGLang(t))
	for _, coding := range []string{"identity", "gzip"} {
		req, _ := http.NewRequest(http.MethodGet, r.server.URL+Path, nil)
		req.Header.Set("Accept-Encoding", coding)
		sig := signed.Sign(req, nil, testKey, time.Now())
		resp, err := r.client.opts.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := signed.VerifyResponse(resp.Trailer, sig, 200, raw, testKeys()); err != nil {
			t.Errorf("%s: %v", coding, err)
		}
	}
}

func TestKVSnapshotRouteIsAbsentWithoutALocalTree(t *testing.T) {
	r := newRig(t, nil)
	for _, q := range []string{"", "?" + paramCursors + "=true"} {
		if resp, raw := r.get(t, q); resp.StatusCode != 404 || !bytes.Contains(raw, []byte(`"error"`)) {
			t.Errorf("%q: status %d, %s", q, resp.StatusCode, raw)
		}
	}
}

func TestKVSnapshotRouteCompressesOnlyWhenTheCallerAcceptsGzip(t *testing.T) {
	r := newRig(t, warmSGLang(t))
	_, plain := r.get(t, "")
	resp, raw := r.get(t, "", "Accept-Encoding", "br, GZIP;q=0.5")
	if resp.Header.Get("Content-Encoding") != "gzip" || resp.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("headers %v", resp.Header)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || !bytes.Equal(text, plain) {
		t.Fatalf("%v: inflated %.200s, want %.200s", err, text, plain)
	}
	for _, c := range []string{"identity", "gzip;q=0", "x-gzip"} {
		if resp, _ := r.get(t, "", "Accept-Encoding", c); resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("Vary") == "" {
			t.Errorf("%s: headers %v", c, resp.Header)
		}
	}
	resp, _ = r.get(t, "?cursors_only=true", "Accept-Encoding", "gzip")
	if resp.Header.Get("Content-Encoding") != "" {
		t.Error("cursors are compressed")
	}
}

func TestAcceptsGzipMatchesTheCodingToken(t *testing.T) {
	for value, want := range map[string]bool{
		"gzip": true, "GZip": true, "br, gzip": true, "gzip;q=1.0": true, "gzip ; q=0.2": true, "gzip;q=0": false,
		"gzip; Q=0.000": false, "": false, "x-gzip": false, "gzipped": false, "deflate": false, "*": false, "gzip;level=9": true,
	} {
		if got := acceptsGzip([]string{value}); got != want {
			t.Errorf("%q: got %v", value, got)
		}
	}
	if !acceptsGzip([]string{"br", "gzip"}) {
		t.Error("a second field is not read")
	}
}

func TestTheFormatIsWhatTheCallerAccepts(t *testing.T) {
	for value, want := range map[string]int{
		"": 0, "*/*": 1, "application/json": 1, "application/*;q=0.1": 1, MediaType: 2, MediaType + ";format=2": 2, MediaType + ";format=3": 0,
		MediaType + ";q=0": 0, "application/json, " + MediaType: 2, "text/html": 0, "application/json;q=0": 0, MediaType + ";format=3, application/json": 1,
	} {
		if got := acceptedFormat([]string{value}); got != want {
			t.Errorf("%q: got %d, want %d", value, got, want)
		}
	}
	if acceptedFormat(nil) != 1 {
		t.Error("who says nothing gets no JSON")
	}
	r := newRig(t, fleetSource(t, 1, 5))
	for query, accept := range map[string]string{"": "application/json", "?max_age_ms=1": "text/html", "?cursors_only=true": "application/json"} {
		if resp, _ := r.get(t, query, "Accept", accept); resp.StatusCode != 406 {
			t.Errorf("%q %s: status %d, want 406: two indexes, or no format of ours", query, accept, resp.StatusCode)
		}
	}
	if resp, _ := r.get(t, "", "Accept", MediaType); resp.StatusCode != 200 || resp.Header.Get("Content-Type") != MediaType {
		t.Errorf("format 2: status %d, %v", resp.StatusCode, resp.Header)
	}
}

func TestKVSnapshotRouteAcceptsAMaxAgeAndSurvivesItsAbsence(t *testing.T) {
	r := newRig(t, warmSGLang(t))
	for q, want := range map[string]int{
		"": 200, "?max_age_ms=0": 200, "?max_age_ms=1500": 200, "?max_age_ms=18446744073709551615": 200,
		"?max_age_ms=": 400, "?max_age_ms=-1": 400, "?max_age_ms=x": 400,
	} {
		if resp, raw := r.get(t, q); resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d: %s", q, resp.StatusCode, want, raw)
		}
	}
}

func TestAValuelessCursorsOnlyIsRejected(t *testing.T) {
	r := newRig(t, warmSGLang(t))
	for q, want := range map[string]int{
		"?cursors_only": 400, "?cursors_only=": 400, "?cursors_only=1": 400, "?cursors_only=True": 400, "?cursors_only=false": 200,
		"?cursors_only=true": 200, "?ranks=x": 400, "?ranks=1@": 400, "?ranks=0@1&ranks=0@2": 200, "?%zz": 400,
	} {
		if resp, raw := r.get(t, q); resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d: %s", q, resp.StatusCode, want, raw)
		}
	}
}

func TestKVSnapshotRouteServesCursorsOnlyWhenAsked(t *testing.T) {
	m := warmSGLang(t)
	m.sections[0].ranks[1].Exportable = false // listed all the same (H14)
	m.sections[0].rank(t, "4", 0, 7)          // holds nothing, but was heard
	r := newRig(t, m)
	_, raw := r.get(t, "?cursors_only=true&max_age_ms=5")
	if b := parse1(t, raw); len(b.Cursors) != 3 || len(b.Workers) != 3 || len(b.Nodes) != 0 || len(b.Empty) != 2 || !b.Ready {
		t.Errorf("format 1: got %s", raw)
	}
	resp, raw := r.get(t, "?cursors_only=true", "Accept", MediaType)
	if resp.Header.Get(BuildsHeader) != "0" {
		t.Errorf("headers %v", resp.Header)
	}
	table, err := decodeTable2(raw)
	if err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 3 || len(table.Empty) != 2 || !table.Ready || !table.Complete || !table.SeedableSince.Equal(m.since) {
		t.Errorf("format 2: got %+v", table)
	}
	for _, row := range table.Rows {
		want := m.sections[0].find(index.Rank{Worker: row.Worker.PodUID, DP: row.DP}).row()
		want.Rank, want.Life = index.Rank{}, 0
		if row.Row != want || row.Section != sglangKey() {
			t.Errorf("got %+v, want %+v", row.Row, want)
		}
	}
}

func TestCursorsOnlyNeitherFillsNorReadsTheExportCache(t *testing.T) {
	m := warmSGLang(t)
	r := newRig(t, m)
	r.get(t, "?cursors_only=true")
	if r.handler.one.kept != nil || r.handler.two.kept != nil {
		t.Fatal("cursors_only built a body")
	}
	r.get(t, "?max_age_ms=60000")
	before := r.handler.one.kept
	m.mu.Lock()
	m.sections[0].ranks[0].Cursor.Seq = 999
	m.mu.Unlock()
	_, raw := r.get(t, "?cursors_only=true&max_age_ms=60000")
	if !bytes.Contains(raw, []byte("999")) || r.handler.one.kept != before {
		t.Fatalf("cursors_only is not live: %s", raw)
	}
	if _, raw := r.get(t, "?max_age_ms=60000"); bytes.Contains(raw, []byte("999")) {
		t.Fatal("a body that is fresh enough was built again")
	}
}

func TestAHalfPublishedHashConfigIsNotABootstrapSource(t *testing.T) {
	m := warmSGLang(t)
	m.sections[0].key.BlockSize = 0
	for _, raw := range [][]byte{encode1(t, m), func() []byte { _, b := newRig(t, m).get(t, "?cursors_only=true"); return b }()} {
		if b := parse1(t, raw); b.Ready || b.BlockSize != 0 {
			t.Errorf("got %s", raw)
		}
	}
}

func TestAReplicaThatHoldsNothingIsNoSource(t *testing.T) {
	m := &memory{ready: true}
	m.add(sglangKey()).rank(t, "1", 0, 3)
	if b := parse1(t, encode1(t, m)); b.Ready || len(b.Nodes) != 0 || len(b.Empty) != 1 {
		t.Errorf("got %+v", b)
	}
	body, err := open2(encode(t, m), m.wantAll())
	if ReasonOf(err) != ProducerCold || !body.Table().Cold() || !body.Table().HoldsNothing(Worker{PodUID: "1"}, 0) {
		t.Errorf("got %v, %+v", err, body.Table())
	}
}

func TestMaxAgeIsMeasuredFromTheRequestArrival(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for name, c := range map[string]struct {
		began, arrival int
		maxAge         time.Duration
		want           bool
	}{
		"younger than the request, however strict": {10, 9, 0, true},
		"begun as it came":                         {10, 10, 0, true},
		"older, none allowed":                      {9, 10, 0, false},
		"as old as allowed: too old":               {8, 10, 2 * time.Second, false},
		"a little less old":                        {8, 10, 2*time.Second + 1, true},
	} {
		if got := fresh(at(c.began), at(c.arrival), c.maxAge); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		h, release, builds := slowHandler(t)
		defer h.Close()
		go func() { _, _ = h.two.get(t.Context(), time.Now(), 0) }() // begins the first build
		synctest.Wait()
		time.Sleep(time.Second)
		got := make(chan *build)
		go func() { b, _ := h.two.get(t.Context(), time.Now(), 0); got <- b }()
		synctest.Wait()
		release <- struct{}{} // the first is older than the second request
		synctest.Wait()
		if *builds != 2 {
			t.Fatalf("%d builds, want a second one for who came during the first", *builds)
		}
		release <- struct{}{}
		if b := <-got; b != h.two.kept.built {
			t.Fatal("the second request did not get the second build")
		}
	})
}

// slowHandler has builds that wait to be released.
func slowHandler(t *testing.T) (h *Handler, release chan struct{}, builds *int) {
	h = NewHandler(&memory{}, Options{Keys: testKeys})
	release, builds = make(chan struct{}), new(int)
	h.two.init(h, format2, func(ctx context.Context) (*build, error) {
		*builds++
		select {
		case <-release:
			return &build{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	return h, release, builds
}

func TestAnAbandonedSnapshotRequestStillFillsTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, release, builds := slowHandler(t)
		defer h.Close()
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error)
		go func() { _, err := h.two.get(ctx, time.Now(), time.Minute); gaveUp <- err }()
		synctest.Wait()
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		release <- struct{}{}
		synctest.Wait()
		if b, err := h.two.get(t.Context(), time.Now(), time.Minute); b == nil || err != nil || *builds != 1 {
			t.Fatalf("got %v, %v after %d builds", b, err, *builds)
		}
		time.Sleep(keepBuild + time.Second)
		synctest.Wait()
		if h.two.kept != nil {
			t.Fatal("a build is kept for ever")
		}
	})
}

func TestABuildServesAllWhoWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, release, builds := slowHandler(t)
		defer h.Close()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := h.two.get(t.Context(), time.Now(), 0); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if h.busy.Load() != 1 {
			t.Errorf("%d builds at once", h.busy.Load())
		}
		release <- struct{}{}
		wg.Wait()
		if *builds != 1 {
			t.Errorf("%d builds", *builds)
		}
	})
}

func TestAWalkThatPanicsIsAnErrorOfOneRequest(t *testing.T) {
	m := warmSGLang(t)
	m.onRow = func() { panic("a bug") }
	r := newRig(t, m)
	for _, accept := range []string{MediaType, "application/json"} {
		if resp, raw := r.get(t, "?max_age_ms=0", "Accept", accept); resp.StatusCode != 503 || !strings.Contains(string(raw), CodeBuildFailed) {
			t.Errorf("%s: status %d, %s", accept, resp.StatusCode, raw)
		}
	}
	m.onRow = nil
	if resp, _ := r.get(t, "?max_age_ms=60000"); resp.StatusCode != 200 {
		t.Errorf("status %d after the panic: a failed build was kept", resp.StatusCode)
	}
}

func TestFourBodiesAreServedAtOnce(t *testing.T) {
	m := warmSGLang(t)
	r := newRig(t, m)
	for range bodiesAtOnce {
		r.handler.bodies <- struct{}{}
	}
	resp, raw := r.get(t, "", "Accept", MediaType)
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || !strings.Contains(string(raw), CodeBusy) {
		t.Fatalf("status %d, %v: %s", resp.StatusCode, resp.Header, raw)
	}
	_, err := r.client.Fetch(t.Context(), r.peer, m.wantAll())
	if no, ok := errors.AsType[*NoBody](err); !ok || no.RetryAfter != time.Second || no.Code != CodeBusy {
		t.Fatalf("the client says %v", err)
	}
	if resp, _ := r.get(t, "?cursors_only=true"); resp.StatusCode != 200 {
		t.Fatalf("cursors: status %d: they take no place", resp.StatusCode)
	}
	<-r.handler.bodies
	if resp, _ := r.get(t, "", "Accept", MediaType); resp.StatusCode != 200 || len(r.handler.bodies) != bodiesAtOnce-1 {
		t.Fatalf("status %d, %d places taken", resp.StatusCode, len(r.handler.bodies))
	}
}

func TestOnlyReplicasGetSnapshots(t *testing.T) {
	m := warmSGLang(t)
	r := newRig(t, m)
	r.handler.small = signed.Handler(http.HandlerFunc(r.handler.serveSmall), signed.Options{
		Keys: testKeys, Bearers: func() []signed.Bearer {
			return []signed.Bearer{{Role: signed.RoleView, Token: []byte("view-token-of-16-bytes")}}
		},
	})
	for name, c := range map[string]struct {
		query  string
		change func(*http.Request)
		want   int
	}{
		"nobody":          {"", func(*http.Request) {}, 401},
		"nobody, cursors": {"?cursors_only=true", func(*http.Request) {}, 401},
		"another key": {"", func(r *http.Request) {
			signed.Sign(r, nil, signed.NewKey([]byte("another-key-of-16-bytes")), time.Now())
		}, 401},
		"an old signature":   {"", func(r *http.Request) { signed.Sign(r, nil, testKey, time.Now().Add(-time.Hour)) }, 401},
		"a viewer":           {"", func(r *http.Request) { r.Header.Set("Authorization", "Bearer view-token-of-16-bytes") }, 403},
		"a viewer, cursors":  {"?cursors_only=true", func(r *http.Request) { r.Header.Set("Authorization", "Bearer view-token-of-16-bytes") }, 200},
		"a replica":          {"", func(r *http.Request) { signed.Sign(r, nil, testKey, time.Now()) }, 200},
		"a replica, posting": {"", func(r *http.Request) { r.Method = http.MethodPost; signed.Sign(r, nil, testKey, time.Now()) }, 405},
	} {
		req, _ := http.NewRequest(http.MethodGet, r.server.URL+Path+c.query, nil)
		c.change(req)
		resp, err := r.client.opts.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d", name, resp.StatusCode, c.want)
		}
	}
}

func TestARankWhoseLifeEndsDuringTheWalkIsNotExported(t *testing.T) {
	for name, during := range map[string]func(s *memorySection, r *memoryRank){
		"restarted past its cursor": func(s *memorySection, r *memoryRank) { // H12: by seq it only went on
			_ = s.index.Clear(r.holder)
			r.Cursor.Incarnation.Start.ID = "p2"
			r.store(s, index.Root, []index.Key{77, 78}, index.Device)
			r.Cursor.Seq += 100
		},
		"restarted, same seq":        func(s *memorySection, r *memoryRank) { _ = s.index.Clear(r.holder) },
		"forgotten":                  func(s *memorySection, r *memoryRank) { s.index.Forget(r.holder); s.ranks = s.ranks[1:] },
		"proving":                    func(_ *memorySection, r *memoryRank) { r.Exportable = false },
		"back in seq":                func(_ *memorySection, r *memoryRank) { r.Cursor.Seq-- },
		"another batch at its seq":   func(_ *memorySection, r *memoryRank) { r.Cursor.Hash++ },
		"without a cursor":           func(_ *memorySection, r *memoryRank) { r.Cursor.Proof = cursor.ProofUnknown },
		"restarted before the walk":  nil,
		"listed with an earlier one": nil,
	} {
		m := warmSGLang(t)
		s := m.sections[0]
		first, second := s.ranks[0], s.ranks[1]
		want := m.wantAll()
		once := sync.Once{}
		switch {
		case during != nil:
			m.onRow = func() { once.Do(func() { during(s, first) }) }
		case name == "restarted before the walk":
			first.holder = s.ranks[2].holder // the row's life is not the index's
		default:
			m.onRow = func() { once.Do(func() { first.Cursor.Seq += 5 }) }
		}
		body, err := open2(encode(t, m), want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		v, err := body.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		covers := v.Covers(first.Rank)
		if moved := name == "listed with an earlier one"; covers != moved || !v.Covers(second.Rank) {
			t.Errorf("%s: covered %v", name, covers)
		} else if r := v.Ranks()[0]; moved && (r.Cursor.Seq != 11 || r.WalkedTo != 16) {
			t.Errorf("%s: cursor %d, walked to %d, want 11 and 16", name, r.Cursor.Seq, r.WalkedTo)
		}
		restore(t, v)
	}
}

func TestWhatMayNotBeExportedIsListed(t *testing.T) {
	m := warmSGLang(t)
	s := m.sections[0]
	s.ranks[0].Exportable = false
	s.ranks[1].Cursor.Proof = cursor.Untrusted
	c := s.rank(t, "4", 0, 3)
	c.store(s, index.Root, []index.Key{50}, index.Device)
	body, err := open2(encode(t, m), m.wantAll())
	if err != nil {
		t.Fatal(err)
	}
	if left := body.Left(); left[s.ranks[0].Rank] != NotExported || left[s.ranks[1].Rank] != Untrusted || len(left) != 2 {
		t.Errorf("left out: %v", left)
	}
	if len(body.Table().Rows) != 3 {
		t.Errorf("the table has %d rows, want all 3 with cursors", len(body.Table().Rows))
	}
	g := restoreAll(t, body)[0]
	if got := holdings(g.index, s.ids()); len(got) != 1 || len(g.ranks) != 1 {
		t.Errorf("got %v of %v", got, g.ranks)
	}
}

func TestAnUntrustedRankIsNotToldInFormat1(t *testing.T) {
	m := warmSGLang(t)
	m.sections[0].ranks[0].Cursor.Proof = cursor.Untrusted
	if b := parse1(t, encode1(t, m)); len(b.Cursors) != 1 || len(b.Workers) != 1 {
		t.Errorf("format 1 cannot say that a rank is untrusted: got %+v", b)
	}
}

func TestCursorsAreReadBeforeTheWalk(t *testing.T) {
	m := &memory{ready: true}
	s := m.add(sglangKey())
	r := s.rank(t, "1", 0, 10)
	r.store(s, index.Root, []index.Key{1, 2}, index.Device)
	m.onSections = func() { // behind the lock: as a batch that is applied after the rows were read
		m.onSections = nil
	}
	rng := rand.New(rand.NewPCG(1, 1))
	m.onRow = func() { r.store(s, index.Root, []index.Key{index.Key(rng.Uint64())}, index.Device) }
	body, err := open2(encode(t, m), m.wantAll())
	if err != nil {
		t.Fatal(err)
	}
	v, err := body.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Ranks()[0]; got.Cursor.Seq != 11 || got.WalkedTo != 12 {
		t.Errorf("cursor %d, walked to %d, want 11 and 12", got.Cursor.Seq, got.WalkedTo)
	}
}

func TestAClosedHandlerBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, builds := slowHandler(t)
		waiting := make(chan error)
		go func() { _, err := h.two.get(t.Context(), time.Now(), 0); waiting <- err }()
		synctest.Wait()
		h.Close()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("who waited got %v", err)
		}
		if _, err := h.two.get(t.Context(), time.Now(), 0); !errors.Is(err, context.Canceled) || *builds != 1 {
			t.Errorf("who came later got %v after %d builds", err, *builds)
		}
	})
}

func TestABodyNoReaderWouldTakeIsNotBuilt(t *testing.T) {
	m := &memory{ready: true}
	s := m.add(sglangKey())
	s.ranks = make([]*memoryRank, maxRows+1)
	for i := range s.ranks {
		s.ranks[i] = &memoryRank{Row: Row{Worker: Worker{PodUID: "u"}, DP: int32(i)}}
	}
	if _, err := produce(t.Context(), m); err == nil || !strings.Contains(err.Error(), "ranks") {
		t.Errorf("too many ranks: %v", err)
	}
	s.ranks = s.ranks[1:]
	body, err := open2(encode(t, m), Want{})
	if ReasonOf(err) != ProducerCold || len(body.Table().Empty) != maxRows {
		t.Errorf("as many as may be: %v", err)
	}
	m.sections = make([]*memorySection, maxSections+1)
	for i := range m.sections {
		m.sections[i] = &memorySection{}
	}
	if _, err := produce(t.Context(), m); err == nil || !strings.Contains(err.Error(), "sections") {
		t.Errorf("too many sections: %v", err)
	}
}
