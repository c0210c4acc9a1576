package zmtp

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// running starts f and gives a function that ends it and waits.
func running(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	return func() { cancel(); <-done }
}

func subscription(n *network, r *recorder, topic string) *Sub {
	return NewSub(SubOptions{Options: Options{Dial: n.dial}, Address: "engine", Topic: topic, Rand: func(int64) int64 { return 0 }}, r)
}

func TestAPublisherThatRestartsBeginsANewEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, r := newNetwork(), &recorder{}
		stopSub := running(subscription(n, r, "").Run)
		for life := 1; life <= 3; life++ {
			pub := NewPub(PubOptions{})
			l := n.listen("engine")
			stopPub := running(func(ctx context.Context) error { return pub.Serve(ctx, l) })
			time.Sleep(2 * maxRedial)
			synctest.Wait()
			pub.Publish([]byte("topic"), []byte(fmt.Sprint("life ", life)))
			synctest.Wait()
			stopPub()
			synctest.Wait()
		}
		stopSub()
		var story []string
		for _, c := range r.calls {
			if c.what != "unreachable" {
				story = append(story, fmt.Sprintf("%s %d", c.what, c.epoch))
			}
		}
		want := []string{"connected 1", "message 1", "disconnected 1", "connected 2", "message 2", "disconnected 2", "connected 3", "message 3", "disconnected 3"}
		if !slices.Equal(story, want) {
			t.Errorf("story\n got %q\nwant %q", story, want)
		}
	})
}

func TestRedialsBackOffAndNeverEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, r := newNetwork(), &recorder{}
		stop := running(subscription(n, r, "").Run)
		time.Sleep(time.Hour)
		stop()
		var pauses []time.Duration
		for i := 1; i < 9; i++ {
			pauses = append(pauses, r.calls[i].at.Sub(r.calls[i-1].at))
		}
		// Half of each doubling pause; the other half is the jitter, 0 here.
		want := []time.Duration{25, 50, 100, 200, 400, 800, 1000, 1000}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if !slices.Equal(pauses, want) {
			t.Errorf("pauses %v, want %v", pauses, want)
		}
		if n := len(r.texts("unreachable")); n < 3500 {
			t.Errorf("%d attempts in an hour, want one a second to its end", n)
		}
	})
}

func TestAPeerThatAcceptsAndClosesIsNotDialledInAHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, r := newNetwork(), &recorder{}
		l := n.listen("engine")
		go func() {
			for {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				c, err := handshake(context.Background(), nc, PUB, quiet.withDefaults())
				if err == nil {
					c.next()
					c.Close()
				}
			}
		}()
		stop := running(subscription(n, r, "").Run)
		time.Sleep(time.Minute)
		stop()
		l.Close()
		if n := len(r.texts("connected")); n > 80 {
			t.Errorf("%d connections in a minute", n)
		}
	})
}

func TestASlowHandlerIsNotTakenForASilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, r := newNetwork(), &recorder{entered: make(chan struct{}), resume: make(chan struct{})}
		pub := NewPub(PubOptions{Options: quiet})
		l := n.listen("engine")
		stopPub := running(func(ctx context.Context) error { return pub.Serve(ctx, l) })
		s := NewSub(SubOptions{Options: Options{Dial: n.dial, HeartbeatInterval: time.Hour}, Address: "engine"}, r)
		stopSub := running(s.Run)
		synctest.Wait()
		pub.Publish([]byte("1"))
		<-r.entered
		time.Sleep(10 * DefaultHeartbeatTimeout) // longer than a peer may be silent
		pub.Publish([]byte("2"))
		r.resume <- struct{}{}
		<-r.entered
		r.resume <- struct{}{}
		stopSub()
		stopPub()
		if got := r.texts("message"); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("delivered %q", got)
		}
	})
}
