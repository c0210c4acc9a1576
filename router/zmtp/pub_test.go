package zmtp

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

func TestSubscribersGetTheTopicsTheyAskedFor(t *testing.T) {
	for _, minor := range []int{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			pub := NewPub(PubOptions{})
			l := n.listen("engine")
			stop := running(func(ctx context.Context) error { return pub.Serve(ctx, l) })
			defer stop()
			c, err := Dial(t.Context(), "engine", SUB, Options{Dial: n.dial, Minor: minor})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			got := make(chan string, 10)
			go func() {
				for {
					m, err := c.Recv()
					if err != nil {
						return
					}
					got <- string(m[0])
				}
			}()
			for _, topic := range []string{"kv", "kv", "load"} {
				if err := c.Subscribe(topic); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			for _, topic := range []string{"k", "kv", "kv-events", "load", "other"} {
				pub.Publish([]byte(topic))
			}
			synctest.Wait()
			close(got)
			var topics []string
			for g := range got {
				topics = append(topics, g)
			}
			if want := []string{"kv", "kv-events", "load"}; !slices.Equal(topics, want) {
				t.Errorf("minor %d: got %q, want %q", minor, topics, want)
			}
		})
	}
}

func TestACancelledTopicIsKeptUntilItsLastSubscription(t *testing.T) {
	p := NewPub(PubOptions{})
	s := &subscriber{topics: map[string]int{}}
	step := func(by int, want bool) {
		t.Helper()
		if err := p.change(s, "kv", by); err != nil {
			t.Fatal(err)
		}
		if s.wants([]byte("kv")) != want {
			t.Errorf("wants kv: %v, want %v", !want, want)
		}
	}
	step(1, true)
	step(1, true)
	step(-1, true)
	step(-1, false)
	step(-1, false)
	step(1, true)
}

func TestASubscriberMayNotAskForEndlessTopics(t *testing.T) {
	p := NewPub(PubOptions{})
	s := &subscriber{topics: map[string]int{}}
	for i := range maxSubscriptions {
		if err := p.change(s, fmt.Sprint(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.change(s, "one more", 1); err == nil {
		t.Error("one more was accepted")
	}
	if err := p.change(s, "0", 1); err != nil {
		t.Errorf("a known topic again: %v", err)
	}
}

func TestASlowSubscriberLosesBeyondTheHighWaterMarkAndHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mark, published = 8, 100
		n := newNetwork()
		pub := NewPub(PubOptions{HighWaterMark: mark})
		l := n.listen("engine")
		stop := running(func(ctx context.Context) error { return pub.Serve(ctx, l) })
		defer stop()
		slow, err := Dial(t.Context(), "engine", SUB, Options{Dial: n.dial, HeartbeatInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		if err := slow.Subscribe(""); err != nil {
			t.Fatal(err)
		}
		r := &recorder{}
		stopFast := running(subscription(n, r, "").Run)
		synctest.Wait()
		for i := range published {
			pub.Publish([]byte(fmt.Sprint(i)))
			synctest.Wait()
		}
		stopFast()
		if got := len(r.texts("message")); got != published {
			t.Errorf("the quick subscriber got %d of %d", got, published)
		}
		var got []string
		for len(got) < published-int(pub.Dropped()) {
			m, err := slow.Recv()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(m[0]))
		}
		// One message is in the writer's hands while the queue fills.
		if len(got) != mark+1 || got[0] != "0" || got[mark] != fmt.Sprint(mark) {
			t.Errorf("the slow subscriber got %q, want the first %d", got, mark+1)
		}
	})
}

func TestARouterAnswersEachPeerOnItsOwnConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		router := NewRouter(Options{}, func(_ context.Context, q Request) {
			for i := range 3 {
				q.Reply(nil, []byte(fmt.Sprint(string(q.Parts[1]), i)), q.Identity)
			}
		})
		l := n.listen("engine")
		stop := running(func(ctx context.Context) error { return router.Serve(ctx, l) })
		defer stop()
		for _, name := range []string{"a", "b"} {
			c, err := Dial(t.Context(), "engine", DEALER, Options{Dial: n.dial, Identity: []byte("I" + name)})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.Send(nil, []byte(name)); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				m, err := c.Recv()
				if err != nil || len(m) != 3 || string(m[1]) != fmt.Sprint(name, i) || string(m[2]) != "I"+name {
					t.Errorf("%s: answer %d is %q, %v", name, i, m, err)
				}
			}
		}
	})
}
