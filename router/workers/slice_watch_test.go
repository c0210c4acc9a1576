package workers

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/routerfleet/routerfleet/internal/slicewatch/slicewatchtest"
	"github.com/routerfleet/routerfleet/router/models"
)

// cluster is an API server, its engines and a registry that follows both.
type cluster struct {
	*slicewatchtest.Server
	listOnly bool
	net      *engines
	reg      *prometheus.Registry
	log      *bytes.Buffer
	*Registry
}

func (c *cluster) pool(t *testing.T, when, want string) {
	t.Helper()
	synctest.Wait()
	if got := poolIDs(c.Registry, "demo-model"); got != want {
		t.Fatalf("%s: pool %q, want %q", when, got, want)
	}
}

// inCluster runs the test against a server with and without the streaming list.
func inCluster(t *testing.T, before func(*slicewatchtest.Server), test func(*testing.T, *cluster)) {
	t.Helper()
	inClusterWith(t, nil, before, test)
}

// inClusterWith is inCluster with a models file.
func inClusterWith(t *testing.T, set *models.Set, before func(*slicewatchtest.Server), test func(*testing.T, *cluster)) {
	t.Helper()
	for _, listOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("listOnly=%v", listOnly), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := slicewatchtest.New()
				api.ListOnly(listOnly)
				if before != nil {
					before(api)
				}
				net := &engines{}
				for i := range 10 {
					net.set(fmt.Sprintf("10.0.0.%d:8000", i), routes(map[string]string{"/v1/models": oneModel}))
				}
				c := &cluster{Server: api, listOnly: listOnly, net: net, reg: prometheus.NewRegistry(), log: &bytes.Buffer{}}
				var stop func()
				c.Registry, stop = start(t, Options{
					Slices:    &SliceSource{Client: api.Client(), Namespace: "ns", Selector: "app in (engine),!canary"},
					Models:    set,
					Transport: net, Metrics: c.reg, Log: slog.New(slog.NewTextHandler(c.log, nil)),
				})
				defer func() { api.Cut(); stop() }()
				test(t, c)
			})
		})
	}
}

func twoPods(s *slicewatchtest.Server) {
	s.Put(ipv4("engine-1", pod("a", "10.0.0.1"), pod("b", "10.0.0.2")))
}

// Case 1 (production-stack#1091), with the watch resumed where it was: the change is in the history.
func TestADeleteDuringABrokenWatchIsFoundOnResume(t *testing.T) {
	inCluster(t, twoPods, func(t *testing.T, c *cluster) {
		c.pool(t, "at first", "ns/a/0 ns/b/0")
		c.Down(true)
		c.Break()
		c.Put(ipv4("engine-1", pod("a", "10.0.0.1")))
		after(10 * time.Minute)
		c.pool(t, "while the API server is away", "ns/a/0 ns/b/0")
		c.Down(false)
		after(15 * time.Second) // the longest wait between two attempts
		c.pool(t, "afterwards", "ns/a/0")
	})
}

// Case 1 with the DELETED event lost for good: the server has compacted, the resume is a 410, and only a fresh list
// can tell. The whole slice is gone, so nothing but its absence speaks.
func TestADeleteLostInAWatchReconnectIsFoundByTheRelist(t *testing.T) {
	two := func(s *slicewatchtest.Server) {
		s.Put(ipv4("engine-1", pod("a", "10.0.0.1")))
		s.Put(ipv4("engine-2", pod("b", "10.0.0.2")))
	}
	inCluster(t, two, func(t *testing.T, c *cluster) {
		c.pool(t, "at first", "ns/a/0 ns/b/0")
		c.Down(true)
		c.Break()
		c.Drop("engine-2")
		c.Cut()
		c.Down(false)
		after(time.Minute)
		c.pool(t, "after the relist", "ns/a/0")
		if got := c.Snapshot().Counts(); got.Discovered != 1 {
			t.Fatalf("counts %+v", got)
		}
		if got := scrape(t, c.reg); !strings.Contains(got, "routerfleet_discovery_lists_total 2\n") {
			t.Fatalf("not one relist:\n%s", got)
		}
		after(DefaultForgetAfter)
		if got := scrape(t, c.reg); strings.Contains(got, `worker="ns/p-b"`) || !strings.Contains(got, `worker="ns/p-a"`) {
			t.Fatalf("series\n%s", got)
		}
	})
}

func TestAnEmptyRelistWithdrawsAndForgetsNothingForAMinute(t *testing.T) {
	inCluster(t, twoPods, func(t *testing.T, c *cluster) {
		c.pool(t, "at first", "ns/a/0 ns/b/0")
		rank, _ := c.Snapshot().Pool("demo-model")
		lease, _ := rank[0].Acquire(10)
		c.Drop("engine-1")
		c.Cut()
		after(50 * time.Second)
		c.pool(t, "empty", "")
		twoPods(c.Server)
		c.pool(t, "back", "ns/a/0 ns/b/0")
		back, _ := c.Snapshot().Pool("demo-model")
		if back[0].Load().Active != 1 {
			t.Fatal("the counters were lost")
		}
		lease.Done(Success)
	})
}

func TestNothingIsPublishedBeforeTheFirstListIsComplete(t *testing.T) {
	hold := make(chan struct{})
	var once sync.Once
	inCluster(t, func(s *slicewatchtest.Server) {
		hold, once = make(chan struct{}), sync.Once{}
		s.Hold(hold)
		s.Put(ipv4("engine-1", pod("a", "10.0.0.1")))
		s.Put(ipv4("engine-2", pod("b", "10.0.0.2")))
	}, func(t *testing.T, c *cluster) {
		release := func() { once.Do(func() { close(hold) }) }
		defer release()
		after(time.Second)
		if s := c.Snapshot(); s.Synced() || len(s.Workers()) != 0 {
			t.Fatalf("synced %v with %d workers in the middle of a list", s.Synced(), len(s.Workers()))
		}
		release()
		after(0)
		if !c.Snapshot().Synced() {
			t.Fatal("not synced after it")
		}
		c.pool(t, "after the list", "ns/a/0 ns/b/0")
	})
}

func TestAForbiddenWatchKeepsTheWorkersBacksOffAndIsSaidOnce(t *testing.T) {
	inCluster(t, twoPods, func(t *testing.T, c *cluster) {
		c.pool(t, "at first", "ns/a/0 ns/b/0")
		c.Deny(true)
		c.Cut()
		before := c.Requests()
		after(10 * time.Minute)
		c.pool(t, "while forbidden", "ns/a/0 ns/b/0")
		if n := c.Requests() - before; n < 30 || n > 250 {
			t.Errorf("%d requests in ten minutes of 403", n)
		}
		if n := strings.Count(c.log.String(), "discovery failed"); n == 0 || n > 4 { // per verb, on change
			t.Errorf("said %d times:\n%s", n, c.log.String())
		}
		if got := scrape(t, c.reg); !strings.Contains(got, `routerfleet_discovery_errors_total{code="403"`) {
			t.Errorf("not counted:\n%s", got)
		}
		c.Deny(false)
		c.Put(ipv4("engine-1", pod("b", "10.0.0.2")))
		after(time.Minute)
		c.pool(t, "allowed again", "ns/b/0")
		if !strings.Contains(c.log.String(), "discovery recovered") {
			t.Error("the recovery was not said")
		}
	})
}

// Cases 2 and 3 from the wire to the pool, on the event and without any time passing.
func TestChangesOfASliceAreFollowedAtOnce(t *testing.T) {
	inCluster(t, twoPods, func(t *testing.T, c *cluster) {
		a, b := pod("a", "10.0.0.1"), pod("b", "10.0.0.2")
		c.pool(t, "at first", "ns/a/0 ns/b/0")
		begin := time.Now()
		c.Put(ipv4("engine-1", a, terminating(b)))
		c.pool(t, "b is terminating", "ns/a/0")
		c.Put(ipv4("engine-1", unready(a), terminating(b)))
		c.pool(t, "a is unready", "ns/b/0")
		c.Put(ipv4("engine-1", a, b, pod("c", "10.0.0.3")))
		c.pool(t, "all are back and c is new", "ns/a/0 ns/b/0 ns/c/0")
		relabelled := ipv4("engine-1", a, b, pod("c", "10.0.0.3"))
		relabelled.Labels["canary"] = "yes"
		c.Drop("engine-1") // what a watch with a selector sees of it
		c.pool(t, "the Service was relabelled", "")
		c.Put(relabelled)
		c.pool(t, "it no longer matches", "")
		if got := scrape(t, c.reg); strings.Contains(got, `routerfleet_discovery_endpoints_skipped`) {
			t.Fatalf("skipped\n%s", got)
		}
		names := slice("engine-names", discoveryv1.AddressTypeFQDN, pod("n", "engine.example"))
		c.Put(names)
		c.pool(t, "a name is no worker", "")
		if got := scrape(t, c.reg); !strings.Contains(got, `routerfleet_discovery_endpoints_skipped{reason="fqdn"} 1`) {
			t.Fatalf("not counted\n%s", got)
		}
		c.Put(slice("engine-6", discoveryv1.AddressTypeIPv6, pod("d", "fd00::4")))
		c.pool(t, "an engine that does not answer is not routed to", "")
		c.Put(ipv4("engine-4", pod("d", "10.0.0.4")))
		if took := time.Since(begin); took != 0 {
			t.Fatalf("following took %v", took)
		}
		after(10 * time.Second)
		c.pool(t, "d answers at its other address", "ns/d/0")
		for _, r := range c.Asked() {
			if r.Path != "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices" || r.Selector != "app in (engine),!canary" {
				t.Fatalf("asked for %+v", r)
			}
		}
	})
}

func TestTheStreamingListIsUsedWhereThereIsOne(t *testing.T) {
	inCluster(t, twoPods, func(t *testing.T, c *cluster) {
		c.pool(t, "at first", "ns/a/0 ns/b/0")
		lists := slices.ContainsFunc(c.Asked(), func(r slicewatchtest.Request) bool { return r.Verb == "list" })
		if lists != c.listOnly {
			t.Fatalf("listOnly %v: lists %v", c.listOnly, lists)
		}
	})
}
