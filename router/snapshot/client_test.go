package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

func TestSnapshotURL(t *testing.T) {
	p := Peer{URL: "http://10.0.0.1:9400/"}
	const at = "http://10.0.0.1:9400/internal/kv_snapshot"
	m := warmSGLang(t)
	some := m.wantAll()
	some.Ranks = m.sections[0].ids()[1:]
	tooMany := Want{MaxAge: AnyAge, Ranks: make([]index.Rank, maxAskedRanks+1)}
	for name, c := range map[string]struct {
		w    Want
		want string
	}{
		"OmitsTheParameterWhenAnyAgeWillDo":   {Want{MaxAge: AnyAge}, at},
		"StatesTheRequirementInMilliseconds":  {Want{MaxAge: 1500 * time.Millisecond}, at + "?max_age_ms=1500"},
		"StatesTheStrictest":                  {Want{}, at + "?max_age_ms=0"},
		"SaturatesAnAbsurdAge":                {Want{MaxAge: math.MaxInt64}, at + "?max_age_ms=9223372036854"},
		"NamesTheRanksThatAreWanted":          {some, at + "?ranks=0%402&ranks=1%403"},
		"AsksForAllRatherThanForVeryManyOnes": {tooMany, at},
	} {
		if got := snapshotURL(p, c.w); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	if got := cursorsURL(p); got != at+"?cursors_only=true" {
		t.Errorf("CursorsURLAsksForTheCursorTableAlone: got %s", got)
	}
}

// upstream is a router of the open stack: it serves what it is given, to anybody.
func upstream(t *testing.T, answer http.HandlerFunc) (*Client, Peer) {
	t.Helper()
	server := httptest.NewServer(answer)
	transport := &http.Transport{}
	t.Cleanup(func() { transport.CloseIdleConnections(); server.Close() })
	return NewClient(ClientOptions{Transport: transport, Keys: testKeys}), Peer{Name: "old", URL: server.URL, Upstream: true}
}

func zipped(t testing.TB, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(raw); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDecodeSnapshotReadsIdentityAndGzipBodies(t *testing.T) {
	m := warmSGLang(t)
	raw := encode1(t, m)
	for _, coding := range []string{"", "gzip", "GZIP", "br", "gzip, gzip"} {
		client, peer := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get(signed.Header) != "" || r.Header.Get("Authorization") != "" {
				t.Error("a stranger gets our signature")
			}
			if r.Header.Get("Accept-Encoding") != "gzip" || r.URL.Query().Has(paramRanks) {
				t.Errorf("asked with %v %s", r.Header, r.URL)
			}
			body := raw
			if strings.EqualFold(coding, "gzip") {
				body = zipped(t, raw)
			}
			if coding != "" {
				w.Header().Set("Content-Encoding", coding)
			}
			_, _ = w.Write(body)
		})
		body, err := client.Fetch(t.Context(), peer, m.wantAll())
		if coding == "br" || coding == "gzip, gzip" {
			if ReasonOf(err) != Malformed {
				t.Errorf("%q: got %v", coding, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%q: %v", coding, err)
		}
		g := restoreAll(t, body)[0]
		s := m.sections[0]
		if got, want := holdings(g.index, s.ids()), holdings(s.index, s.ids()); !maps.Equal(got, want) || len(got) == 0 {
			t.Errorf("%q: got %v, want %v", coding, got, want)
		}
		if p := body.Progress(); p.Bytes == 0 || p.Nodes != 4 {
			t.Errorf("%q: progress %+v", coding, p)
		}
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAGzipBodyThatInflatesForEverIsBounded(t *testing.T) {
	b := &boundedReader{r: zeros{}, left: 1000}
	if n, err := io.Copy(io.Discard, b); n != 1000 || ReasonOf(err) != Malformed {
		t.Errorf("read %d, %v", n, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestADefaultClientDoesNotAdvertiseGzip(t *testing.T) {
	m := fleetSource(t, 1, 10)
	var seen atomic.Value
	r := newRig(t, m)
	inner := r.server.Config.Handler
	r.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		seen.Store(req.Header.Get("Accept-Encoding"))
		inner.ServeHTTP(w, req)
	})
	r.client = NewClient(ClientOptions{Keys: testKeys})
	defer r.client.opts.Transport.(*http.Transport).CloseIdleConnections()
	r.fetch(t, m.wantAll())
	if got := seen.Load(); got != "" {
		t.Errorf("the client advertises %q: hashes do not compress", got)
	}
	if _, err := r.client.Cursors(t.Context(), r.peer); err != nil || seen.Load() != "" {
		t.Errorf("cursors: %v, %q", err, seen.Load())
	}
}

func TestCursorsSurviveTheRoundTrip(t *testing.T) {
	m := fleetSource(t, 2, 50)
	m.sections[0].ranks[0].Cursor.Incarnation.Start = cursor.Start{}
	m.sections[0].ranks[0].Exportable = false
	m.sections[1].ranks[0].Cursor.Incarnation.Start = cursor.Start{Known: true}
	r := newRig(t, m)
	live, err := r.client.Cursors(t.Context(), r.peer)
	if err != nil {
		t.Fatal(err)
	}
	body, err := r.client.Fetch(t.Context(), r.peer, m.wantAll())
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	for _, table := range []*Table{live, body.Table()} {
		if len(table.Rows) != len(m.sections[0].ranks)+len(m.sections[1].ranks) || table.Format != 2 || !table.Ready {
			t.Fatalf("got %+v", table)
		}
		for _, row := range table.Rows {
			want := m.section(row.Section).find(index.Rank{Worker: row.Worker.PodUID, DP: row.DP}).row()
			if row.Cursor != want.Cursor || row.SeededFrom != want.SeededFrom || row.Digest != want.Digest || row.Blocks != want.Blocks || row.Exportable != want.Exportable {
				t.Errorf("got %+v, want %+v", row.Row, want)
			}
		}
	}
	if live.Builds != 0 {
		t.Errorf("%d builds at rest", live.Builds)
	}
}

func TestABusyTeacherSaysSo(t *testing.T) {
	m := fleetSource(t, 2, 10)
	r := newRig(t, m)
	body, err := r.client.Fetch(t.Context(), r.peer, m.wantAll())
	if err != nil {
		t.Fatal(err)
	}
	r.handler.busy.Add(3)
	table, err := r.client.Cursors(t.Context(), r.peer)
	if err != nil || table.Builds < 3 {
		t.Errorf("got %+v, %v, want 3 builds", table, err)
	}
	r.handler.busy.Add(-3)
	_ = body.Close()
}

func TestAnOldProducerAnswersCursorsOnlyWithAFullBody(t *testing.T) {
	m := warmSGLang(t)
	raw := encode1(t, m)
	client, peer := upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(raw) })
	table, err := client.Cursors(t.Context(), peer)
	if err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 2 || table.Rows[1].Cursor.Seq != 22 || table.Complete {
		t.Errorf("got %+v", table)
	}
	empty := warmSGLang(t)
	_, raw = newRig(t, empty).get(t, "?cursors_only=true")
	if table, err = client.Cursors(t.Context(), peer); err != nil || len(table.Rows) != 2 || !table.Complete || len(table.Empty) != 1 {
		t.Errorf("cursors alone: got %+v, %v", table, err)
	}
}

func TestAnAnswerWithoutABodyIsTold(t *testing.T) {
	for status, body := range map[int]string{404: `{"error":"no tree"}`, 503: `{"error":{"code":"busy"}}`, 500: "", 302: "", 401: "x", 204: ""} {
		client, peer := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
		for _, up := range []bool{true, false} {
			peer.Upstream = up
			_, err := client.Fetch(t.Context(), peer, ours(t))
			if no, ok := errors.AsType[*NoBody](err); !ok || no.Status != status || no.RetryAfter != 2*time.Second {
				t.Errorf("status %d: got %v: redirects are not followed, refusals are told", status, err)
			}
		}
		peer.Upstream = false
		if _, err := client.Cursors(t.Context(), peer); err == nil {
			t.Errorf("status %d is taken for cursors", status)
		}
	}
}

func TestABodyThatIsNotSignedByTheFleetTeachesNothing(t *testing.T) {
	m := fleetSource(t, 3, 100)
	stranger := signed.NewKey([]byte("a-stranger-with-a-key"))
	for name, sign := range map[string]func(sig string, d digest) string{
		"not at all":         func(string, digest) string { return "" },
		"by a stranger":      func(sig string, d digest) string { return signed.SignDigest(sig, 200, d, stranger) },
		"for another status": func(sig string, d digest) string { return signed.SignDigest(sig, 206, d, testKey) },
		"another body":       func(sig string, _ digest) string { return signed.SignDigest(sig, 200, digest{}, testKey) },
	} {
		b, err := produce(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		client, peer := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", MediaType)
			_ = b.write(w, func(d digest) string { return sign(r.Header.Get(signed.Header), d) })
		})
		peer.Upstream = false
		if body, err := client.Fetch(t.Context(), peer, m.wantAll()); ReasonOf(err) != Unauthentic || body != nil {
			t.Errorf("%s: got %v: not even a table may come of it", name, err)
		}
	}
	r := newRig(t, m)
	client := NewClient(ClientOptions{Keys: func() []signed.Key { return []signed.Key{stranger, testKey} }, Transport: r.client.opts.Transport})
	if body, err := client.Fetch(t.Context(), r.peer, m.wantAll()); err != nil {
		t.Errorf("in a rotation the second key is tried: %v", err)
	} else if _, err := drain(body); err != io.EOF {
		t.Errorf("drain: %v", err)
	}
	client = NewClient(ClientOptions{Transport: r.client.opts.Transport})
	if _, err := client.Fetch(t.Context(), r.peer, m.wantAll()); !errors.Is(err, signed.ErrNoKeys) {
		t.Errorf("without a key: %v", err)
	}
}

func TestASignatureInTheMiddleIsCheckedBeforeItsSectionIsGiven(t *testing.T) {
	m := fleetSource(t, 3, 100)
	b, err := produce(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	for good := 1; good <= len(b.digests); good++ {
		n := 0
		client, peer := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", MediaType)
			_ = b.write(w, func(d digest) string {
				if n++; n > good {
					return ""
				}
				return signed.SignDigest(r.Header.Get(signed.Header), 200, d, testKey)
			})
		})
		peer.Upstream = false
		body, err := client.Fetch(t.Context(), peer, m.wantAll())
		if err != nil {
			t.Fatal(err)
		}
		sections := 0
		for {
			v, nextErr := body.Next(t.Context())
			if err = nextErr; err != nil {
				break
			}
			g := &graft{ranks: v.Ranks(), index: index.New(index.Options{}), names: map[index.Rank]map[uint64]HashRow{}, orphans: map[index.Rank][]OrphanRow{}}
			if err = g.from(v); err != nil {
				break
			}
			sections++
		}
		_ = body.Close()
		if whole := good == len(b.digests); whole != (err == io.EOF) || !whole && ReasonOf(err) != Unauthentic || sections != min(good-1, 2) {
			t.Errorf("%d good signatures: %d sections, then %v", good, sections, err)
		}
	}
}

func TestAFetchEndsWhenThePeerFallsSilent(t *testing.T) {
	m := fleetSource(t, 3, 100)
	b, err := produce(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	for name, bytesFirst := range map[string]int{"before the headers": 0, "in the table": 50, "among the chunks": len(b.table) + 300} {
		release := make(chan struct{})
		client, peer := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			if bytesFirst > 0 {
				var raw bytes.Buffer
				_ = b.write(&raw, func(d digest) string { return signed.SignDigest(r.Header.Get(signed.Header), 200, d, testKey) })
				w.Header().Set("Content-Type", MediaType)
				_, _ = w.Write(raw.Bytes()[:bytesFirst])
				w.(http.Flusher).Flush()
			}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		})
		peer.Upstream = false
		client.opts.IdleTimeout = 50 * time.Millisecond
		body, err := client.Fetch(t.Context(), peer, m.wantAll())
		if err == nil {
			_, err = drain(body)
			_ = body.Close()
		}
		if !errors.Is(err, ErrIdle) {
			t.Errorf("%s: got %v", name, err)
		}
		close(release)
	}
}

func TestAFetchEndsWithItsContext(t *testing.T) {
	m := fleetSource(t, 3, 1500)
	r := newRig(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	body, err := r.client.Fetch(t.Context(), r.peer, m.wantAll())
	if err != nil {
		t.Fatal(err)
	}
	v, err := body.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := v.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the next chunk: %v", err)
	}
	if _, err := v.Next(t.Context()); err == nil || err == io.EOF {
		t.Errorf("after that: %v: the body is over", err)
	}
	if err := body.Close(); err != nil {
		t.Error(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.client.Fetch(cancelled, r.peer, m.wantAll()); !errors.Is(err, context.Canceled) {
		t.Errorf("a fetch that is over before it begins: %v", err)
	}
}

func TestADeclaredLengthIsCheckedFirst(t *testing.T) {
	client, peer := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5000000000")
		w.WriteHeader(200)
	})
	if _, err := client.Fetch(t.Context(), peer, ours(t)); ReasonOf(err) != Malformed {
		t.Errorf("got %v", err)
	}
}

func TestColdSiblingIsRejectedAsASource(t *testing.T) {
	m := fleetSource(t, 3, 30)
	m.ready = false
	r := newRig(t, m)
	body, err := r.client.Fetch(t.Context(), r.peer, m.wantAll())
	if ReasonOf(err) != ProducerCold || body.Table() == nil || body.Table().Cold() {
		t.Fatalf("got %v", err)
	}
	if _, err := body.Next(t.Context()); err == nil {
		t.Error("a body that was rejected gives sections")
	}
	_ = body.Close()
}

func TestNewReplicaViewMatchesWarmReplicaOverHTTP(t *testing.T) {
	m := warmSGLang(t)
	s := m.sections[0]
	chains := fixtureTree(s)
	for _, how := range []string{"format 2", "identity", "gzip"} {
		var client *Client
		var peer Peer
		if how == "format 2" {
			r := newRig(t, m)
			client, peer = r.client, r.peer
		} else {
			raw := encode1(t, m)
			client, peer = upstream(t, func(w http.ResponseWriter, _ *http.Request) {
				body := raw
				if how == "gzip" {
					w.Header().Set("Content-Encoding", "gzip")
					body = zipped(t, raw)
				}
				_, _ = w.Write(body)
			})
		}
		body, err := client.Fetch(t.Context(), peer, m.wantAll())
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		g := restoreAll(t, body)[0]
		_ = body.Close()
		var a, b index.Result
		for i, chain := range chains {
			for _, mode := range []index.Mode{index.Deepest, index.Contiguous} {
				s.index.Match(chain, mode, index.DefaultWeights, &a)
				g.index.Match(chain, mode, index.DefaultWeights, &b)
				for _, rank := range s.ids() {
					d1, c1 := a.Of(rank)
					if d2, c2 := b.Of(rank); d1 != d2 || c1 != c2 {
						t.Fatalf("%s: chain %d, %v: depth %d and credit %d, want %d and %d", how, i, rank, d2, c2, d1, c1)
					}
				}
			}
		}
	}
}

// fixtureTree has shared prefixes, divergent tails, a chain of one block, mixed tiers and 64 sibling roots, and gives more
// than 200 chains to ask for.
func fixtureTree(s *memorySection) (ask [][]index.Key) {
	key := func(parts ...int) (k index.Key) {
		for _, p := range parts {
			k = (k + index.Key(p) + 1) * 0x9e3779b97f4a7c15
		}
		return k
	}
	for root := range 64 {
		for tail := range 4 {
			chain := []index.Key{key(root)}
			for depth := range root % 7 {
				chain = append(chain, key(root, depth))
			}
			for depth := range tail * 2 {
				chain = append(chain, key(root, tail, depth, 1))
			}
			r := s.ranks[(root+tail)%len(s.ranks)]
			r.Cursor.Proof = cursor.Proven
			r.store(s, index.Root, chain, index.Tier(1)<<(tail%4))
			ask = append(ask, chain, append(chain[:len(chain):len(chain)], key(9999)), chain[:1])
		}
	}
	return ask
}

// A few kilobytes that are here already may inflate to millions: nobody waits for them once the question is over.
func TestWhatIsInflatedEndsWithTheQuestion(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(bytes.Repeat([]byte("0,"), 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp := &http.Response{Request: req, Header: http.Header{"Content-Encoding": {"gzip"}}}
	text, err := inflated(resp, &zipped)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := text.Read(make([]byte, 100)); n == 0 || err != nil {
		t.Fatalf("got %d, %v", n, err)
	}
	cancel()
	if n, err := text.Read(make([]byte, 100)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %d bytes, %v", n, err)
	}
}
