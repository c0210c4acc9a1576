package simulation

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/test/data/traces"
)

// rolled replays a trace's first n requests, all for 0, through three routers that are replaced a minute apart from half
// time on; the window is the tenth of the trace that follows the last.
func rolled(t *testing.T, n int, s FleetSetup) (result FleetResult) {
	t.Helper()
	requests, err := traces.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	if n > 0 {
		requests = requests[:n]
	}
	synctest.Test(t, func(t *testing.T) {
		if result, err = ReplayFleet(t.Context(), requests, s); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%+v: %.2f %%", result, 100*result.HitRatio())
	if result.Requests != len(requests) {
		t.Errorf("%d of %d requests were answered", result.Requests, len(requests))
	}
	return result
}

// rolling is a rolling update of a fleet from half time on.
func rolling(requests []traces.Request) FleetSetup {
	last := requests[len(requests)-1].At
	half := last / 2
	s := FleetSetup{
		Setup:    cacheAware(),
		Restarts: []time.Duration{half, half + time.Minute, half + 2*time.Minute},
	}
	s.From = s.Restarts[2]
	s.To = s.From + last/10
	return s
}

// blind is a rolling update of routers that know only what they heard themselves, whole.
func blind(requests []traces.Request) FleetSetup {
	s, knobs := rolling(requests), policy.DefaultKnobs()
	knobs.PredictTTL = 0
	s.Mode, s.Policy = index.Contiguous, named(policy.NameCacheAware, knobs)
	return s
}

// The shared first blocks were announced before the new routers listened, and are not announced again.
func TestARollingUpdateOfColdRoutersForgetsWhereThePrefixesAre(t *testing.T) {
	wholeTrace(t)
	requests, err := traces.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	requests = requests[:1500]
	calm := blind(requests)
	calm.Restarts = nil
	with, without := rolled(t, len(requests), blind(requests)), rolled(t, len(requests), calm)
	if with.Window != without.Window || with.Window < 50 {
		t.Fatalf("windows of %d and %d requests", with.Window, without.Window)
	}
	if with.HitRatio() > without.HitRatio()-0.05 {
		t.Errorf("hit ratio %.3f after the update, %.3f without one: it costs nothing, so warm boots would show nothing", with.HitRatio(), without.HitRatio())
	}
}

// Three routers, each copied from siblings of which some were copied themselves.
func TestAWarmRollingUpdateKeepsWhatTheRoutersKnew(t *testing.T) {
	wholeTrace(t)
	requests, err := traces.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	requests = requests[:1500]
	calm, warm := blind(requests), blind(requests)
	calm.Restarts, warm.Warm = nil, true
	with, without := rolled(t, len(requests), warm), rolled(t, len(requests), calm)
	wantWarm(t, with)
	if off := with.HitRatio() - without.HitRatio(); off < -0.01 {
		t.Errorf("hit ratio %.3f after the update, %.3f without one: want it within a point", with.HitRatio(), without.HitRatio())
	}
}

func wantWarm(t *testing.T, r FleetResult) {
	t.Helper()
	if len(r.Verdicts) != 3 {
		t.Errorf("%d routers were replaced, want 3", len(r.Verdicts))
	}
	for i, v := range r.Verdicts {
		if v != status.VerdictWarm {
			t.Errorf("the boot of router %d: %s, want warm", i, v)
		}
	}
}
