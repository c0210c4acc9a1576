package publish

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/routerfleet/routerfleet/router/zmtp"
	"github.com/routerfleet/routerfleet/test/enginesim"
)

// gauge follows a rank's load.
type gauge struct {
	follower
	values [][]any
}

func (g *gauge) Message(_ uint64, parts [][]byte) {
	v, _, err := msgp.ReadIntfBytes(parts[2])
	if err != nil || string(parts[0]) != DefaultLoadTopic {
		g.wrong = append(g.wrong, fmt.Sprintf("%q: %v", parts, err))
		return
	}
	g.values = append(g.values, v.([]any))
}

func loads(t *testing.T, test func(*rig, *gauge)) {
	served(t, enginesim.Options{DPSize: 2, PageSize: 2, Blocks: 50, TokenInterval: time.Hour}, Options{Ports: Ports{Events: 5557, Load: 5757}}, func(r *rig) {
		g := &gauge{}
		sub := zmtp.NewSub(zmtp.SubOptions{Options: zmtp.Options{Dial: r.network.Dial, HeartbeatInterval: -1}, Address: r.server.address(5757, 1), Topic: DefaultLoadTopic}, g)
		ctx, cancel := context.WithCancel(r.t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = sub.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		submitted, drop := context.WithCancel(r.t.Context())
		defer drop()
		if _, err := r.engine.Submit(submitted, enginesim.Request{Prompt: tokens(1, 5), Output: tokens(1, 2), Rank: 1}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second + time.Millisecond)
		synctest.Wait()
		test(r, g)
		if len(g.wrong) > 0 {
			t.Errorf("%v", g.wrong)
		}
	})
}

func TestTheLoadGaugeIsSGLangs(t *testing.T) {
	loads(t, func(_ *rig, g *gauge) {
		if len(g.values) < 5 {
			t.Fatalf("%d values in a second, want 5", len(g.values))
		}
		// Seven tokens take four pages of two.
		if got := fmt.Sprint(g.values[len(g.values)-1]...); got != fmt.Sprint("LoadStat", 1, 0, 8, 100, 1) {
			t.Errorf("got %s", got)
		}
	})
}

func testLoadSilent(t *testing.T) {
	loads(t, func(r *rig, g *gauge) {
		if err := r.server.pub.Set(Fault{Name: LoadSilent}); err != nil {
			t.Fatal(err)
		}
		before := len(g.values)
		r.settle()
		if before == 0 || len(g.values) != before {
			t.Errorf("%d values before the fault, %d with it", before, len(g.values)-before)
		}
	})
}
