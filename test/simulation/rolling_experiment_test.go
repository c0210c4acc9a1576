//go:build experiment

package simulation

import (
	"testing"

	"github.com/routerfleet/routerfleet/test/data/traces"
)

// TestRollingExperiment is `make experiment-rolling`: what a rolling update costs of the block hit ratio, the whole trace
// through three routers before eight engines.
func TestRollingExperiment(t *testing.T) {
	requests, err := traces.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	calm := rolling(requests)
	calm.Restarts = nil
	none := rolled(t, 0, calm).HitRatio()
	t.Run("warm", func(t *testing.T) {
		s := rolling(requests)
		s.Warm = true
		r := rolled(t, 0, s)
		wantWarm(t, r)
		if got := r.HitRatio(); got < none-0.01 {
			t.Errorf("hit ratio %.4f, without restarts %.4f: want it within a point", got, none)
		}
	})
	t.Run("cold, match=deepest", func(t *testing.T) { rolled(t, 0, rolling(requests)) })
	t.Run("cold, match=contiguous, nothing predicted", func(t *testing.T) {
		if got := rolled(t, 0, blind(requests)).HitRatio(); got > none-0.10 {
			t.Errorf("hit ratio %.4f, without restarts %.4f: the experiment measures nothing", got, none)
		}
	})
}
