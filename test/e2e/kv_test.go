//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/test/e2e/live"
)

const kvEngines = 4

// TestKVEveryRouterFollowsWhatEngineHoldsAPrefix: three routers, four engines, three prefixes on an engine each. What one
// router sent, or nobody did, all know from the engines' events. Prompts are asked for with a new tail each time, so that
// nothing but the shared prefix can bring two of them to the same engine: their ties fall differently.
func TestKVEveryRouterFollowsWhatEngineHoldsAPrefix(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	e := s.startEngines(kvEngines, kvEngineArgs...)
	k := s.followsEvents(e, kvEngines, replicas(3))
	a, b, c := k.serveFirst(), k.serveFirst(), k.serveFirst()
	for _, h := range []held{a, b, c} {
		k.await(fmt.Sprintf("every router knows prefix %d on %s", h.number, h.engine), func() error { return k.known(h) })
	}

	steps := []struct {
		name string
		run  func(*kvFleet)
	}{
		{"the same prefix goes to the same engine through any router", func(k *kvFleet) { k.allGoHome(a, b, c) }},
		{"a readiness flap clears nothing", func(k *kvFleet) { k.flap(c, a, b) }},
		{"what an engine evicts is forgotten everywhere", func(k *kvFleet) { k.pressOut(a, b, c) }},
		{"a restart in place from seq 0 clears the engine's blocks", func(k *kvFleet) { k.restart(b, 0, c) }},
		{"a restart in place past the old cursor clears them as well", func(k *kvFleet) {
			k.restart(c, k.engines.nextSeq(c.engine)+1_000, b)
		}},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.run(k.in(t)) }) {
			return // the next begins where this one should have ended
		}
	}
	k.await("the fleet says that its routers read every engine's events", func() error { return k.saysSubscribed(kvEngines) })
}

// serveFirst has a prefix served once, through a router whose turn it is, by an engine that has no other prefix yet.
// Which engine gets a prompt that nobody has is the rendezvous' choice, so it tries prefixes until one falls there.
func (k *kvFleet) serveFirst() held {
	k.Helper()
	router := k.routers[len(k.taken)%len(k.routers)]
	for range 40 {
		p := k.newPrefix(kvPrefixPages)
		got := k.ask(router, p)
		if got.cached != 0 || got.engine == "" {
			k.Fatalf("prefix %d is new, and engine %q found %d tokens of it cached", p.number, got.engine, got.cached)
		}
		if !k.taken[got.engine] {
			k.taken[got.engine] = true
			return held{prefix: p, engine: got.engine}
		}
	}
	k.Fatalf("40 prompts that nobody has cached all went to engines %v", slices.Sorted(maps.Keys(k.taken)))
	return held{}
}

func (k *kvFleet) allGoHome(all ...held) {
	for range 2 {
		for _, h := range all {
			k.mustGoTo(h)
		}
	}
}

// flap takes the engine of h out of rotation and back. Nobody may learn anything new of it, or forget anything.
func (k *kvFleet) flap(h held, others ...held) {
	before := k.stream(h.engine)
	k.engines.ready(h.engine, false)
	k.await("the engine is out of rotation", func() error { return k.fleet.routers(inRotation(kvEngines - 1)) })
	for _, other := range others {
		k.mustGoTo(other)
	}
	k.engines.ready(h.engine, true)
	k.await("it is back", func() error { return k.fleet.routers(inRotation(kvEngines)) })
	if err := k.known(h); err != nil {
		k.Errorf("right after the flap: %v", err)
	}
	k.mustGoTo(h)
	if after := k.stream(h.engine); !maps.Equal(before, after) {
		k.Errorf("the flap is seen in the event stream of %s: before %v, after %v", h.engine, before, after)
	}
}

// stream is what routers count of an engine's event stream that a life of one connection leaves alone.
func (k *kvFleet) stream(engine string) map[string]float64 {
	k.Helper()
	counts := map[string]float64{}
	for _, r := range k.routers {
		metrics, err := k.RouterMetrics(k.ctx, k.namespace, r.pod)
		if err != nil {
			k.Fatal(err)
		}
		for _, family := range []string{
			"routerfleet_kv_subscription_connects_total", "routerfleet_kv_origins_total", "routerfleet_kv_restarts_total",
			"routerfleet_kv_gaps_total", "routerfleet_kv_blocks",
		} {
			sum, ok := metrics.Sum(family, map[string]string{"worker": k.worker(engine)})
			if !ok {
				k.Fatalf("router %s has no series %s of %s", r.pod, family, k.worker(engine))
			}
			counts[r.pod+" "+family] = sum
		}
	}
	return counts
}

// pressOut fills the cache of h's engine with prompts that no router has seen, until h is evicted.
func (k *kvFleet) pressOut(h held, others ...held) {
	const pages = kvCachePages / 4
	var last held
	for range kvCachePages/pages + 1 {
		last = held{prefix: k.newPrefix(pages), engine: h.engine}
		k.give(h.engine, last.prefix)
	}
	k.await("no router counts on the engine for the evicted prefix", func() error { return k.gone(h.prefix) })
	// The eviction may have been told before the last prompt was stored.
	k.await("every router knows what pressed it out", func() error { return k.known(last) })
	for _, other := range others {
		if err := k.known(other); err != nil {
			k.Errorf("what other engines hold: %v", err)
		}
	}
	if got := k.ask(k.routers[0], h.prefix); got.cached != 0 {
		k.Errorf("engine %s still has %d tokens of the prefix: the routers forgot too much", got.engine, got.cached)
	}
}

// restart has the engine of h begin a new life in place, its events from seq on. The routers must drop all it held
// before it tells anything new, and follow the new life.
func (k *kvFleet) restart(h held, seq int64, other held) {
	before := k.restarts(h.engine)
	k.engines.fault(h.engine, fmt.Sprintf(`{"name":"restart","seq":%d,"cut":true}`, seq))
	took := k.await("no router counts on the engine for what its old life held", func() error { return k.gone(h.prefix) })
	k.Logf("the restart was noticed by every router %s after it", took)
	if err := k.known(other); err != nil {
		k.Errorf("what another engine holds: %v", err)
	}
	for pod, n := range k.restarts(h.engine) {
		if n != before[pod]+1 {
			k.Errorf("router %s counts %v restarts of %s, want %v", pod, n, h.engine, before[pod]+1)
		}
	}
	k.give(h.engine, h.prefix)
	k.await("every router knows what the new life holds", func() error { return k.known(h) })
	k.mustGoTo(h)
}

// restarts is how many restarts of an engine each router has seen in its event stream.
func (k *kvFleet) restarts(engine string) map[string]float64 {
	k.Helper()
	counts := map[string]float64{}
	for _, r := range k.routers {
		metrics, err := k.RouterMetrics(k.ctx, k.namespace, r.pod)
		if err != nil {
			k.Fatal(err)
		}
		counts[r.pod], _ = metrics.Sum("routerfleet_kv_restarts_total", map[string]string{"worker": k.worker(engine)})
	}
	return counts
}

// TestKVAnEngineThatLiesOfItsEventsIsNamedAndServes: of three engines one claims 60,000 ranks and one the address of
// somebody else. The fleet says so, believes neither, and sends both requests like any engine.
func TestKVAnEngineThatLiesOfItsEventsIsNamedAndServes(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	e := s.startEngines(3)
	e.fault(engineName(0), `{"name":"kv_advertise","dp_size":60000}`)
	e.fault(engineName(1), `{"name":"kv_advertise","host":"192.0.2.1"}`) // TEST-NET-1 of RFC 5737
	f := s.createFleet("doubts", replicas(2))

	f.await("the fleet names both lies", func() error {
		fleet := f.get()
		return all(
			hasCondition(fleet, v1alpha1.ConditionWorkersDiscovered, metav1.ConditionTrue, v1alpha1.ReasonWorkersFound),
			messageNames(fleet, v1alpha1.ConditionWorkersDiscovered, "event_settings (1)", "foreign_event_host (1)"),
			f.settled(fleet),
		)
	})
	f.await("every router reads the events of the honest engine alone", func() error {
		return f.routers(func(m live.Metrics) error {
			up := m.By("routerfleet_kv_subscriptions_up", "worker")
			if len(up) != 1 || up[s.worker(engineName(2))] != 1 {
				return fmt.Errorf("subscriptions up: %v, want 1 of %s and no other", up, engineName(2))
			}
			return nil
		})
	})
	k := &kvFleet{fleet: f, engines: e, numbers: &numbers{}}
	answers := map[string]int{}
	for _, pod := range f.pods() {
		router := kvRouter{pod: pod.Name, base: f.forward(pod.Name)}
		for range 30 { // of which each engine gets some: the choice among equals is a hash's
			answers[k.ask(router, k.newPrefix(2)).engine]++
		}
	}
	for i := range 3 {
		if answers[engineName(i)] == 0 {
			t.Errorf("answers by engine: %v, want some of each", answers)
		}
	}
}

// messageNames is nil if the condition's message contains each text.
func messageNames(fleet *v1alpha1.RouterFleet, conditionType string, texts ...string) error {
	c := meta.FindStatusCondition(fleet.Status.Conditions, conditionType)
	if c == nil {
		return fmt.Errorf("condition %s is absent", conditionType)
	}
	for _, text := range texts {
		if !strings.Contains(c.Message, text) {
			return fmt.Errorf("condition %s says %q, want %q in it", conditionType, c.Message, text)
		}
	}
	return nil
}
