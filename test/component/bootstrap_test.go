package component

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/app"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/snapshot"
	"github.com/routerfleet/routerfleet/test/enginesim/publish"
)

// bootPrompts are enough that a view which matches cannot match by chance: 8 blocks each.
const bootPrompts = 220

// mute engines repeat nothing: a replica that starts late knows of what was before from nobody but a sibling.
func mute(f *kvFleet) { f.tells = func(_ int, o *publish.Options) { o.Ports.Replay = 0 } }

// sharing is a fleet whose routers may copy from each other.
type sharingFleet struct {
	*kvFleet
	seed string
}

func newSharingFleet(t *testing.T, kind kvKind, engines int, change ...func(*kvFleet)) *sharingFleet {
	t.Helper()
	f := &sharingFleet{kvFleet: newKVFleet(t, kind, engines, 10_000, change...)}
	f.seed = filepath.Join(t.TempDir(), "hash-seed")
	if err := os.WriteFile(f.seed, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *sharingFleet) options(peers ...string) app.Options {
	o := f.kvFleet.options()
	o.HashSeedFile, o.KVPeer, o.PodUID = f.seed, peers, fmt.Sprint("pod-", kvHosts.Add(1))
	return o
}

// warm starts a router and has the engines cache so many prompts through it.
func (f *sharingFleet) warm(prompts int) *kvRouter {
	f.t.Helper()
	r := f.router(f.options(), 0)
	for p := range prompts {
		r.ask(kvBody(1 + p))
	}
	r.caughtUp()
	return r
}

// late starts a router beside others, ready or not.
func (f *sharingFleet) late(o app.Options) *kvRouter {
	f.t.Helper()
	var urls []string
	for _, e := range f.engines {
		urls = append(urls, e.URL)
	}
	return &kvRouter{router: bootRouter(f.t, o, urls...), fleet: f.kvFleet}
}

func (r *kvRouter) awaitReady() {
	r.t.Helper()
	eventually(r.t, "the router is ready", func() bool { return r.readyz() == 200 })
}

// matches compares the views of two routers by what they would decide, and by how deep each engine is known.
func (r *kvRouter) matches(other *kvRouter, prompts int) {
	r.t.Helper()
	for p := range prompts {
		got, want := r.explain(kvBody(1+p, 7)), other.explain(kvBody(1+p, 7))
		depths := func(t *kvRouter, c int) string {
			row := want.Candidates[c]
			if t == r {
				row = got.Candidates[c]
			}
			return fmt.Sprint(row.Worker, row.MatchedBlocks)
		}
		for c := range want.Candidates {
			if depths(r, c) != depths(other, c) {
				r.t.Fatalf("prompt %d, candidate %d: %s here, %s there", p, c, depths(r, c), depths(other, c))
			}
		}
		if want.Candidates[0].MatchedBlocks != kvPrompt/kvPage {
			r.t.Fatalf("prompt %d: the warm router itself knows %d blocks", p, want.Candidates[0].MatchedBlocks)
		}
	}
}

func warmed(s status.Status) bool {
	return s.Verdict == status.VerdictWarm || s.Verdict == status.VerdictWarmUnwitnessed
}

func TestNewReplicaViewMatchesWarmReplicaOverHTTP(t *testing.T) {
	for _, kind := range kvKinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := newSharingFleet(t, kind, 3)
			first := f.warm(bootPrompts)
			second := f.late(f.options(first.admin))
			second.awaitReady()
			second.matches(first, bootPrompts)
			if got := second.metric(`routerfleet_kv_peer_snapshot_total{outcome="accepted"}`); got < 1 || got > 3 {
				t.Errorf("%v transfers for three ranks", got) // those whose connection stood later have one of their own
			}
			second.wantSum("routerfleet_kv_origins_total", 0) // the engines repeat, and were not asked to
			eventually(t, "the verdict is warm", func() bool { return warmed(second.bootstrap()) })
			if s := second.bootstrap(); !s.Seedable || *s.Coverage.Percent != 100 || s.SeededFrom == "" || s.Peers.Warm != 1 {
				t.Errorf("got %+v, coverage %+v", s, s.Coverage)
			}
			for p := range 6 { // and it follows what comes
				first.ask(kvBody(231 + p))
			}
			first.caughtUp()
			second.caughtUp()
			second.matches(first, bootPrompts/10)
			third := f.late(f.options(second.admin)) // what was copied can be taught
			third.awaitReady()
			third.matches(first, bootPrompts/10)
		})
	}
}

// Whom nobody can teach serves all the same, and says so.
func TestAReplicaThatFindsNobodyIsReadyAndCold(t *testing.T) {
	f := newSharingFleet(t, kvKinds[0], 2, mute)
	first := f.router(f.options(), 0)
	for p := range 4 {
		first.ask(kvBody(1 + p))
	}
	o := f.options("http://127.0.0.1:1")
	o.KVBootstrapTimeoutMS = 1000
	alone := f.late(o)
	alone.awaitReady()
	if s := alone.bootstrap(); s.Verdict != status.VerdictColdTimedOut || s.PeersAsked[0].Answer != "unreachable" {
		t.Errorf("got %+v", s)
	}
	eventually(t, "its ranks are cold", func() bool { return alone.bootstrap().Ranks.Cold == 2 })
	if cached := alone.ask(kvBody(1)); cached != 0 && cached != kvReusable {
		t.Errorf("got %d", cached)
	}
}

// Two that do not share a seed have keys that mean nothing to each other.
func TestASectionUnderAnotherSeedIsNotTaken(t *testing.T) {
	f := newSharingFleet(t, kvKinds[2], 1)
	first := f.warm(4)
	o := f.options(first.admin)
	o.HashSeedFile, o.KVBootstrapTimeoutMS = "", 3000
	second := f.late(o)
	second.awaitReady()
	if got := second.metric(`routerfleet_kv_peer_snapshot_total{outcome="accepted"}`); got != 0 {
		t.Errorf("%v transfers under another seed", got)
	}
	if s := second.bootstrap(); s.SeededFrom != "" {
		t.Errorf("seeded from %s", s.SeededFrom)
	}
}

// valve is a TCP proxy that lets so many bytes of each answer through, or holds them.
type valve struct {
	net.Listener
	target string
	limit  atomic.Int64 // of one connection; negative: none
	cut    atomic.Int64 // connections that met it
	gate   atomic.Pointer[chan struct{}]
	wg     sync.WaitGroup
	mu     sync.Mutex
	open   map[net.Conn]bool
}

func newValve(t *testing.T, target string) *valve {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &valve{Listener: l, target: strings.TrimPrefix(target, "http://"), open: map[net.Conn]bool{}}
	v.limit.Store(-1)
	v.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			v.wg.Go(func() { v.pass(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		v.mu.Lock()
		for c := range v.open {
			c.Close()
		}
		v.mu.Unlock()
		v.wg.Wait()
	})
	return v
}

func (v *valve) url() string { return "http://" + v.Addr().String() }

func (v *valve) keep(c net.Conn) (done func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open[c] = true
	return func() {
		c.Close()
		v.mu.Lock()
		delete(v.open, c)
		v.mu.Unlock()
	}
}

func (v *valve) pass(c net.Conn) {
	defer v.keep(c)()
	up, err := net.Dial("tcp", v.target)
	if err != nil {
		return
	}
	defer v.keep(up)()
	v.wg.Go(func() {
		_, _ = io.Copy(up, c) // ends with either side
		up.Close()
	})
	buf, sent := make([]byte, 4096), int64(0)
	for {
		n, err := up.Read(buf)
		if gate := v.gate.Load(); gate != nil {
			<-*gate
		}
		if limit := v.limit.Load(); limit >= 0 && sent+int64(n) > limit {
			v.cut.Add(1)
			return
		}
		sent += int64(n)
		if _, werr := c.Write(buf[:n]); werr != nil || err != nil {
			return
		}
	}
}

func TestASiblingKilledInTheMiddleOfATransferLeavesNothingBehind(t *testing.T) {
	f := newSharingFleet(t, kvKinds[0], 2)
	first := f.warm(bootPrompts)
	v := newValve(t, first.admin)
	v.limit.Store(6000) // cursors pass, a body does not
	second := f.late(f.options(v.url()))
	eventually(t, "a transfer was cut", func() bool {
		return second.metric(`routerfleet_kv_peer_snapshot_total{outcome="unreachable"}`) >= 1
	})
	for i := range f.engines {
		if got := second.metric(fmt.Sprintf(`routerfleet_kv_blocks{tier="device",worker=%q}`, workerOf(i))); got != 0 {
			t.Errorf("engine %s has %v blocks of half a body", workerOf(i), got)
		}
	}
	if second.readyz() == 200 {
		t.Error("ready although a sibling is there to copy from")
	}
	v.limit.Store(-1)
	second.awaitReady()
	second.matches(first, bootPrompts)
}

// An engine that restarts while its blocks are on their way has lost them, whatever arrives.
func TestAnEngineRestartedDuringABootstrapKeepsNoOldBlocks(t *testing.T) {
	f := newSharingFleet(t, kvKinds[0], 2)
	first := f.warm(40)
	v := newValve(t, first.admin)
	second := f.late(f.options(v.url()))
	gate := make(chan struct{})
	v.gate.Store(&gate)
	eventually(t, "the engines are connected", func() bool {
		return second.metric(`routerfleet_kv_ranks_flagged{flag="connected"}`) == 2
	})
	fault(t, f.engines[0].Server, `{"name":"restart","cut":true}`)
	eventually(t, "the warm router knows of the restart", func() bool {
		return first.metric(`routerfleet_kv_blocks{tier="device",worker="a"}`) == 0
	})
	v.gate.Store(nil)
	close(gate)
	for p := range 4 { // the engine's new life has something to say
		first.ask(kvBody(231 + p))
	}
	first.caughtUp()
	second.awaitReady()
	second.caughtUp()
	for p := range 40 {
		if a, b := first.owner(kvBody(1+p)), second.owner(kvBody(1+p)); a != b {
			t.Errorf("prompt %d is held by %q there, by %q here", p, a, b)
		}
	}
}

func TestAReadinessFlapDuringABootstrapForgetsNothing(t *testing.T) {
	f := newSharingFleet(t, kvKinds[0], 2)
	first := f.warm(40)
	v := newValve(t, first.admin)
	gate := make(chan struct{})
	v.gate.Store(&gate)
	second := f.late(f.options(v.url()))
	eventually(t, "the engines are connected", func() bool {
		return second.metric(`routerfleet_kv_ranks_flagged{flag="connected"}`) == 2
	})
	fault(t, f.engines[0].Server, `{"name":"health_fail"}`)
	eventually(t, "the engine is out of rotation", func() bool { return second.metric(`routerfleet_workers{state="in_rotation"}`) == 1 })
	v.gate.Store(nil)
	close(gate)
	eventually(t, "its blocks were copied", func() bool {
		return second.metric(`routerfleet_kv_blocks{tier="device",worker="a"}`) == float64(f.engines[0].held(t))
	})
	clearFaults(t, f.engines[0])
	eventually(t, "the engine is back", func() bool { return second.metric(`routerfleet_workers{state="in_rotation"}`) == 2 })
	second.awaitReady()
	second.matches(first, 40)
}

// upstream looks like a router of the open stack to who asks it: format 1, without credentials, with gzip or without.
type upstream struct {
	*httptest.Server
	asked atomic.Int64
	// arrived has a value for every question; answers wait for release.
	arrived, release chan struct{}
}

func newUpstream(t *testing.T, warm *kvRouter, zipped bool) *upstream {
	t.Helper()
	u := &upstream{arrived: make(chan struct{}, 100), release: make(chan struct{})}
	key := signed.NewKey([]byte("peer-token-of-the-component-tests"))
	client := http.Client{Transport: &http.Transport{DisableCompression: true}}
	target, err := url.Parse(warm.admin)
	if err != nil {
		t.Fatal(err)
	}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != snapshot.Path || r.Header.Get(signed.Header) != "" || r.Header.Get("Authorization") != "" {
			http.Error(w, "credentials for a stranger", http.StatusBadRequest)
			return
		}
		u.asked.Add(1)
		u.arrived <- struct{}{}
		select {
		case <-u.release:
		case <-r.Context().Done():
			return
		}
		there := *target
		there.Path, there.RawQuery = r.URL.Path, r.URL.RawQuery
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, there.String(), nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		signed.Sign(req, nil, key, time.Now())
		resp, err := client.Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", "application/json")
		out := io.Writer(w)
		if zipped {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			out = z
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(out, resp.Body)
	}))
	t.Cleanup(func() { u.Close(); client.CloseIdleConnections() })
	return u
}

func TestNewReplicaViewMatchesAnUpstreamRouterInFormat1(t *testing.T) {
	for _, zipped := range []bool{false, true} {
		t.Run(fmt.Sprint("gzip=", zipped), func(t *testing.T) {
			f := newSharingFleet(t, kvKinds[0], 2)
			first := f.warm(bootPrompts)
			u := newUpstream(t, first, zipped)
			o := f.options()
			o.KVUpstreamPeer = []string{u.URL}
			second := f.late(o)
			<-u.arrived
			holds := func(worker string) bool { return second.metric(`routerfleet_kv_held_batches{worker="`+worker+`"}`) > 0 }
			p := 0
			eventually(t, "batches of both engines are held", func() bool { // or a cursor without times is not believed
				if p < 30 && !(holds("a") && holds("b")) { // a subscription that stands may not deliver yet
					first.ask(kvBody(225 + p))
					p++
				}
				return holds("a") && holds("b")
			})
			first.caughtUp()
			close(u.release)
			second.awaitReady()
			second.matches(first, bootPrompts)
			s := second.bootstrap()
			if s.Verdict != status.VerdictWarmUnwitnessed || s.Ranks.Unwitnessed != 2 || u.asked.Load() != 1 {
				t.Errorf("asked %d times, got %+v", u.asked.Load(), s)
			}
		})
	}
}

// A sibling of an image without the route, and a warm one: mixed versions cost nothing but a question.
func TestASiblingWithoutSnapshotsIsPassedOver(t *testing.T) {
	f := newSharingFleet(t, kvKinds[0], 2)
	first := f.warm(20)
	old := httptest.NewServer(http.NotFoundHandler())
	defer old.Close()
	second := f.late(f.options(old.URL, first.admin))
	second.awaitReady()
	second.matches(first, 20)
	for _, a := range second.bootstrap().PeersAsked {
		if old := a.Name == strings.TrimPrefix(old.URL, "http://"); old == (a.Answer == "warm") {
			t.Errorf("%s is %s", a.Name, a.Answer)
		}
	}
}
