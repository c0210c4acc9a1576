package controllers

import (
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/controllers/rollout"
	"github.com/routerfleet/routerfleet/internal/signed"
)

func TestTokensAreReadAgainWithinAMinuteWhileAFleetIsWorkedOn(t *testing.T) {
	for name, c := range map[string]struct {
		keys   []signed.Key
		age    time.Duration
		reason rollout.Reason
		want   time.Duration
	}{
		"just read":           {[]signed.Key{{}}, 0, rollout.WaitingForBootstrap, tokensAge},
		"read a while ago":    {[]signed.Key{{}}, 40 * time.Second, rollout.Held, 20 * time.Second},
		"due":                 {[]signed.Key{{}}, 2 * tokensAge, rollout.Held, time.Millisecond},
		"complete":            {[]signed.Key{{}}, 40 * time.Second, rollout.Complete, 0},
		"never could be read": {nil, 0, rollout.Held, 0},
	} {
		now := noon.Time
		r := &Reconciler{notes: newNotebook(), now: func() time.Time { return now }}
		f := testFleet()
		r.notes.write(f, func(p *page) { p.keys, p.keysRead = c.keys, now })
		now = now.Add(c.age)
		p := &plan{observation: &observation{fleet: f}, decision: rollout.Decision{Reason: c.reason}}
		if got := r.untilTokens(p); got != c.want {
			t.Errorf("%s: again after %s, want %s", name, got, c.want)
		}
	}
}
