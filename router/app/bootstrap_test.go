package app

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/ingest"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

const peerToken = "0123456789abcdef0123456789abcdef"

// tokenDir is a mounted Secret of a fleet.
func tokenDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, signed.FilePeer), []byte(peerToken), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPeerSettingsThatMakeNoSenseAreAllNamed(t *testing.T) {
	err := Options{Worker: []string{"http://x"}, PeerOptions: PeerOptions{
		KVPeerSelector: "((", KVUpstreamPeerSelector: "a=b", KVPeer: []string{"nonsense"},
		KVBootstrapTimeoutMS: 600_001, KVBootstrapFetchTimeoutCapMS: 29_999,
	}}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{`--kv-peer-selector "(("`, "--kv-upstream-peer-selector needs POD_NAMESPACE", `--kv-peer: peer "nonsense"`,
		"--kv-bootstrap-timeout-ms 600001", "--kv-bootstrap-fetch-timeout-cap-ms 29999", "need --token-dir"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not mention %q:\n%v", part, err)
		}
	}
	for _, p := range []string{policy.NameRoundRobin, policy.NamePowerOfTwo} {
		err := Options{Worker: []string{"http://x"}, Policy: p, TokenDir: "x", PeerOptions: PeerOptions{KVPeer: []string{"http://y:1"}}}.Validate()
		if err == nil || !strings.Contains(err.Error(), "there is nothing to copy") {
			t.Errorf("%s with peers: %v", p, err)
		}
	}
	good := Options{Worker: []string{"http://x"}, TokenDir: "x", PeerOptions: PeerOptions{
		KVPeerSelector: "kubernetes.io/service-name=fleet-peers", PodNamespace: "ns", KVBootstrapTimeoutMS: 1, KVBootstrapFetchTimeoutCapMS: 30_000,
	}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

func TestKVPeerSeriesFollowTheLocalTree(t *testing.T) {
	has := func(o Options) bool {
		o.Worker = []string{"http://127.0.0.1:1"}
		a, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		families, err := a.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "routerfleet_kv_bootstrap_peers" {
				return true
			}
		}
		return false
	}
	if has(Options{}) || has(Options{Policy: policy.NameRoundRobin}) {
		t.Error("a replica that asks nobody has series of siblings")
	}
	if !has(Options{TokenDir: tokenDir(t), PeerOptions: PeerOptions{KVPeer: []string{"http://127.0.0.1:1"}}}) {
		t.Error("a replica that asks has none")
	}
}

func TestSiblingsAreLookedForBeforeEnginesAndTeachingEndsLast(t *testing.T) {
	a, err := New(Options{Worker: []string{"http://127.0.0.1:1"}, TokenDir: tokenDir(t), PeerOptions: PeerOptions{KVPeer: []string{"http://127.0.0.1:1"}}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range a.parts() {
		names = append(names, p.name)
	}
	at := func(name string) int { return slices.Index(names, name) }
	if at("snapshots") != 0 || at("admin listener") != 1 || at("bootstrap") < 0 || at("bootstrap") < at("pump") || at("bootstrap") > at("workers") {
		t.Errorf("start order %q", names)
	}
}

func (r *running) awaitLatch() {
	r.t.Helper()
	for !r.ready.Load() {
		_, _ = r.get("/healthz")
	}
}

func TestABootIsOverAtOnceWhereNoEnginePublishes(t *testing.T) {
	e := engine(t)
	r := start(t, Options{
		Worker: []string{"a=" + e.URL}, TokenDir: tokenDir(t),
		PeerOptions: PeerOptions{KVPeer: []string{"http://127.0.0.1:1"}, KVBootstrapTimeoutMS: 600_000, KVBootstrapSeedRequired: true},
	})
	defer r.stop()
	r.awaitLatch() // long before the budget is spent
	s := r.status()
	if s.State != status.StateSettled || s.Verdict != status.VerdictColdTimedOut || !slices.Equal(s.SnapshotFormats, []int{2, 1}) || s.Error != "" {
		t.Errorf("got %+v", s)
	}
}

func TestTheDetailsOfRanksAreThereWhenAskedFor(t *testing.T) {
	dir := tokenDir(t)
	if err := os.WriteFile(filepath.Join(dir, signed.FileView), []byte("view-token-of-this-test-0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, Options{Worker: []string{"http://127.0.0.1:1"}, TokenDir: dir})
	defer r.stop()
	if err := r.events.pump.Register(t.Context(), ingest.Registration{
		Rank: index.Rank{Worker: "w", DP: 3}, Worker: "w", Section: ingest.SectionKey{Model: "m", Scheme: index.SchemeSGLang, BlockSize: 4}, Link: silentLink{},
	}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{"": 0, "?detail=ranks": 1, "?detail=other": 0} {
		_, admin := r.Addrs()
		req, err := http.NewRequest(http.MethodGet, "http://"+admin.String()+"/internal/bootstrap"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer view-token-of-this-test-0123456789")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		s, err := status.Decode(resp.Body)
		resp.Body.Close()
		if err != nil || len(s.RankRows) != want || want > 0 && (s.RankRows[0].Rank != 3 || !slices.Contains(s.RankRows[0].Flags, "pending")) {
			t.Errorf("%q: %+v, %v", query, s.RankRows, err)
		}
	}
}

func TestReadinessSaysWhatTheBootWaitsFor(t *testing.T) {
	e := engine(t)
	r := start(t, Options{
		Worker: []string{"a=" + e.URL, "gone=http://127.0.0.1:1"}, TokenDir: tokenDir(t),
		PeerOptions: PeerOptions{KVPeer: []string{"http://127.0.0.1:1"}, KVBootstrapTimeoutMS: 600_000},
	})
	defer r.stop()
	r.awaitReady() // of the engines alone
	for {          // one engine tells no model, which is waited for a moment
		code, text := r.get("/readyz")
		if code == 200 {
			break
		}
		if !strings.Contains(text, "copied from siblings") && !strings.Contains(text, "usable worker") {
			t.Fatalf("got %q", text)
		}
	}
}

func TestSnapshotsAreForReplicasThatSign(t *testing.T) {
	r := start(t, Options{Worker: []string{"http://127.0.0.1:1"}, TokenDir: tokenDir(t)})
	defer r.stop()
	if code, _ := r.get(snapshot.Path + "?cursors_only=true"); code != 401 {
		t.Errorf("a stranger gets %d", code)
	}
	base := &http.Transport{DisableCompression: true}
	defer base.CloseIdleConnections()
	client := snapshot.NewClient(snapshot.ClientOptions{Transport: base, Keys: func() []signed.Key { return []signed.Key{signed.NewKey([]byte(peerToken))} }})
	_, admin := r.Addrs()
	table, err := client.Cursors(t.Context(), snapshot.Peer{Name: "r", URL: "http://" + admin.String()})
	if err != nil || table.Format != 2 || table.Ready || len(table.Rows) != 0 {
		t.Errorf("got %+v, %v", table, err)
	}
}

func TestARouterWithoutAnIndexTeachesNobody(t *testing.T) {
	r := start(t, Options{Worker: []string{"http://127.0.0.1:1"}, TokenDir: tokenDir(t), Policy: policy.NameRoundRobin})
	defer r.stop()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := http.Client{Transport: &signed.Transport{Base: base, Keys: func() []signed.Key { return []signed.Key{signed.NewKey([]byte(peerToken))} }}}
	_, admin := r.Addrs()
	resp, err := client.Get("http://" + admin.String() + snapshot.Path)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 404 {
		t.Errorf("got %d, want 404", resp.StatusCode)
	}
}

// A sibling that copies from a replica that leaves may be the last that can.
func TestAReplicaThatLeavesFinishesItsLessons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sharing{}
		s.lessons.Add(1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.idle(t.Context())
		}()
		time.Sleep(10 * time.Second)
		select {
		case <-ended:
			t.Fatal("it did not wait")
		default:
		}
		s.lessons.Add(-1)
		<-ended
		s.lessons.Add(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.idle(ctx) // ends with its budget
	})
}
