package ingest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	wire "github.com/routerfleet/routerfleet/router/kvevents/kveventstest"
)

func TestEveryListedEngineIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil, "a", "b")
		w.doubles["a"].say(wireChain(root, 1, 2))
		w.doubles["b"].say(wireChain(root, 1))
		w.want("a", 2, 1, 2)
		w.want("b", 1, 1, 2)
		s := w.pump.status("a")
		if s.Cursor.Proof != Origin || s.Cursor.Incarnation.Start != (Start{Known: true, ID: "p1"}) {
			t.Errorf("cursor: %+v", s.Cursor)
		}
		if k := w.pump.View().Rank(index.Rank{Worker: "a"}).Section.Key; k != (SectionKey{"m", index.SchemeSGLang, 4, false}) {
			t.Errorf("section: %v", k)
		}
		if n := w.feed.Subscribed(); n != 2 {
			t.Errorf("%d workers are subscribed to", n)
		}
		if !w.feed.Looked("a") || !w.feed.Looked("b") {
			t.Error("a followed engine does not count as looked at")
		}
		w.stop()
	})
}

func TestARankIsAsLargeAsItsEngineSaysNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		d := newEngineDouble(t, w.net, "a")
		w.doubles["a"] = d
		d.facts.Info.CapacityTokens = 4096
		d.boot("p1")
		w.show(d.engine)
		w.settle()
		rank := w.pump.View().Rank(index.Rank{Worker: "a"})
		if got := rank.CapacityTokens(); got != 4096 {
			t.Errorf("%d tokens, want what the engine says", got)
		}
		d.say(wireChain(root, 1, 2))
		w.want("a", 2, 1, 2)

		before := w.pump.View()
		d.mu.Lock()
		d.facts.Info.CapacityTokens = 64
		d.mu.Unlock()
		d.die() // it restarts in place with less memory, and is asked anew
		d.boot("p2")
		w.settle()
		if got := w.pump.View().Rank(rank.Rank).CapacityTokens(); got != 64 {
			t.Errorf("%d tokens after the restart, want what the engine says now", got)
		}
		if w.pump.View() == before {
			t.Error("the view is the same: nobody looks again")
		}
		w.stop()
	})
}

// A replica that boots beside an engine that has said much already hears it all, if the engine repeats.
func TestALateReplicaHearsItAllFromAnEngineThatRepeats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		d := newEngineDouble(t, w.net, "a")
		w.doubles["a"] = d
		d.boot("p1")
		for i := range 50 {
			d.say(wireChain(i-1, i))
		}
		w.show(d.engine)
		w.settle()
		w.want("a", 10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
		if s := w.pump.status("a"); s.Cursor.Proof != Origin || s.Cursor.Seq != 49 {
			t.Errorf("cursor: %+v", s.Cursor)
		}
		w.stop()
	})
}

// B15. The list is the registry's: it names an engine that is not ready, that fails its probes, that is in no slice for a
// minute. Meanwhile its connection may break too.
func TestReadinessFlapOfAnEngineForgetsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil, "a")
		d := w.doubles["a"]
		d.say(wireChain(root, 1, 2))
		w.want("a", 2, 1, 2)
		life := w.pump.status("a").Life
		for range 5 {
			w.show(d.engine)
			w.want("a", 2, 1, 2)
		}
		d.cutConnections()
		w.want("a", 2, 1, 2)
		w.settle()
		d.say(wireChain(2, 3))
		w.want("a", 3, 1, 2, 3)
		s := w.pump.status("a")
		if s.Life != life || s.Cursor.Proof != Origin || s.Tally.Restarts != [restartHows]uint64{} {
			t.Errorf("status: %+v", s)
		}
		w.stop()
	})
}

func TestAnEngineRestartInPlaceClearsItsBlocks(t *testing.T) {
	for name, seqs := range map[string]int{"met at its first batch": 1, "past the old cursor": 9} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, nil, "a", "b")
				d := w.doubles["a"]
				d.say(wireChain(root, 1, 2))
				d.say(wireChain(2, 3))
				w.doubles["b"].say(wireChain(root, 1, 2))
				w.want("a", 3, 1, 2, 3)
				d.die()
				d.boot("p2")
				for i := range seqs {
					d.say(wireChain(root, 100+i))
				}
				w.settle()
				d.say(wireChain(root, 200))
				w.want("a", 0, 1, 2, 3)
				w.want("a", 1, 100)
				w.want("a", 1, 200)
				w.want("b", 2, 1, 2)
				s := w.pump.status("a")
				restarts := uint64(0)
				for _, n := range s.Tally.Restarts {
					restarts += n
				}
				if restarts != 1 || s.Tally.Gaps != 0 || s.Cursor.Proof != Origin {
					t.Errorf("status: %+v", s)
				}
				w.stop()
			})
		})
	}
}

func TestAnEngineThatIsNotListedAnyMoreIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil, "a", "b")
		w.doubles["a"].say(wireChain(root, 1))
		w.doubles["b"].say(wireChain(root, 1))
		w.want("a", 1, 1)
		w.show(w.doubles["b"].engine)
		w.want("a", -1, 1)
		w.want("b", 1, 1)
		if n := w.doubles["a"].pub.Subscriptions(); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
		w.show(w.doubles["a"].engine, w.doubles["b"].engine)
		w.settle()
		w.want("a", 1, 1) // it repeats
		w.stop()
	})
}

// An engine that is restarted with other flags publishes elsewhere, and in other blocks.
func TestAnEngineThatPublishesElsewhereIsFollowedThere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil, "a")
		d := w.doubles["a"]
		d.say(wireChain(root, 1))
		w.want("a", 1, 1)
		epoch := w.feed.public.Load().subs[0].last.Load()
		d.die()
		d.facts.Info.Events.EndpointPort, d.facts.Info.Events.DPSize = port(6000), port(1)
		d.boot("p2")
		<-time.After(DefaultRecheck)
		w.settle()
		d.say(wireChain(root, 2))
		w.want("a", 0, 1)
		w.want("a", 1, 2)
		if now := w.feed.public.Load().subs[0].last.Load(); now <= epoch {
			t.Errorf("epoch %d came after %d", now, epoch)
		}
		if s := w.pump.status("a"); s.Tally.Restarts[HowSettings] != 1 || s.Cursor.Proof != Origin {
			t.Errorf("status: %+v", s)
		}
		d.die()
		block := port(16)
		d.mu.Lock()
		d.facts.Info.Events = &kvevents.Advertised{Publisher: "zmq", EndpointPort: port(6000), BlockSize: block, DPSize: port(1)}
		d.mu.Unlock()
		d.boot("p3")
		w.settle()
		if k := w.pump.View().Rank(index.Rank{Worker: "a"}).Section.Key; k.BlockSize != 16 {
			t.Errorf("section: %v", k)
		}
		w.want("a", 0, 2)
		w.stop()
	})
}

func TestEveryRankHasASubscription(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		d := newEngineDouble(t, w.net, "a")
		d.facts.Info.Events.DPSize = port(3)
		d.facts.Info.Events.ReplayPort = nil
		w.doubles["a"] = d
		d.boot("p1")
		w.show(d.engine)
		w.settle()
		if n := len(w.pump.View().Ranks()); n != 3 {
			t.Errorf("%d ranks", n)
		}
		if n := w.feed.Subscribed(); n != 0 { // ranks 1 and 2 publish nowhere
			t.Errorf("%d workers are wholly subscribed to", n)
		}
		if got := scrape(t, w.pump.reg)["routerfleet_kv_subscriptions_up{ns/a}"]; got != 1 {
			t.Errorf("%v subscriptions are up, want 1", got)
		}
		w.stop()
	})
}

func TestAnEngineThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		d := newEngineDouble(t, w.net, "a")
		d.err = errDown
		w.doubles["a"] = d
		w.show(d.engine)
		<-time.After(time.Minute)
		if d.asked < 4 || d.asked > 8 {
			t.Errorf("asked %d times in a minute", d.asked)
		}
		if !w.feed.Looked("a") || w.feed.Looked("b") {
			t.Error("who was asked in vain was looked at, who is not listed was not")
		}
		d.mu.Lock()
		d.err = nil
		d.mu.Unlock()
		d.boot("p1")
		<-time.After(DefaultRecheck)
		w.settle()
		d.say(wireChain(root, 1))
		w.want("a", 1, 1)
		asked := d.asked
		<-time.After(10 * time.Minute)
		if d.asked != asked {
			t.Errorf("an engine whose events come was asked %d times more", d.asked-asked)
		}
		w.stop()
	})
}

// vLLM says nothing of its events: they are where they were configured to be.
func TestAConfiguredEngineIsFollowedByItsTokens(t *testing.T) {
	for _, dialect := range []wire.Dialect{wire.VLLMArray, wire.VLLMMapInts} {
		t.Run(dialect.Name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, nil)
				d := newEngineDouble(t, w.net, "a")
				d.dialect = dialect
				d.engine.Configured = kvevents.Configured{Port: 5557, BlockSize: 4, ReplayPort: 5600}
				w.doubles["a"] = d
				d.boot("p1")
				d.facts.Info.Events = nil
				w.show(d.engine)
				w.settle()
				d.say(wireChain(root, 1, 2), wireChain(root, 1))
				d.say(wireGone(1))
				w.want("a", 2, 1, 2)
				if k := w.pump.View().Rank(index.Rank{Worker: "a"}).Section.Key; k.Scheme != index.SchemeTokens {
					t.Errorf("section: %v", k)
				}
				w.stop()
			})
		})
	}
}

func TestAnEngineWithoutEventsRoutesWithoutCache(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil, "a")
		d := w.doubles["a"]
		d.say(wireChain(root, 1))
		d.die()
		d.mu.Lock()
		d.facts.Info.Events = nil // restarted without them
		d.mu.Unlock()
		<-time.After(2 * DefaultRecheck)
		w.want("a", -1, 1)
		if p := w.problems(); len(p) != 0 {
			t.Errorf("problems: %v", p)
		}
		w.stop()
	})
}

func TestAForeignHostIsAProblemAndNoSubscription(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		d := newEngineDouble(t, w.net, "a")
		d.facts.Info.Events.EndpointHost = "victim"
		w.doubles["a"] = d
		d.boot("p1")
		w.show(d.engine)
		w.settle()
		w.want("a", -1, 1)
		if p := w.problems(); !slices.Contains(p, "ns/a "+kvevents.CodeForeignHost) {
			t.Errorf("problems: %v", p)
		}
		w.stop()
	})
}

func TestTwoEnginesWithOnePublisherAreNotFollowed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil, "a")
		w.doubles["a"].say(wireChain(root, 1))
		w.want("a", 1, 1)
		twin := w.doubles["a"].engine
		twin.ID, twin.Name = "twin", "ns/twin"
		w.show(w.doubles["a"].engine, twin)
		w.settle()
		w.want("a", -1, 1)
		w.want("twin", -1, 1)
		if p := w.problems(); !slices.Equal(p, []string{"ns/a " + kvevents.CodeSettings, "ns/twin " + kvevents.CodeSettings}) {
			t.Errorf("problems: %v", p)
		}
		w.show(w.doubles["a"].engine)
		<-time.After(DefaultRecheck)
		w.settle()
		w.want("a", 1, 1)
		if p := w.problems(); len(p) != 0 {
			t.Errorf("problems: %v", p)
		}
		w.stop()
	})
}

func TestAStreamThatIsNotTrustedIsAProblem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil, "a")
		d := w.doubles["a"]
		d.say(wireChain(root, 1), wire.Raw("\x91\xa7Unheard"))
		if p := w.problems(); !slices.Equal(p, []string{"ns/a " + CodeUntrusted}) {
			t.Errorf("problems: %v", p)
		}
		d.say(wire.Cleared{})
		if p := w.problems(); len(p) != 0 {
			t.Errorf("problems: %v", p)
		}
		d.say(wire.Stored{Hashes: []wire.Hash{1, 2}, Tokens: make([]uint32, 32), BlockSize: 16})
		if p := w.problems(); !slices.Equal(p, []string{"ns/a " + kvevents.CodeSettings}) {
			t.Errorf("problems: %v", p)
		}
		w.stop()
	})
}

func TestAFeedEndsWithItsPump(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil, "a")
		w.pump.stop()
		w.show() // forget a: there is nobody to tell
		if err := <-w.done; !errors.Is(err, ErrStopped) {
			t.Errorf("the feed ended with %v", err)
		}
		w.doubles["a"].die()
	})
}

func TestAFeedNeedsItsCollaborators(t *testing.T) {
	if _, err := NewFeed(FeedOptions{}); err == nil || !strings.Contains(err.Error(), "pump") {
		t.Errorf("got %v", err)
	}
}
