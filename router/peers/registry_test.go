package peers

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/routerfleet/routerfleet/internal/slicewatch/slicewatchtest"
)

func peer(id string) Peer { return Peer{ID: id, UID: id, URL: "http://" + id} }

func ids(list []Peer) (out []string) {
	for _, p := range list {
		out = append(out, p.ID)
	}
	return out
}

func TestASyncedEmptySetWithNoHistoryMeansNoSiblings(t *testing.T) {
	r := NewRegistry(nil, true, nil)
	if r.Set().Alone() {
		t.Fatal("a replica that was told nothing believes to be alone")
	}
	r.Replace(nil)
	if !r.Set().Alone() {
		t.Fatal("a complete empty set was told, and the replica does not believe to be alone")
	}
}

func TestTransientEmptyPeerSetIsNotConclusive(t *testing.T) {
	r := NewRegistry(nil, true, nil)
	r.Replace([]Peer{peer("a")})
	r.Replace(nil)
	if s := r.Set(); s.Alone() || !s.EverHad || !s.Synced {
		t.Fatalf("got %+v after a set that was empty for a moment", s)
	}
	leaving := NewRegistry(nil, true, nil)
	leaving.Replace([]Peer{{ID: "a", Terminating: true}})
	if leaving.Set().Alone() {
		t.Fatal("a terminating sibling did not count")
	}
}

func TestPeerRegistryShufflesWithoutLosingEntries(t *testing.T) {
	r := NewRegistry(nil, true, nil)
	var all []Peer
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		all = append(all, peer(id))
	}
	last := Peer{ID: "z", Terminating: true}
	r.Replace(append([]Peer{last}, all...))
	orders := map[string]bool{}
	for range 50 {
		got := ids(r.Set().Candidates(Shuffle))
		orders[strings.Join(got, "")] = true
		if got[5] != "z" {
			t.Fatalf("the terminating peer is not the last to be asked: %v", got)
		}
		slices.Sort(got)
		if !slices.Equal(got, []string{"a", "b", "c", "d", "e", "z"}) {
			t.Fatalf("peers were lost: %v", got)
		}
	}
	if len(orders) < 2 {
		t.Fatal("50 shuffles gave one order")
	}
}

func TestPeersThatWereNamedAreThereAtOnceAndStay(t *testing.T) {
	r := NewRegistry([]Peer{peer("named")}, false, nil)
	if s := r.Set(); !s.Synced || !s.EverHad || len(s.Peers) != 1 {
		t.Fatalf("got %+v", s)
	}
	both := NewRegistry([]Peer{peer("named")}, true, nil)
	if both.Set().Synced {
		t.Fatal("synced before the watch told its set")
	}
	both.Replace([]Peer{peer("b")})
	both.Replace(nil)
	if got := ids(both.Set().Peers); !slices.Equal(got, []string{"named"}) {
		t.Fatalf("got %v", got)
	}
}

func TestWhoWaitsForAChangeHearsOfItOnce(t *testing.T) {
	r := NewRegistry(nil, true, nil)
	changed := r.Changed()
	r.Replace([]Peer{peer("a")})
	select {
	case <-changed:
	default:
		t.Fatal("a change was not told")
	}
	changed = r.Changed()
	r.Replace([]Peer{peer("a")})
	select {
	case <-changed:
		t.Fatal("the same set again was told as a change")
	default:
	}
}

func gauges(t *testing.T, r *Registry) (peers, synced float64) {
	t.Helper()
	reg := prometheus.NewRegistry()
	if err := r.Observe(reg); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil || len(families) != 2 {
		t.Fatalf("got %v, %v", families, err)
	}
	return families[0].Metric[0].Gauge.GetValue(), families[1].Metric[0].Gauge.GetValue()
}

func TestKVPeerSeriesDistinguishUnsyncedFromAlone(t *testing.T) {
	r := NewRegistry(nil, true, nil)
	for _, c := range []struct {
		name          string
		do            func()
		peers, synced float64
	}{
		{"not told", func() {}, 0, 0},
		{"alone", func() { r.Replace(nil) }, 0, 1},
		{"two", func() { r.Replace([]Peer{peer("a"), peer("b")}) }, 2, 1},
	} {
		c.do()
		if peers, synced := gauges(t, r); peers != c.peers || synced != c.synced {
			t.Errorf("%s: got %v %v, want %v %v", c.name, peers, synced, c.peers, c.synced)
		}
	}
}

// watching runs a watch over an API server inside a bubble.
func watching(t *testing.T, test func(t *testing.T, api *slicewatchtest.Server, r *Registry, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api, log := slicewatchtest.New(), &bytes.Buffer{}
		r := NewRegistry(nil, true, nil)
		w, err := NewWatch(WatchOptions{
			Client: api.Client(), Namespace: "ns", Selector: "app=router", Self: me,
			Log: slog.New(slog.NewTextHandler(log, nil)),
		}, r)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		defer func() {
			cancel()
			api.Cut()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		test(t, api, r, log)
	})
}

func after(d time.Duration) { time.Sleep(d); synctest.Wait() }

func TestPeerRelistDoesNotPublishAPartialSet(t *testing.T) {
	watching(t, func(t *testing.T, api *slicewatchtest.Server, r *Registry, _ *bytes.Buffer) {
		hold := make(chan struct{})
		api.Hold(hold)
		api.Put(v4(pod("a", "10.0.0.2")))
		api.Put(slice("more", discoveryv1.AddressTypeIPv4, pod("b", "10.0.0.3")))
		after(time.Second)
		if s := r.Set(); s.Synced || len(s.Peers) != 0 {
			t.Fatalf("in the middle of the list: got %+v", s)
		}
		close(hold)
		after(15 * time.Second)
		if s := r.Set(); !s.Synced || len(s.Peers) != 2 {
			t.Fatalf("after the list: got %+v", s)
		}
	})
}

func TestPeerRelistPublishesOnceComplete(t *testing.T) {
	watching(t, func(t *testing.T, api *slicewatchtest.Server, r *Registry, log *bytes.Buffer) {
		after(time.Second)
		if s := r.Set(); !s.Alone() {
			t.Fatalf("a complete empty list: got %+v", s)
		}
		if !strings.Contains(log.String(), "no EndpointSlice matches the peer selector") {
			t.Fatalf("a selector that matches nothing is not told: %s", log)
		}
	})
}

func TestPeerRelistReplacesRatherThanMerges(t *testing.T) {
	watching(t, func(t *testing.T, api *slicewatchtest.Server, r *Registry, _ *bytes.Buffer) {
		api.Put(v4(pod("a", "10.0.0.2")))
		api.Put(slice("more", discoveryv1.AddressTypeIPv4, pod("b", "10.0.0.3")))
		after(15 * time.Second)
		if got := len(r.Set().Peers); got != 2 {
			t.Fatalf("got %d peers at first", got)
		}
		api.Down(true)
		api.Cut()
		api.Drop("more")
		after(time.Minute)
		if s := r.Set(); len(s.Peers) != 2 || s.Trouble == nil {
			t.Fatalf("a watch that failed changed the set: %+v", s)
		}
		api.Cut()
		api.Down(false)
		after(20 * time.Second)
		if s := r.Set(); len(s.Peers) != 1 || s.Trouble != nil {
			t.Fatalf("after the new list: got %+v", s)
		}
	})
}

func TestAReplicaThatMayNotReadSlicesBacksOffAndIsNotAlone(t *testing.T) {
	watching(t, func(t *testing.T, api *slicewatchtest.Server, r *Registry, log *bytes.Buffer) {
		api.Deny(true)
		api.Cut()
		before := api.Requests()
		after(10 * time.Minute)
		if s := r.Set(); s.Alone() && s.Trouble == nil || s.Trouble == nil {
			t.Fatalf("got %+v", s)
		}
		if n := api.Requests() - before; n > 300 {
			t.Fatalf("%d requests in 10 minutes of 403", n)
		}
		if n := strings.Count(log.String(), "watch failed"); n > 4 {
			t.Fatalf("the same trouble was logged %d times", n)
		}
		api.Deny(false)
		api.Put(v4(pod("a", "10.0.0.2")))
		after(20 * time.Second)
		if s := r.Set(); len(s.Peers) != 1 || s.Trouble != nil {
			t.Fatalf("afterwards: got %+v", s)
		}
	})
}

func TestATerminatingSiblingStaysACandidate(t *testing.T) {
	watching(t, func(t *testing.T, api *slicewatchtest.Server, r *Registry, _ *bytes.Buffer) {
		api.Put(v4(pod("a", "10.0.0.2")))
		after(15 * time.Second)
		leaving := pod("a", "10.0.0.2")
		leaving.Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(false), Terminating: ptr.To(true)}
		api.Put(v4(leaving))
		after(time.Second)
		if s := r.Set(); len(s.Peers) != 1 || !s.Peers[0].Terminating {
			t.Fatalf("got %+v", s)
		}
	})
}

func TestAWatchWithoutNamespaceOrSelectorIsRefused(t *testing.T) {
	for _, o := range []WatchOptions{
		{}, {Client: slicewatchtest.New().Client(), Selector: "a=b"}, {Client: slicewatchtest.New().Client(), Namespace: "ns"},
		{Client: slicewatchtest.New().Client(), Namespace: "ns", Selector: "(("},
	} {
		if _, err := NewWatch(o, NewRegistry(nil, true, nil)); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
