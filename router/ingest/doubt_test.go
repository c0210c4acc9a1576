package ingest

import (
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
	"github.com/routerfleet/routerfleet/router/policy"
)

var _ policy.Suspicions = (*Pump)(nil)

func TestADoubtedRankCountsAsFarAsItIsContiguous(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newPumpRig(t, Options{})
		rank := index.Rank{Worker: "a"}
		l := r.register("a", &fakeLink{}, false)
		r.send(l, open(1), brings(1, decode(0, wireChain(root, 1, 2, 3))), brings(1, decode(1, wireGone(2))))
		r.want("a", 3, 1, 2, 3) // a child proves its parents
		life := r.status("a").Life

		r.Suspected(rank, life+1, true, 40)
		r.want("a", 3, 1, 2, 3) // it is about another life
		r.Suspected(rank, life, true, 40)
		r.want("a", 1, 1, 2, 3)
		if s := r.status("a"); s.Trust != (Trust{}) {
			t.Errorf("trust: %+v; the policy knows by how much, and discounts", s.Trust)
		}
		r.Suspected(rank, life, false, 99)
		r.want("a", 3, 1, 2, 3)

		r.Suspected(rank, life, true, 40)
		r.send(l, brings(1, decode(2, wire.Cleared{}, wireChain(root, 1, 2, 3), wireGone(2))))
		r.want("a", 3, 1, 2, 3) // what is held now was never doubted
		r.Suspected(index.Rank{Worker: "nobody"}, life, true, 40)
		if n := len(r.doubts.take()); n != 0 {
			t.Errorf("%d words wait about ranks that are not registered", n)
		}
		if n := strings.Count(r.log.String(), "fewer cached tokens"); n != 3 {
			t.Errorf("%d lines for 3 doubts:\n%s", n, r.log.String())
		}
		r.stop()
	})
}
